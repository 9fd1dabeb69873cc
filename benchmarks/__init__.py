"""Benchmarks: `python -m benchmarks [NAMES]` measures and prints a table.

Every case measures all of its sides in turn within one process, so that what else the machine
does falls on all of them, and compares medians. The other sides are written as their users
would write them well.
"""
