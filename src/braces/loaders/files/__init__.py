"""Data sets in files."""
