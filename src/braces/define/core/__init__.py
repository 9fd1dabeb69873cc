"""Operator kernels: signatures, attribute kinds, calls."""
