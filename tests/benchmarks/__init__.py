"""Benchmarks, run by ``make bench``: one JSON object a line. Never a timed test."""
