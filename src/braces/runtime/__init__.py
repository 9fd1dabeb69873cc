"""Execution of programs: compiled by XLA, or operator by operator."""
