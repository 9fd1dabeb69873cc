"""GEMM fusion and its inverse for matrix products in loops."""
