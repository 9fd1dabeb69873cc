"""Training and inference forms of programs."""
