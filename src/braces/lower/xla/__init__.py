"""Block -> JAX function."""
