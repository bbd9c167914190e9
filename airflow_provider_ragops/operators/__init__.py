"""Operators: render, build collaborators, call one procedure, report. No decisions live here."""
