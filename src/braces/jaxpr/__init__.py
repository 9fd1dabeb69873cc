"""Functions of JAX as operators: traced once to a jaxpr, each equation of it by a rule."""
