"""Networks and their parts: Flax, Haiku, jraph, e3nn, chex, dm-pix."""
