"""Convert JAX functions to operators: trace to a jaxpr, and convert each equation by a rule."""
