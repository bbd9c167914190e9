"""The cache of a serving pod: one loaded version's decompositions and search results, in Redis.

Every key carries the version, every value the model, the training run and the dimension; what does not fit the loaded
version is a miss. Whatever happens to Redis, a request is answered, and loses no more than a small time budget.

``version_cache`` is what serving calls; ``settings`` come from the environment. Below it ``entries`` (look, take the
turn to build, keep), ``flights`` and ``lease`` (one builder per key, in a process and across pods), ``marker`` (whose
the keys are), ``keys``, ``values``, ``payload`` and ``seals`` (what is kept, as which bytes), ``store`` (reads and
writes), ``client``, ``cluster`` and ``link`` (how Redis is asked), ``breaker`` and ``budget`` (when it is not), and
``eviction`` (what the server may throw away).
"""
