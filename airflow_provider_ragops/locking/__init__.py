"""A lock with a lease and a fencing token on a ConfigMap."""
