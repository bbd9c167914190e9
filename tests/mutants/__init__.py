"""Mutants: each known way to break a safety rule, applied to a copy of the tree, must make a test fail."""
