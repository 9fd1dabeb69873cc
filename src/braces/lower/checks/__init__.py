"""Checks of a run: failure codes, limits of size and memory."""
