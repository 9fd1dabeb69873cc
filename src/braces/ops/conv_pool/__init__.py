"""Convolution, pooling and their windows."""
