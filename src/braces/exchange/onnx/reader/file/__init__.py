"""Bytes, schema check."""
