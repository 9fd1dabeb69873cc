"""Operators that own sub-blocks."""

from braces.ops.control import block, loop, partition, switch

__all__ = ["block", "loop", "partition", "switch"]
