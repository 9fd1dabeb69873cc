"""Operator by operator."""
