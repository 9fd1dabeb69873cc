"""Axis maps of operators: notation, shape inference, operation counts."""
