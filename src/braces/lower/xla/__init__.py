"""Lowering of blocks to JAX functions."""
