"""Where the numbers of tensors lie, for the operators of torch that speak of that.

    x * 2          strides [4, 1], from 0    the numbers of a memory, in their order
    (x * 2)[1:].T  strides [1, 4], from 4    some of them

Arrays of programs do not lie anywhere. But an export says of each tensor where its numbers lie,
and which tensors share a memory. What a memory holds is therefore known from a tensor that
fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from braces import dims
from braces.builder.var import Var
from braces.dims import Size
from braces.errors import ProgramError
from braces.exchange.torch.graph.convert import is_torch
from braces.frontend.core import functions as ops


@dataclass(frozen=True)
class Layout:
    """Where the numbers of a tensor lie in a memory.

    Attributes:
        shape: Its sizes.
        strides: How far it is from one number to the next, along each axis.
        offset: Where the first one lies.
    """

    shape: Sequence[Size]
    strides: Sequence[Size]
    offset: Size = 0

    def dense(self) -> list[int] | None:
        """The axes from the outermost one, where the numbers lie one after another.

        Nothing where there are gaps between them, or several are one.
        """
        if 0 in self.shape:
            return list(range(len(self.shape)))
        order = [axis for axis, size in enumerate(self.shape) if size == 1]
        left, distance = [axis for axis, size in enumerate(self.shape) if size != 1], 1
        while left:
            next_ = [axis for axis in left if self.strides[axis] == distance]
            if not next_:
                return None
            left.remove(next_[-1])
            order.append(next_[-1])
            distance = dims.product((distance, self.shape[next_[-1]]))
        return order[::-1]


@dataclass(frozen=True)
class Memory:
    """What a tensor lies in.

    Attributes:
        own: Where the tensor itself lies.
        made: Where lies what the operator makes, if that is a tensor.
        filled: An array that fills the memory, and how it lies there; nothing where no tensor
            of the export does.
    """

    own: Layout
    made: Layout | None
    filled: tuple[Var, Layout] | None

    def numbers(self) -> Var:
        """All numbers, in their order.

        Raises:
            ProgramError: The export does not say what lies between those of its tensors.
        """
        if self.filled is None:
            raise ProgramError(
                "The tensor is a part of a memory whose other numbers are in no tensor.",
                fix="Give the module a contiguous tensor: x.contiguous().",
            )
        x, layout = self.filled
        order = layout.dense() or ()
        return ops.reshape(ops.transpose(x, axes=tuple(order)), (dims.product(x.shape),))


def memory_of(
    node: Any, size_of: Callable[[Any], Size], value_of: Callable[[Any], Var]
) -> Memory:
    """What the first argument of a node lies in.

    Args:
        node: What is read.
        size_of: The size that one of torch is.
        value_of: What a node read before stands for.
    """
    given = node.args[0]
    where = _place(given)
    for other in node.graph.nodes:
        if other is node:
            break
        if _place(other) == where:
            layout = _layout(other, size_of)
            if layout.offset == 0 and layout.dense() is not None:
                filled = value_of(other), layout
                return Memory(_layout(given, size_of), _made(node, size_of), filled)
    return Memory(_layout(given, size_of), _made(node, size_of), None)


def _place(node: Any) -> tuple[int, str] | None:
    """Which memory the tensor of a node lies in, and as what it reads that."""
    said = node.meta.get("val")
    if not is_torch(said, "Tensor"):
        return None
    return said.untyped_storage()._cdata, str(said.dtype)


def _layout(node: Any, size_of: Callable[[Any], Size]) -> Layout:
    said = node.meta["val"]
    shape, strides = ([size_of(n) for n in given] for given in (said.shape, said.stride()))
    return Layout(shape, strides, size_of(said.storage_offset()))


def _made(node: Any, size_of: Callable[[Any], Size]) -> Layout | None:
    return None if _place(node) is None else _layout(node, size_of)
