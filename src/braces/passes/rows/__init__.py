"""Ragged steps and row-wise branches."""
