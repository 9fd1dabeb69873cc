"""Rules that convert primitives of JAX to operators."""
