"""Execution of blocks: lowering to JAX, and the interpreter."""
