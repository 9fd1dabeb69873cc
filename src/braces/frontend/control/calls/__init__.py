"""Calls of whole programs, and functions that build a block once."""
