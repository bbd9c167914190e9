"""The demo, and the services and the cluster that it shares with the tests. Run with ``docker`` on the path."""
