"""Nodes, function bodies, constant folding and sequences of a graph."""
