"""Triggers: the asynchronous halves of our sensors; never hold a lock."""
