"""How many operations an operator takes, as far as its axes tell.

An operation is one sum, product, comparison or function of numbers; a product that is added to
a sum is two. Where nothing else is said there is one for each combination of entries that the
axes have, so the sizes of all axes are multiplied:

    "... -> ..."                   one for each number
    "... i -> ..."                 one for each number that is reduced
    "... i k, ... k j -> ... i j"  two for each entry of i, j and k: a product and a sum
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from braces.define.axes.axis_map import Attrs, AxisMap, Index, Types, shape_of
from braces.dims import Dim, Size, call, product, sum_of

Sizes: TypeAlias = "Mapping[str, Size]"
Operations: TypeAlias = "int | Callable[[Any, Any], Size] | None"
"""How a definition says it: for each combination of entries, or as a function of all types."""
UNKNOWN_DEPTH = 10
"""How often what is sorted is halved where its size is not known, as if it were 1,024."""


def space(axes: AxisMap, inputs: Types, outputs: Types) -> Size:
    """How many combinations of entries the axes have."""
    return product(_sizes(axes, inputs, outputs).values())


def of_products(axes: AxisMap, inputs: Types, outputs: Types) -> Size:
    """The operations of a sum of products, which takes its inputs one after the other.

    What neither the output nor a later input has is added up at once.
    """
    sizes = _sizes(axes, inputs, outputs)
    ends = {index for found in axes.outputs.values() for one in found for index in one}
    held, *rest = ({name for name, _ in one} for one in _named(axes.of, inputs))
    if not rest:
        return _entries(held, sizes) if held - ends else 0
    total: Size = 0
    for at, operand in enumerate(rest, 1):
        joined = held | operand
        held = joined & ends.union(*rest[at:])
        total = total + _entries(joined, sizes) * (1 if held == joined else 2)
    return total


def size_of(found: object) -> Size:
    """What a function of a definition gave, which must be a size."""
    if isinstance(found, int | Dim):
        return found
    raise TypeError


def comparisons(size: Size) -> int:
    """How often each of so many numbers is compared where they are brought in order."""
    return max(1, (size - 1).bit_length()) if isinstance(size, int) else UNKNOWN_DEPTH


def for_each(slot: str, times: int | Callable[[Types, Attrs], Size] = 1) -> Operations:
    """So many operations for each number of a slot: what a definition says.

    Args:
        slot: An input or output.
        times: How many, or a function of types and attributes.
    """

    def rule(types: Types, attrs: Attrs) -> Size:
        shapes = map(shape_of, types.get(slot, ()))
        once = times(types, attrs) if callable(times) else times
        return sum_of(product((*shape, once)) for shape in shapes)

    return rule


def _entries(indices: set[str], sizes: Sizes) -> Size:
    return product(size for index, size in sizes.items() if index in indices)


def _sizes(axes: AxisMap, inputs: Types, outputs: Types) -> dict[str, Size]:
    """The size of each axis; the largest where it has several that are known."""
    found: dict[str, Size] = {}
    for of, types in ((axes.of, inputs), (axes.of_output, outputs)):
        for pairs in _named(of, types):
            for index, size in pairs:
                if found.setdefault(index, size) != size:
                    found[index] = call("max", found[index], size)
    return found


def _named(
    of: Callable[[str, int], tuple[Index, ...]], types: Types
) -> Iterator[list[tuple[str, Size]]]:
    """The axes of each variable that have a name, with their sizes."""
    for slot, given in types.items():
        for i, type_ in enumerate(given):
            pairs = zip(of(slot, i), shape_of(type_), strict=False)
            yield [(index, size) for index, size in pairs if index is not None]
