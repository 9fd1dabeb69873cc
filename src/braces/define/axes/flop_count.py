"""Operation counts (FLOPs) of operators from their axes.

An operation is one sum, product, comparison or function of numbers; a multiply-add counts as
two. By default there is one for each combination of entries, so the sizes of all axes are
multiplied:

    "... -> ..."                   one for each number
    "... i -> ..."                 one for each reduced number
    "... i k, ... k j -> ... i j"  two for each entry of i, j and k: a product and a sum
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from braces.define.axes.axis_map import Attrs, AxisMap, Index, Types, shape_of
from braces.dims import Dim, Size, call, product, sum_of

Sizes: TypeAlias = "Mapping[str, Size]"
Operations: TypeAlias = "int | Callable[[Any, Any], Size] | None"
"""Declared operation count: per combination of entries, or a function of all types."""
UNKNOWN_DEPTH = 10
"""Depth of a sort of unknown size, as for 1,024 entries."""


def count_combinations(axes: AxisMap, inputs: Types, outputs: Types) -> Size:
    """Return the number of combinations of entries of all axes."""
    return product(_sizes(axes, inputs, outputs).values())


def count_product_operations(axes: AxisMap, inputs: Types, outputs: Types) -> Size:
    """Return the operation count of a sum of products, contracted operand by operand.

    Axes that neither the output nor a later input has are summed immediately.
    """
    sizes = _sizes(axes, inputs, outputs)
    ends = {
        index
        for slot_indices in axes.outputs.values()
        for axis_indices in slot_indices
        for index in axis_indices
    }
    current, *later_operands = (
        {name for name, _ in axis_indices} for axis_indices in _named_axes(axes.of, inputs)
    )
    if not later_operands:
        return _entries(current, sizes) if current - ends else 0
    total: Size = 0
    for at, operand in enumerate(later_operands, 1):
        combined = current | operand
        current = combined & ends.union(*later_operands[at:])
        total = total + _entries(combined, sizes) * (1 if current == combined else 2)
    return total


def require_size(result: object) -> Size:
    """Return the checked result of an operation count rule, a size."""
    if isinstance(result, int | Dim):
        return result
    raise TypeError


def comparisons_per_entry(size: Size) -> int:
    """Return the number of comparisons per entry in a sort."""
    return max(1, (size - 1).bit_length()) if isinstance(size, int) else UNKNOWN_DEPTH


def count_per_element(slot: str, times: int | Callable[[Types, Attrs], Size] = 1) -> Operations:
    """Return an operation count rule of `times` operations for each number of a slot.

    Args:
        slot: An input or output.
        times: The number of operations, or a function of types and attributes.
    """

    def rule(types: Types, attrs: Attrs) -> Size:
        shapes = map(shape_of, types.get(slot, ()))
        once = times(types, attrs) if callable(times) else times
        return sum_of(product((*shape, once)) for shape in shapes)

    return rule


def _entries(indices: set[str], sizes: Sizes) -> Size:
    return product(size for index, size in sizes.items() if index in indices)


def _sizes(axes: AxisMap, inputs: Types, outputs: Types) -> dict[str, Size]:
    """Return the size of each axis; the largest where it has several."""
    size_of_index: dict[str, Size] = {}
    for of, types in ((axes.of, inputs), (axes.of_output, outputs)):
        for pairs in _named_axes(of, types):
            for index, size in pairs:
                if size_of_index.setdefault(index, size) != size:
                    size_of_index[index] = call("max", size_of_index[index], size)
    return size_of_index


def _named_axes(
    of: Callable[[str, int], tuple[Index, ...]], types: Types
) -> Iterator[list[tuple[str, Size]]]:
    """Yield the named axes of each variable, with their sizes."""
    for slot, slot_types in types.items():
        for i, type_ in enumerate(slot_types):
            pairs = zip(of(slot, i), shape_of(type_), strict=False)
            yield [(index, size) for index, size in pairs if index is not None]
