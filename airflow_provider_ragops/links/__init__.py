"""Links from a task to the MLflow page that explains it."""
