"""Operators that own sub-blocks."""

from braces.ops.control import loop, switch

__all__ = ["loop", "switch"]
