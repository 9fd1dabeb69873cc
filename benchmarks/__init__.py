"""Benchmarks: `python -m benchmarks [NAMES]` measures and prints a table.

Every case measures all of its sides in turn within one process, so that other load on the
machine affects all of them, and compares medians. The other sides are written in the style of
expert users.
"""
