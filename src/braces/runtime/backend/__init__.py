"""Backends of an executor: compiled and interpreted runs."""
