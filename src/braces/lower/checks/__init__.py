"""Checks of a run: failure codes, size limits and memory."""
