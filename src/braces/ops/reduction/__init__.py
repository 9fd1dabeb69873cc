"""Reductions, sorting, cumulative operators and search."""
