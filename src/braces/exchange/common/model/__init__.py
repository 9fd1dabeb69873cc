"""Names, weights and errors of imported models."""
