"""Clean-up of Redis by model version."""
