"""Commands of ``airflow ragops``."""
