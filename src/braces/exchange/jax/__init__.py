"""Import functions of JAX: trace once, and convert each equation to operators."""
