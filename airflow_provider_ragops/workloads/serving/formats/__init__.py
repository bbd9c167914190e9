"""MLflow's request and answer formats.

``signature`` (the columns of a model, as far as the direct path knows them) · ``direct`` (the usual requests, read
without pandas' and MLflow's detours) · ``parsed`` (all others, by MLflow's own parser) · ``diagnosis`` (what is wrong
with a refused request, by column) · ``encoding`` (predictions to JSON).

The direct path never refuses: it reads what it knows for certain that MLflow would read in the same way, and leaves
everything else to MLflow. So verdicts and answers are MLflow's.
"""
