"""Executables: variants, LRU cache, and list capacities."""
