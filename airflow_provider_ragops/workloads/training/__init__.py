"""Arguments, fit, evaluate, register, completion marker."""
