"""Stateless random operators."""
