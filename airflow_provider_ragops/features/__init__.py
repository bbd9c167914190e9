"""Feature snapshots, materialization, training sets and the leakage verdict."""
