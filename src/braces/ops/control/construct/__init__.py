"""Putting constructs into a block; jvp."""
