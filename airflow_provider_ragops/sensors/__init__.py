"""Sensors: wait for something outside, in every mode with the same result."""
