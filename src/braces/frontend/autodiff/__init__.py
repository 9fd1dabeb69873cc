"""Custom gradients, Jacobians, vmap."""
