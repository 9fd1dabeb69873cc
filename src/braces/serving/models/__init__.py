"""Served models: files and versions, signatures, batch axis, compiled sizes."""
