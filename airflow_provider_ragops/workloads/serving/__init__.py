"""The serving tier: one process serves the one model version that its Deployment pins.

``settings`` (environment) · ``state`` (what the process is and says about itself) · ``artifact`` (download, digest)
· ``model`` (load, warm up, answer) · ``loading`` (the background loop) · ``metrics`` · ``logs`` · ``app`` (HTTP).
Started by ``python -m airflow_provider_ragops.workloads.serving``.
"""
