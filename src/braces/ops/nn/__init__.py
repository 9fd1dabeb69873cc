"""Activations, normalization, losses and quantization."""
