"""Distributions and samplers: distrax, NumPyro, BlackJAX."""
