"""Names, weights, errors."""
