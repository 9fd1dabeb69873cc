"""Resize, sampling, boxes."""
