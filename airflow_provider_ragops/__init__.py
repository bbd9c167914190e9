"""Airflow provider that retrains, gates and safely releases models to a Kubernetes serving tier.

Imports nothing: Airflow discovers providers before it is configured.
"""

__version__ = "0.1.0"
