"""Hooks: connections in, clients and core objects out. The lowest layer that knows Airflow."""
