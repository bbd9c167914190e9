"""Notifiers: tell people what a run decided."""
