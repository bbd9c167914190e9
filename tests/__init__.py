"""unit/ mirrors the package; integration/ talks to real services; system/ drives whole DAGs."""
