"""Time limit and Ctrl-C."""
