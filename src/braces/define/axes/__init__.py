"""Axis maps of operators: notation, shapes, operation counts."""
