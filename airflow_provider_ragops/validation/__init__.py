"""A contract against data, and a capped, JSON-safe report."""
