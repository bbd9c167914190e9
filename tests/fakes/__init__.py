"""Fakes with the real thing's semantics, for faults that the real thing can't be made to show."""
