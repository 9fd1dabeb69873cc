"""Cancellation of runs: time limit and Ctrl-C."""
