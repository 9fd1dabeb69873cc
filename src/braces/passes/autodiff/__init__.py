"""Reverse mode, forward mode and activation checkpointing."""
