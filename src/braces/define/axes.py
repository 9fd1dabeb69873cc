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

Where attributes or the number of axes decide, a function of the types by slot and of the
attributes gives the notation or an `AxisMap`. What follows from it, as which rows of a row-wise
branch are mixed, asks the `AxisMap` of one operator: what became of each axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeAlias

from braces.define.signature import Slot
from braces.dims import Shape
from braces.dtypes import ListType, TensorType, Type
from braces.errors import OpDefinitionError, suggest
from braces.ir.records import Attr

LOWEST, HIGHEST = "lowest", "highest"
"""Neutral elements of the maximum and the minimum, in the dtype of what is masked."""

Index: TypeAlias = "str | None"
"""The name of an axis within one operator; `None` where size 1 broadcasts."""
Indices: TypeAlias = "tuple[Index, ...]"
Names: TypeAlias = "tuple[str, ...]"
Fills: TypeAlias = "Mapping[str, Any]"
"""By input slot, what leaves an entry out: a number, `LOWEST` or `HIGHEST`."""
Types: TypeAlias = "Mapping[str, tuple[Type, ...]]"
Attrs: TypeAlias = "Mapping[str, Attr]"
AxisRule: TypeAlias = "Callable[[Types, Attrs], AxisMap]"
Axes: TypeAlias = "str | Fills | Callable[[Any, Any], str | AxisMap] | None"
"""How a definition says it: in the notation, as a reduction's fills, or as a function."""
Place: TypeAlias = "tuple[str, int, int]"
"""An axis: its slot, which variable of the slot, and which of its axes."""


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
    """

    inputs: Mapping[str, tuple[Indices, ...]]
    outputs: Mapping[str, tuple[Indices, ...]]
    mixed: frozenset[str] = frozenset()
    fills: Mapping[str, Fills] = field(default_factory=dict[str, Fills])

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


def axis_rule(
    type: str, axes: Axes, inputs: Sequence[Slot], outputs: Sequence[Slot]
) -> AxisRule | None:
    """What a definition says of its axes, as a function of types and attributes.

    Raises:
        OpDefinitionError: It cannot be read, or names an input that there is not.
    """
    slots = tuple(s.name for s in inputs), tuple(s.name for s in outputs)
    if axes is None:
        return None
    if isinstance(axes, str):
        return _read(type, axes, *slots)
    if isinstance(axes, Mapping):
        for name in axes:
            if name not in slots[0]:
                raise OpDefinitionError(
                    f"{type}: axes={axes!r}, but there is no input {name!r}.",
                    fix=suggest(name, slots[0]),
                )
        return Reduced(axes)

    def rule(types: Types, attrs: Attrs) -> AxisMap:
        known = {n: types[n] for n in (*slots[0], *slots[1]) if types.get(n)}
        found = axes(known, attrs)
        return _read(type, found, *slots)(types, attrs) if isinstance(found, str) else found

    return rule


# ---- the notation ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Notation:
    """Axes in the notation of the module's docstring.

    Attributes:
        inputs: By slot, the names of its axes.
        outputs: The same of the outputs.
        mixed: The names with a `!`.
    """

    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    mixed: frozenset[str]

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """The map for inputs of these types."""
        del attrs
        extra = {
            name: [len(shape_of(t)) - len(term) + 1 for t in types.get(name, ())]
            for name, term in self.inputs.items()
            if "..." in term
        }
        most = max((n for counts in extra.values() for n in counts), default=0)
        inputs = {
            name: tuple(
                _spelled(term, extra[name][i] if name in extra else 0)
                for i in range(len(types.get(name, ())))
            )
            for name, term in self.inputs.items()
        }
        outputs = {name: (_spelled(term, most),) for name, term in self.outputs.items()}
        return mapped(types, inputs, outputs, self.mixed)


def _spelled(term: Sequence[str], extra: int) -> Indices:
    """The names of a term, with those of `...` counted from the last one on."""
    dots = [f"...{k}" for k in reversed(range(extra))]
    return tuple(name for one in term for name in (dots if one == "..." else [one]))


@cache
def _read(type: str, text: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Notation:
    left, arrow, right = text.partition("->")
    terms = [_terms(left, len(inputs)), _terms(right, len(outputs))]
    names = ", ".join((*inputs, *outputs))
    for slots, found in zip((inputs, outputs), terms, strict=True):
        if not arrow or len(found) != len(slots):
            raise OpDefinitionError(
                f"{type}: axes={text!r} is not one term for each of {names}.",
                fix="Write them as in einsum: '... i k, ... k j -> ... i j'.",
            )
    every = [one for found in terms for term in found for one in term]
    for one in every:
        if not re.fullmatch(r"\.\.\.|[A-Za-z_]\w*!?", one):
            raise OpDefinitionError(
                f"{type}: axes={text!r} has {one!r}.",
                fix="An axis has a name, `...` stands for any, `!` mixes its entries.",
            )
    plain = [[tuple(one.rstrip("!") for one in term) for term in found] for found in terms]
    return Notation(
        dict(zip(inputs, plain[0], strict=True)),
        dict(zip(outputs, plain[1], strict=True)),
        frozenset(one.rstrip("!") for one in every if one.endswith("!")),
    )


def _terms(side: str, slots: int) -> list[list[str]]:
    return [term.split() for term in side.split(",")] if side.strip() or slots == 1 else []


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
) -> AxisMap:
    """A map, in which size 1 broadcasts.

    Args:
        types: Of the inputs, by slot.
        inputs: The index of each axis of each variable.
        outputs: The same of the outputs.
        mixed: The indices along which entries are mixed.
        fills: What leaves an entry out along what an output does not have; by default zeros, as
            in sums of products.
    """
    mixed = frozenset(mixed)
    sized = [
        (index, size)
        for slot, found in inputs.items()
        for indices, type_ in zip(found, types.get(slot, ()), strict=False)
        for index, size in zip(indices, shape_of(type_), strict=False)
    ]
    wide = {index for index, size in sized if size != 1} | mixed
    shared = {
        slot: tuple(
            tuple(
                None if size == 1 and index in wide and index not in mixed else index
                for index, size in zip(indices, shape_of(type_), strict=False)
            )
            for indices, type_ in zip(found, types.get(slot, ()), strict=False)
        )
        for slot, found in inputs.items()
    }
    contracted = {
        index: {slot: 0 for slot in _having(shared, index)} if fills is None else fills
        for index in _every(shared)
        if index not in mixed
        and not all(index in o for found in outputs.values() for o in found)
    }
    return AxisMap(shared, outputs, mixed, contracted)


def _every(indices: Mapping[str, tuple[Indices, ...]]) -> dict[str, None]:
    """All indices, in their order."""
    every = (i for found in indices.values() for one in found for i in one)
    return dict.fromkeys(i for i in every if i is not None)


def _having(indices: Mapping[str, tuple[Indices, ...]], index: str) -> Iterator[str]:
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
    """

    fills: Fills

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """The map for inputs of these types."""
        slots = list(self.fills)
        indices, gone = _operated(types[slots[0]][0], attrs)
        left = without(indices, gone, bool(attrs.get("keepdims", False)))
        inputs = {slot: (indices,) for slot in slots}
        return mapped(types, inputs, {"out": (left,)}, fills=self.fills)


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


def _operated(type_: Type, attrs: Attrs) -> tuple[Names, list[int]]:
    """An index for each axis, and the axes that the attribute `axis` says."""
    indices = numbered(len(shape_of(type_)))
    return indices, operated_axes(attrs["axis"], len(indices))


def numbered(rank: int, stem: str = "axis") -> Names:
    """An index for each axis."""
    return tuple(f"{stem}{i}" for i in range(rank))


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
    """The axes that an attribute says, in their order; all of them where it is `None`."""
    if axis is None or not rank:
        return list(range(rank))
    return sorted(int(a) % rank for a in (axis if isinstance(axis, tuple) else (axis,)))


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
    return AxisMap({}, {"out": (numbered(len(tuple_of(attrs["shape"]))),)})


def tuple_of(value: Any) -> tuple[Any, ...]:
    """An attribute that is a tuple."""
    assert isinstance(value, tuple)
    return value


# ---- derivatives -----------------------------------------------------------------------------


def derived_rule(
    base: AxisRule | None,
    slots: Sequence[Slot],
    outputs: Sequence[Slot],
    suffix: str,
    linear: Collection[str],
) -> AxisRule | None:
    """The axes of a derivative: cotangents and tangents have those of what they belong to.

    Args:
        base: What the operator that it is of says.
        slots: The inputs of the derivative.
        outputs: Its outputs.
        suffix: What its own cotangents or tangents have after the name of what they belong to.
        linear: The inputs that the results are linear in.
    """
    if base is None:
        return None

    def rule(types: Types, attrs: Attrs) -> AxisMap:
        known = {name.removesuffix(suffix): found for name, found in types.items()}
        of_base = base(known | dict(types), attrs)
        named = [(s.name, s.name.removesuffix(suffix)) for s in (*slots, *outputs)]
        every = dict(of_base.outputs) | dict(of_base.inputs)
        indices = {name: every.get(name) or every.get(stem, ((),)) for name, stem in named}
        inputs = {s.name: indices[s.name] for s in slots if types.get(s.name)}
        return AxisMap(
            inputs,
            {s.name: indices[s.name] for s in outputs},
            of_base.mixed,
            _derived_fills(of_base, inputs, [indices[s.name] for s in outputs], linear),
        )

    return rule


def _derived_fills(
    base: AxisMap,
    inputs: Mapping[str, tuple[Indices, ...]],
    outputs: Iterable[tuple[Indices, ...]],
    linear: Collection[str],
) -> dict[str, Fills]:
    """What leaves an entry out of a derivative.

    Its sums are linear in cotangents or tangents. What the operator itself reduced is left out
    as there.
    """
    results = [one for found in outputs for one in found]
    found: dict[str, Fills] = {}
    for index in _every(inputs):
        zeros = dict.fromkeys(_having(inputs, index), 0)
        if index in base.mixed:
            continue
        if index in base.fills:
            own = {slot: fill for slot, fill in base.fills[index].items() if slot in inputs}
            found[index] = zeros | own
        elif not all(index in one for one in results):
            found[index] = {slot: 0 for slot in zeros if slot in linear}
    return found
