"""Code that runs in our images, where Airflow is not installed."""
