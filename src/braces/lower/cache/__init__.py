"""Persistent compilation cache."""
