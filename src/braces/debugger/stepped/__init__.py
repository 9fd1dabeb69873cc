"""Runs that stop: conditions, breakpoints, steps."""
