"""Indexing, gather, scatter."""
