"""Exported graph."""
