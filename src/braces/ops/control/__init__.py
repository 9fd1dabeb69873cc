"""Operators that own sub-blocks."""

from braces.ops.control import custom_gradient, plain_block
from braces.ops.control.loop import op as loop_op
from braces.ops.control.partition import op as partition_op
from braces.ops.control.switch import op as switch_op

__all__ = ["custom_gradient", "loop_op", "partition_op", "plain_block", "switch_op"]
