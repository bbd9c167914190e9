"""Redis by model version: what is there, whether two versions' keys stay apart, and clean-up.

All of it works on a single server and on a cluster. Nothing here opens a connection or reads a value: the client is
an argument (``redis.Redis`` or ``redis.RedisCluster`` with deadlines and decoded answers), values are serving's.
"""
