"""Reverse and forward mode; checkpointing."""
