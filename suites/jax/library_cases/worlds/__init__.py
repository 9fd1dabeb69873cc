"""Environments, simulations and planning: gymnax, brax, jax-md, mctx."""
