"""Executables: their variants, their cache, and capacities of lists."""
