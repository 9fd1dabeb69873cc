"""How the axes of an operator's inputs map to those of its outputs: `@op(axes=...)`.

Each definition says it once, in the notation of einsum where that suffices:

    axes   := terms "->" terms
    terms  := [term ("," term)*]; one for each slot, which is that of all its variables
    term   := index*
    index  := NAME ["!"] | "..."

Axes with the same name have the same index. `...` are any axes, which broadcast.

    "..., ... -> ..."              element by element
    "... i k, ... k j -> ... i j"  over `k`, which the result does not have, products are added
    "n c w! -> n c w!"             `!`: entries depend on each other, or on their places
    "i -> i j"                     `j`, which no input has, is a repetition
    "... -> ... c!"                along `c` entries differ

An axis has one size wherever it is named; one that no input has may be called like the
attribute that tells its size. So shapes follow: see `braces.define.axes.shape_rules`.

Where attributes or the number of axes decide, a function of the types by slot and of the
attributes gives the notation or an `AxisMap`, or raises an `AxisError`. What else follows from
it, as which rows of a row-wise branch are mixed, asks the `AxisMap` of one operator: what
became of each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from braces.dims import Shape, Size
from braces.dtypes import ListType, TensorType, Type
from braces.errors import ShapeError
from braces.ir.records import Attr

LOWEST, HIGHEST = "lowest", "highest"
"""Neutral elements of the maximum and the minimum, in the dtype of what is masked."""

Index: TypeAlias = "str | None"
"""The name of an axis within one operator; `None` where size 1 broadcasts."""
Indices: TypeAlias = "tuple[Index, ...]"
Names: TypeAlias = "tuple[str, ...]"
Fills: TypeAlias = "Mapping[str, Any]"
"""By input slot, what leaves an entry out: a number, `LOWEST` or `HIGHEST`."""
Wanted: TypeAlias = "Mapping[str, Callable[[], str]]"
Types: TypeAlias = "Mapping[str, tuple[Type, ...]]"
Attrs: TypeAlias = "Mapping[str, Attr]"
AxisRule: TypeAlias = "Callable[[Types, Attrs], AxisMap]"
Axes: TypeAlias = "str | Fills | Callable[[Any, Any], str | AxisMap] | None"
"""How a definition says it: in the notation, as a reduction's fills, or as a function."""
Place: TypeAlias = "tuple[str, int, int]"
"""An axis: its slot, which variable of the slot, and which of its axes."""
DOTS = "..."
"""What stands for any axes, and what the names of axes that broadcast begin with."""


class AxisError(ShapeError):
    """Inputs that a function of axes refuses: what goes behind the name of the operator."""

    def of(self, type: str) -> ShapeError:
        """The error, with the operator's name."""
        return ShapeError(f"{type} {self.what}", given=self.given, fix=self.fix)


@dataclass(frozen=True)
class Fate:
    """What becomes of an axis of an input.

    Attributes:
        kind: `"mapped"`: each entry of the outputs comes of the same entry. `"contracted"`: an
            output does not have the axis, and entries can be left out. `"mixed"`: anything
            else. `"absent"`: it has size 1 and broadcasts.
        outputs: The axes that it becomes: slot, which variable, axis.
        fills: What leaves an entry of a contracted axis out, by input slot.
    """

    kind: Literal["mapped", "contracted", "mixed", "absent"]
    outputs: tuple[Place, ...] = ()
    fills: Fills = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class AxisMap:
    """How the axes of the inputs of one operator map to those of its outputs.

    Attributes:
        inputs: By slot, the index of each axis of each of its variables; the last variable that
            is given stands for all that follow.
        outputs: The same of the outputs.
        mixed: The indices along which entries depend on each other, or on their places.
        fills: By index, where an output does not have it, what leaves an entry out.
        sizes: By index, where no input has it, its size.
        wanted: By input slot that does not broadcast, what messages say that it must be.
        tails: By mixed index of which the last entries can be left out: what fills them, by
            input slot. The other entries of outputs are then as without them; nothing is filled
            where they do not depend on later ones.
    """

    inputs: Mapping[str, tuple[Indices, ...]]
    outputs: Mapping[str, tuple[Indices, ...]]
    mixed: frozenset[str] = frozenset()
    fills: Mapping[str, Fills] = field(default_factory=dict[str, Fills])
    sizes: Mapping[str, Size] = field(default_factory=dict[str, Size])
    wanted: Wanted = field(default_factory=dict[str, Callable[[], str]])
    tails: Mapping[str, Fills] = field(default_factory=dict[str, Fills])

    def of(self, slot: str, position: int = 0) -> Indices:
        """The index of each axis of a variable; none where nothing is known of it."""
        found = self.inputs.get(slot) or self.outputs.get(slot) or ((),)
        return found[min(position, len(found) - 1)]

    def of_output(self, slot: str, position: int = 0) -> Indices:
        """As `of`, of an output, which an input may be called like."""
        return AxisMap({}, self.outputs).of(slot, position)

    def keeps(self, index: Index) -> bool:
        """Whether each entry along an index is on its own."""
        return index not in self.mixed and index not in self.fills

    def fate(self, slot: str, axis: int, position: int = 0) -> Fate:
        """What becomes of an axis of an input."""
        index = self.of(slot, position)[axis]
        if index is None:
            return Fate("absent")
        if index in self.mixed:
            return Fate("mixed")
        places = tuple(
            (name, i, at)
            for name, found in self.outputs.items()
            for i, indices in enumerate(found)
            for at, other in enumerate(indices)
            if other == index
        )
        if index in self.fills:
            return Fate("contracted", places, self.fills[index])
        return Fate("mapped", places)


# ---- making maps -----------------------------------------------------------------------------


def shape_of(type_: Type) -> Shape:
    """The sizes of a variable; of its values where it is a list."""
    return type_.element.shape if isinstance(type_, ListType) else type_.shape


def mapped(
    types: Types,
    inputs: Mapping[str, tuple[Indices, ...]],
    outputs: Mapping[str, tuple[Indices, ...]],
    mixed: Iterable[str] = (),
    fills: Fills | None = None,
    sizes: Mapping[str, Size] | None = None,
    wanted: Wanted | None = None,
) -> AxisMap:
    """A map, in which size 1 broadcasts along axes that are named so.

    Args:
        types: Of the inputs, by slot.
        inputs: The index of each axis of each variable.
        outputs: The same of the outputs.
        mixed: The indices along which entries are mixed.
        fills: What leaves an entry out along what an output does not have; by default zeros, as
            in sums of products.
        sizes: By index, where no input has it, its size.
        wanted: By input slot that does not broadcast, what messages say that it must be.
    """
    mixed, wanted = frozenset(mixed), wanted or {}
    shared = {slot: found for slot, found in inputs.items() if slot in types}
    wide = {
        index
        for slot, found in shared.items()
        if slot not in wanted
        for indices, type_ in zip(found, types[slot], strict=False)
        for index, size in zip(indices, shape_of(type_), strict=False)
        if size != 1 and index and index.startswith(DOTS)
    }
    for slot, found in shared.items() if wide else ():
        if slot not in wanted:
            pairs = zip(found, types[slot], strict=False)
            shared[slot] = tuple(_narrowed(one, shape_of(type_), wide) for one, type_ in pairs)
    contracted = {
        index: {slot: 0 for slot in slots_having(shared, index)} if fills is None else fills
        for index in all_indices(shared)
        if index not in mixed
        and not all(index in o for found in outputs.values() for o in found)
    }
    return AxisMap(shared, outputs, mixed, contracted, sizes or {}, wanted)


def _narrowed(indices: Indices, shape: Shape, wide: Collection[Index]) -> Indices:
    """Indices without those where size 1 broadcasts."""
    sized = zip(indices, shape, strict=False)
    found = [None if size == 1 and index in wide else index for index, size in sized]
    return (*found, *indices[len(found) :])


def all_indices(indices: Mapping[str, tuple[Indices, ...]]) -> dict[str, None]:
    """All indices, in their order."""
    every = (i for found in indices.values() for one in found for i in one)
    return dict.fromkeys(i for i in every if i is not None)


def slots_having(indices: Mapping[str, tuple[Indices, ...]], index: str) -> Iterator[str]:
    """The slots that have an index."""
    return (slot for slot, found in indices.items() if any(index in one for one in found))


def first_rank(types: Types, slot: str | None = None) -> int:
    """How many axes the variables of a slot have; by default those of the first slot."""
    found = types.get(slot or next(iter(types), ""), ())
    return len(shape_of(found[0])) if found else 0


@dataclass(frozen=True)
class Reduced:
    """A reduction over the attribute `axis`, or over all axes; with `keepdims`, to size 1.

    Attributes:
        fills: What leaves an entry out, by the input that it is for.
        nonempty: Whether there must be something that is reduced.
    """

    fills: Fills
    nonempty: bool = False

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """The map for inputs of these types."""
        slots = list(self.fills)
        if self.nonempty:
            check_not_empty(types[slots[0]][0], attrs)
        indices, gone = _operated(types[slots[0]][0], attrs)
        left = without(indices, gone, bool(attrs.get("keepdims", False)))
        inputs = {slot: (indices,) for slot in slots}
        return mapped(types, inputs, {"out": (left,)}, fills=self.fills)


def check_not_empty(type_: Type, attrs: Attrs) -> None:
    """Refuse a reduction of nothing.

    Raises:
        AxisError: An axis that is reduced has size 0.
    """
    shape = shape_of(type_)
    if 0 in [shape[a] for a in operated_axes(attrs["axis"], len(shape))]:
        raise AxisError(
            "of nothing does not exist.", fix="An axis that is reduced must not have size 0."
        )


def reduced_mixing(types: Types, attrs: Attrs) -> AxisMap:
    """A reduction of the first input as `Reduced`, which cannot leave entries out.

    Other inputs have the axes that are left.
    """
    slot, *others = (name for name in types if name != "out")
    indices, gone = _operated(types[slot][0], attrs)
    left = without(indices, gone, bool(attrs.get("keepdims", False)))
    inputs = {slot: (indices,)} | {other: (left,) for other in others}
    return mapped(types, inputs, {"out": (left,)}, [indices[i] for i in gone])


def of_exponentials(types: Types, attrs: Attrs) -> AxisMap:
    """Minus infinity adds nothing; bools and unsigned integers have nothing so low."""
    slot, (x, *_) = next(iter(types.items()))
    unsigned = isinstance(x, TensorType) and x.dtype.kind in "bu"
    rule = reduced_mixing if unsigned else Reduced({slot: LOWEST})
    return rule(types, attrs)


def along_axis(types: Types, attrs: Attrs) -> AxisMap:
    """Entries are mixed along the attribute `axis`; input and outputs have the same axes."""
    (slot, found), *_ = types.items()
    indices, mixed = _operated(found[0], attrs)
    inputs, outputs = {slot: (indices,) * len(found)}, {"out": (indices,)}
    return mapped(types, inputs, outputs, [indices[i] for i in mixed])


def with_tails(found: AxisMap, fills: Fills) -> AxisMap:
    """A map of which the last entries along all mixed axes can be left out by these fills."""
    return replace(found, tails=dict.fromkeys(found.mixed, fills))


def resized(found: AxisMap, axis: int, index: str, size: Size) -> AxisMap:
    """A map of one output that has another size along an axis, which is mixed."""
    ((slot, (indices,)),) = found.outputs.items()
    out = list(indices)
    out[axis] = index
    mixed = found.mixed | {index}
    return replace(found, outputs={slot: (tuple(out),)}, mixed=mixed, sizes={index: size})


def _operated(type_: Type, attrs: Attrs) -> tuple[Names, list[int]]:
    """An index for each axis, and the axes that the attribute `axis` says."""
    indices = numbered(len(shape_of(type_)))
    return indices, operated_axes(attrs["axis"], len(indices))


def numbered(rank: int, stem: str = "axis") -> Names:
    """An index for each axis, which nobody wrote."""
    return tuple([f"{stem}.{i}" for i in range(rank)])


def broadcasting(rank: int) -> Names:
    """The names of axes that broadcast, counted from the last one on."""
    return tuple(f"{DOTS}{k}" for k in reversed(range(rank)))


def led_by(index: str, types: Sequence[Type], stem: str = "") -> tuple[Indices, ...]:
    """The axes of variables that all begin with the same one.

    Args:
        index: The first axis of each.
        types: Of the variables.
        stem: What the other axes are called; where it is empty, nothing is said of them.
    """
    ranks = [len(shape_of(type_)) - 1 for type_ in types]
    others = [numbered(r, f"{stem}{i}.") if stem else (None,) * r for i, r in enumerate(ranks)]
    return tuple((index, *found) for found in others)


def operated_axes(axis: Any, rank: int) -> list[int]:
    """The axes that an attribute says, in their order; all of them where it is `None`.

    Raises:
        AxisError: There is no such axis, or one is said twice.
    """
    if axis is None:
        return list(range(rank))
    if not isinstance(axis, tuple):
        return [axis_at(axis, rank)]
    found = sorted([axis_at(a, rank) for a in axis])
    if len(set(found)) != len(found):
        raise AxisError("is given the same axis twice.", given=f"axis={axis}")
    return found


def axis_at(axis: Any, rank: int) -> int:
    """A non-negative axis.

    Raises:
        AxisError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise AxisError(f"has no axis {axis} in {rank} axes.", fix="Axes count from 0.")
    return axis % rank


def without(indices: Indices, gone: Collection[int], keepdims: bool = False) -> Indices:
    """Indices without those of some axes, or with size 1 there."""
    kept = (None if i in gone else index for i, index in enumerate(indices))
    return tuple(index for i, index in enumerate(kept) if keepdims or i not in gone)


def all_mixed(types: Types, attrs: Attrs) -> AxisMap:
    """All entries are mixed."""
    del attrs
    found = {slot: numbered(len(shape_of(given[0])), slot) for slot, given in types.items()}
    every = [index for indices in found.values() for index in indices]
    indices = {slot: (one,) for slot, one in found.items()}
    return mapped(types, indices, indices, every)


def axes_of_cases(types: Types, attrs: Attrs) -> AxisMap:
    """Nothing that an operator with cases says itself: all goes through them."""
    del types, attrs
    return AxisMap({}, {})


def shaped(types: Types, attrs: Attrs) -> AxisMap:
    """An output of the attribute `shape` that is the same everywhere; no input has axes."""
    del types
    indices, sizes = sized(tuple_of(attrs["shape"]))
    return AxisMap({}, {"out": (indices,)}, sizes=sizes)


def sized(shape: Shape) -> tuple[Names, dict[str, Size]]:
    """An index for each axis of a shape, and their sizes."""
    indices = numbered(len(shape))
    return indices, dict(zip(indices, shape, strict=True))


def tuple_of(value: Any) -> tuple[Any, ...]:
    """An attribute that is a tuple."""
    assert isinstance(value, tuple)
    return value
