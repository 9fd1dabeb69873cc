"""Operators that own sub-blocks."""

from braces.ops.control import custom_gradient, plain_block as block
from braces.ops.control.loop import op as loop
from braces.ops.control.partition import op as partition
from braces.ops.control.switch import op as switch

__all__ = ["block", "custom_gradient", "loop", "partition", "switch"]
