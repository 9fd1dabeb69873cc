"""Batching rules: one operator for all iterations of a loop, as in `vmap`."""
