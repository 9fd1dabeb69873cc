"""Axis maps: correspondence of an operator's input axes and output axes, `@op(axes=...)`.

A definition declares its map once, in the notation of einsum if that suffices:

    axes   := terms "->" terms
    terms  := [term ("," term)*]; one for each slot, which is that of all its variables
    term   := index*
    index  := NAME ["!"] | "..."

Axes with the same name have the same index. `...` are any number of axes, which broadcast.

    "..., ... -> ..."              elementwise
    "... i k, ... k j -> ... i j"  contraction: sums of products over `k`
    "n c w! -> n c w!"             `!`: mixed, entries depend on each other or on their position
    "i -> i j"                     repetition (broadcast) along `j`, which no input has
    "... -> ... c!"                entries differ along `c`

An axis has one size wherever it is named. An axis that no input has may be named like the
attribute with its size. So shapes follow, see `braces.define.axes.shape_rules`.

If attributes or ranks decide, a function of the types by slot and of the attributes returns the
notation or an `AxisMap`, or raises an `AxisError`. Analyses such as masking of padding read the
`AxisMap` of one operator. Shared rules are in `axis_rules.py`.

Example with all fields: the 2 largest entries along axis 1 of `sum(x, axis=2) + bias`, with
`x: f32[b,9,c]` and `bias: f32[b,9]`:

    inputs   {"x": (("batch", "entry", "channel"),), "bias": (("batch", "entry"),)}
    outputs  {"out": (("batch", "chosen"),)}
    mixed    {"entry", "chosen"}              an output depends on all entries
    fills    {"channel": {"x": 0}}            reduced; 0, the identity element, masks an entry
    sizes    {"chosen": 2}                    no input has this axis
    wanted   {"bias": lambda: "[b, 9]"}       its required shape: it does not broadcast
    tails    {"entry": {"x": 0, "bias": LOWEST}}   so trailing entries are never chosen
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from braces.dims import Shape, Size
from braces.dtypes import ListType, Type
from braces.errors import ShapeError
from braces.ir.records import Attr

LOWEST, HIGHEST = "lowest", "highest"
"""Identity elements of maximum and minimum, in the dtype of the masked array."""

Index: TypeAlias = "str | None"
"""The name of an axis within one operator; `None` where size 1 broadcasts."""
Indices: TypeAlias = "tuple[Index, ...]"
Names: TypeAlias = "tuple[str, ...]"
IdentityElements: TypeAlias = "Mapping[str, Any]"
"""By input slot, the identity element that masks an entry: a number, `LOWEST` or `HIGHEST`."""
Wanted: TypeAlias = "Mapping[str, Callable[[], str]]"
Types: TypeAlias = "Mapping[str, tuple[Type, ...]]"
Attrs: TypeAlias = "Mapping[str, Attr]"
AxisRule: TypeAlias = "Callable[[Types, Attrs], AxisMap]"
Axes: TypeAlias = "str | IdentityElements | Callable[[Any, Any], str | AxisMap] | None"
"""Declaration of axes: notation, identity elements of a reduction, or a function."""
AxisPlace: TypeAlias = "tuple[str, int, int]"
"""An axis: its slot, the position of the variable in the slot, and the position of the axis."""
DOTS = "..."
"""Wildcard for any number of axes, and prefix of the names of axes that broadcast."""


class AxisError(ShapeError):
    """Inputs rejected by a function of axes; the message follows the operator's name."""

    def of(self, type: str) -> ShapeError:
        """Return the error with the operator's name."""
        return ShapeError(f"{type}: {self.what}", given=self.given, fix=self.fix)


@dataclass(frozen=True)
class AxisEffect:
    """Effect of an operator on an input axis.

    Attributes:
        kind: `"mapped"`: each entry of the outputs depends on the same entry only.
            `"contracted"`: an output lacks the axis, and entries can be masked. `"mixed"`:
            anything else. `"absent"`: it has size 1 and broadcasts.
        outputs: The corresponding output axes: slot, position of the variable, axis.
        fills: The identity elements for a contracted axis, by input slot.
    """

    kind: Literal["mapped", "contracted", "mixed", "absent"]
    outputs: tuple[AxisPlace, ...] = ()
    fills: IdentityElements = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class AxisMap:
    """Correspondence of the input axes and output axes of one operator.

    Attributes:
        inputs: By slot, the index of each axis of each of its variables; the last variable
            given stands for all that follow.
        outputs: The same for the outputs.
        mixed: The indices along which entries depend on each other, or on their position.
        fills: By index that an output lacks, the identity elements that mask an entry.
        sizes: By index that no input has, its size.
        wanted: By input slot that does not broadcast, its required shape in error messages.
        tails: By mixed index whose trailing entries can be excluded: their fill values, by
            input slot. Other output entries are then the same as without them. Nothing is
            filled if they do not depend on later entries.
    """

    inputs: Mapping[str, tuple[Indices, ...]]
    outputs: Mapping[str, tuple[Indices, ...]]
    mixed: frozenset[str] = frozenset()
    fills: Mapping[str, IdentityElements] = field(default_factory=dict[str, IdentityElements])
    sizes: Mapping[str, Size] = field(default_factory=dict[str, Size])
    wanted: Wanted = field(default_factory=dict[str, Callable[[], str]])
    tails: Mapping[str, IdentityElements] = field(default_factory=dict[str, IdentityElements])

    def of(self, slot: str, position: int = 0) -> Indices:
        """Return the index of each axis of a variable; none if unknown."""
        slot_indices = self.inputs.get(slot) or self.outputs.get(slot) or ((),)
        return slot_indices[min(position, len(slot_indices) - 1)]

    def of_output(self, slot: str, position: int = 0) -> Indices:
        """Return the same for an output, whose slot may have the name of an input slot."""
        return AxisMap({}, self.outputs).of(slot, position)

    def keeps(self, index: Index) -> bool:
        """Return whether an index is pointwise: neither mixed nor reduced."""
        return index not in self.mixed and index not in self.fills

    def fate(self, slot: str, axis: int, position: int = 0) -> AxisEffect:
        """Return the effect on an axis of an input."""
        index = self.of(slot, position)[axis]
        if index is None:
            return AxisEffect("absent")
        if index in self.mixed:
            return AxisEffect("mixed")
        places = tuple(
            (name, i, at)
            for name, slot_indices in self.outputs.items()
            for i, indices in enumerate(slot_indices)
            for at, other in enumerate(indices)
            if other == index
        )
        if index in self.fills:
            return AxisEffect("contracted", places, self.fills[index])
        return AxisEffect("mapped", places)


# ---- construction of maps --------------------------------------------------------------------


def shape_of(type_: Type) -> Shape:
    """Return the shape of a variable; of the elements for a list."""
    return type_.element.shape if isinstance(type_, ListType) else type_.shape


def make_axis_map(
    types: Types,
    inputs: Mapping[str, tuple[Indices, ...]],
    outputs: Mapping[str, tuple[Indices, ...]],
    mixed: Iterable[str] = (),
    fills: IdentityElements | None = None,
    sizes: Mapping[str, Size] | None = None,
    wanted: Wanted | None = None,
) -> AxisMap:
    """Return an axis map; size 1 broadcasts along axes named like `...`.

    Args:
        types: The types of the inputs, by slot.
        inputs: The index of each axis of each variable.
        outputs: The same for the outputs.
        mixed: The indices along which entries are mixed.
        fills: The identity elements along axes that an output lacks; by default zeros, as in
            sums of products.
        sizes: By index that no input has, its size.
        wanted: By input slot that does not broadcast, its required shape in error messages.
    """
    mixed, wanted = frozenset(mixed), wanted or {}
    present_inputs = {
        slot: slot_indices for slot, slot_indices in inputs.items() if slot in types
    }
    broadcast_indices = {
        index
        for slot, slot_indices in present_inputs.items()
        if slot not in wanted
        for indices, type_ in zip(slot_indices, types[slot], strict=False)
        for index, size in zip(indices, shape_of(type_), strict=False)
        if size != 1 and index and index.startswith(DOTS)
    }
    for slot, slot_indices in present_inputs.items() if broadcast_indices else ():
        if slot not in wanted:
            pairs = zip(slot_indices, types[slot], strict=False)
            present_inputs[slot] = tuple(
                _narrowed(axis_indices, shape_of(type_), broadcast_indices)
                for axis_indices, type_ in pairs
            )
    contracted = {
        index: {slot: 0 for slot in slots_having(present_inputs, index)}
        if fills is None
        else fills
        for index in unique_indices(present_inputs)
        if index not in mixed
        and not all(index in o for slot_indices in outputs.values() for o in slot_indices)
    }
    return AxisMap(present_inputs, outputs, mixed, contracted, sizes or {}, wanted)


def _narrowed(indices: Indices, shape: Shape, wide: Collection[Index]) -> Indices:
    """Return the indices, with `None` where size 1 broadcasts."""
    sized = zip(indices, shape, strict=False)
    narrowed = [None if size == 1 and index in wide else index for index, size in sized]
    return (*narrowed, *indices[len(narrowed) :])


def unique_indices(indices: Mapping[str, tuple[Indices, ...]]) -> dict[str, None]:
    """Return all indices, in their order."""
    every = (
        i
        for slot_indices in indices.values()
        for axis_indices in slot_indices
        for i in axis_indices
    )
    return dict.fromkeys(i for i in every if i is not None)


def slots_having(indices: Mapping[str, tuple[Indices, ...]], index: str) -> Iterator[str]:
    """Yield the slots with an index."""
    return (
        slot
        for slot, slot_indices in indices.items()
        if any(index in axis_indices for axis_indices in slot_indices)
    )


def first_rank(types: Types, slot: str | None = None) -> int:
    """Return the rank of the variables of a slot, by default of the first slot."""
    slot_types = types.get(slot or next(iter(types), ""), ())
    return len(shape_of(slot_types[0])) if slot_types else 0


def numbered_indices(rank: int, stem: str = "axis") -> Names:
    """Return generated indices, one per axis."""
    return tuple([f"{stem}.{i}" for i in range(rank)])


def broadcasting_indices(rank: int) -> Names:
    """Return the indices of axes that broadcast, counted from the last axis."""
    return tuple(f"{DOTS}{k}" for k in reversed(range(rank)))


def with_leading_axis(index: str, types: Sequence[Type], stem: str = "") -> tuple[Indices, ...]:
    """Return the indices of variables with the same leading axis.

    Args:
        index: The index of the leading axis.
        types: The types of the variables.
        stem: The stem of the other indices; if empty, these are unknown.
    """
    ranks = [len(shape_of(type_)) - 1 for type_ in types]
    others = [
        numbered_indices(r, f"{stem}{i}.") if stem else (None,) * r for i, r in enumerate(ranks)
    ]
    return tuple((index, *other_indices) for other_indices in others)


def normalize_axes(axis: Any, rank: int) -> list[int]:
    """Return the axes of an attribute, sorted; all axes for `None`.

    Raises:
        AxisError: If an axis is out of range or duplicate.
    """
    if axis is None:
        return list(range(rank))
    if not isinstance(axis, tuple):
        return [normalize_axis(axis, rank)]
    axes = sorted([normalize_axis(a, rank) for a in axis])
    if len(set(axes)) != len(axes):
        raise AxisError("duplicate entries in `axis`.", given=f"axis={axis}")
    return axes


def normalize_axis(axis: Any, rank: int) -> int:
    """Return an axis as a nonnegative number.

    Raises:
        AxisError: If the axis is out of range.
    """
    if not -rank <= axis < rank:
        raise AxisError(
            f"axis {axis} is out of range for an array of rank {rank}.",
            fix=f"Use an axis from {-rank} to {rank - 1}." if rank else None,
        )
    return axis % rank


def remove_axes(indices: Indices, gone: Collection[int], keepdims: bool = False) -> Indices:
    """Return the indices without some axes, or with size 1 for these."""
    new_indices = (None if i in gone else index for i, index in enumerate(indices))
    return tuple(index for i, index in enumerate(new_indices) if keepdims or i not in gone)


def shape_indices(shape: Shape) -> tuple[Names, dict[str, Size]]:
    """Return an index for each axis of a shape, and their sizes."""
    indices = numbered_indices(len(shape))
    return indices, dict(zip(indices, shape, strict=True))


def require_tuple(value: Any) -> tuple[Any, ...]:
    """Return an attribute that is a tuple."""
    assert isinstance(value, tuple)
    return value
