"""Activations, normalization, losses, quantization."""
