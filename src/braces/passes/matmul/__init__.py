"""GEMM fusion in loops."""
