"""Storage aliasing: the memory layout of tensors, for operators that depend on it.

    x * 2          strides [4, 1], from 0    all numbers of a storage, in order
    (x * 2)[1:].T  strides [1, 4], from 4    some of them

Arrays of programs have no layout. But an export records the layout of each tensor, and which
tensors share a storage. The contents of a storage are therefore known from a tensor that fills
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from braces.errors import ProgramError
from braces.exchange.torch.graph.convert import is_torch
from braces.extend import dims, functions as ops
from braces.extend.building import Var
from braces.extend.types import Size


@dataclass(frozen=True)
class StorageLayout:
    """The strided layout of a tensor in its storage.

    Attributes:
        shape: Its sizes.
        strides: The distance between elements along each axis.
        offset: The position of the first element.
    """

    shape: Sequence[Size]
    strides: Sequence[Size]
    offset: Size = 0

    def dense(self) -> list[int] | None:
        """Return the axes from the outermost one if the layout is dense, else `None`.

        A layout with gaps or overlaps is not dense.
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
class Storage:
    """The storage of a tensor.

    Attributes:
        own: The layout of the tensor.
        made: The layout of the operator's result, if that is a tensor.
        filled: An array that fills the storage, and its layout; `None` if no tensor of the
            export does.
    """

    own: StorageLayout
    made: StorageLayout | None
    filled: tuple[Var, StorageLayout] | None

    def numbers(self) -> Var:
        """Return all numbers of the storage in order.

        Raises:
            ProgramError: If no tensor of the export covers the storage.
        """
        if self.filled is None:
            raise ProgramError(
                "unsupported view: the rest of its storage belongs to no tensor.",
                fix="Pass a contiguous tensor to the module: x.contiguous().",
            )
        x, layout = self.filled
        order = layout.dense() or ()
        return ops.reshape(ops.transpose(x, axes=tuple(order)), (dims.product(x.shape),))


def storage_of(
    node: Any, size_of: Callable[[Any], Size], value_of: Callable[[Any], Var]
) -> Storage:
    """Return the storage of the first argument of a node.

    Args:
        node: The node.
        size_of: Converts a size of torch.
        value_of: Returns the value of an earlier node.
    """
    operand = node.args[0]
    storage = _storage_key(operand)
    for other in node.graph.nodes:
        if other is node:
            break
        if _storage_key(other) == storage:
            layout = _layout(other, size_of)
            if layout.offset == 0 and layout.dense() is not None:
                filled = value_of(other), layout
                return Storage(_layout(operand, size_of), _result_layout(node, size_of), filled)
    return Storage(_layout(operand, size_of), _result_layout(node, size_of), None)


def _storage_key(node: Any) -> tuple[int, str] | None:
    """Return the identity of a node's storage, with the dtype in which the tensor reads it."""
    fake_tensor = node.meta.get("val")
    if not is_torch(fake_tensor, "Tensor"):
        return None
    return fake_tensor.untyped_storage()._cdata, str(fake_tensor.dtype)


def _layout(node: Any, size_of: Callable[[Any], Size]) -> StorageLayout:
    fake_tensor = node.meta["val"]
    shape, strides = (
        [size_of(n) for n in torch_sizes]
        for torch_sizes in (fake_tensor.shape, fake_tensor.stride())
    )
    return StorageLayout(shape, strides, size_of(fake_tensor.storage_offset()))


def _result_layout(node: Any, size_of: Callable[[Any], Size]) -> StorageLayout | None:
    return None if _storage_key(node) is None else _layout(node, size_of)
