"""Nodes, functions, folding."""
