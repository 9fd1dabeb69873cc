"""Patterns, their matches in programs, and rewriting by them."""
