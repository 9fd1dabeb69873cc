"""Equations of a jaxpr, and functions with custom derivatives."""
