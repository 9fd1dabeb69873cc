"""From a block to computation: the lowering to JAX, and the interpreter."""
