"""Fit a head on frozen base embeddings, build the passage store, log; the frame is the training workload's."""
