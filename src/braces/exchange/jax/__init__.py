"""Functions of JAX, read: traced once, and each equation written as operators."""
