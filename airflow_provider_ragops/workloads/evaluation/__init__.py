"""Candidate and champion on the same held-out rows; what follows from the scores is the gate's business."""
