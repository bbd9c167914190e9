"""Candidate and champion on the same held-out questions; the frame is the evaluation workload's."""
