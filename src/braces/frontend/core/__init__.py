"""Variables, parameters, initializers, operator functions."""
