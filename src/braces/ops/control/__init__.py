"""Operators that own sub-blocks."""

from braces.ops.control import loop, partition, switch

__all__ = ["loop", "partition", "switch"]
