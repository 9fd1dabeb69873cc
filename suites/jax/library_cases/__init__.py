"""Realistic calls of libraries of JAX, as functions and arguments."""
