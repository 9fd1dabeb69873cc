"""Solvers and optimizers: Equinox, lineax, optimistix, diffrax, jaxopt, optax."""
