"""Operators that own sub-blocks."""

from braces.ops.control import block, custom_gradient, loop, partition, switch

__all__ = ["block", "custom_gradient", "loop", "partition", "switch"]
