"""Rules of rarer primitives, written as JAX functions of other primitives."""
