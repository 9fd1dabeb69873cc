"""Reductions, sorting, cumulative operators, search."""
