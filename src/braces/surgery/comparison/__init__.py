"""Traces of runs, and their comparison by content."""
