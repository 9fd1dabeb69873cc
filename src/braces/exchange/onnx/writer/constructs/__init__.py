"""Loops, branches, functions."""
