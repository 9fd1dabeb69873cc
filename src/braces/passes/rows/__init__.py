"""Ragged steps and partitioned branches: masking, padding and loop fission."""
