"""Kernels of operators: signatures, attribute kinds, calls."""
