"""The shapes of an operator's outputs: from how its axes map, and from those of its inputs.

An axis has one size wherever it is named, in inputs and in outputs. Axes that `...` stands for
broadcast: each has the one size that is not 1. What no input has is told by the map, or by the
attribute of that name; size 1 has no name. Sizes may be symbolic, and unnamed ones become what
they stand beside:

    "... i k, ... k j -> ... i j"     x: f32[b,t,3]   y: f32[?0,4]   out: f32[b,t,4], ?0 is 3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from braces.define.axes.axis_map import (
    DOTS,
    Attrs,
    AxisMap,
    AxisRule,
    Index,
    Indices,
    Types,
    Wanted,
    shape_of,
)
from braces.define.axes.axis_notation import Chosen, Notation
from braces.dims import Dim, Shape, Size, Unifier
from braces.dtypes import Type
from braces.errors import ShapeError

Named: TypeAlias = "Mapping[str, tuple[Indices, ...]]"
Shapes: TypeAlias = "dict[str, tuple[Shape, ...]]"


def shapes_of(
    type: str, rule: AxisRule, types: Types, attrs: Attrs, unifier: Unifier
) -> Shapes | None:
    """The shapes of the outputs by slot, or `None` where the axes do not tell them all.

    Args:
        type: The operator, for messages.
        rule: How its axes map.
        types: Of its inputs, by slot.
        attrs: Its attributes.
        unifier: What unnamed dimensions are; it learns what follows.

    Raises:
        ShapeError: The inputs do not fit.
    """
    said = _said(rule, types, attrs)
    if isinstance(said, Notation) and said.elementwise:
        shapes = [shape_of(one) for slot in said.inputs for one in types.get(slot, ())]
        return dict.fromkeys(said.outputs, (broadcast(type, unifier, *shapes),))
    axes = _Axes(type, said, types, attrs, unifier)
    axes.measure()
    return axes.outputs()


def check_sizes(
    type: str, rule: AxisRule, types: Types, attrs: Attrs, unifier: Unifier
) -> Shapes | None:
    """The shapes of the outputs as `shapes_of`, but nothing is said of axes that are mixed.

    So it is where a definition says its axes, and not that shapes follow from them: along a
    mixed axis, outputs may be longer or shorter than inputs.
    """
    axes = _Axes(type, _said(rule, types, attrs), types, attrs, unifier)
    axes.measure(but=axes.mixed)
    return axes.outputs()


def _said(rule: AxisRule, types: Types, attrs: Attrs) -> Notation | AxisMap:
    if isinstance(rule, Notation):
        return rule
    return rule.told(types, attrs) if isinstance(rule, Chosen) else rule(types, attrs)


def broadcast(type: str, unifier: Unifier, *shapes: Shape) -> Shape:
    """The common shape under NumPy's broadcasting.

    Raises:
        ShapeError: Two sizes on one axis differ and neither is 1.
    """
    first = shapes[0] if shapes else ()
    for shape in shapes:
        if shape != first:
            break
    else:
        return first  # as most are
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            known = result[axis]
            if known == 1:
                result[axis] = size
            elif size not in (1, known):
                found = broadcast_sizes(unifier, known, size)
                if found is None:
                    raise _not_broadcast(type, known, size, axis - rank)
                result[axis] = found
    return tuple(map(unifier.resolve, result)) if unifier.known else tuple(result)


def broadcast_sizes(unifier: Unifier, left: Size, right: Size) -> Size | None:
    """The size of an axis that has both, where 1 broadcasts; `None` where they do not fit."""
    if unifier.resolve(left) == 1:
        return right
    return left if unifier.resolve(right) == 1 else unifier.unify(left, right)


def _not_broadcast(type: str, left: Size, right: Size, axis: int) -> ShapeError:
    return ShapeError(
        f"{type} cannot broadcast {left} with {right} on axis {axis}.",
        fix="Sizes on an axis are equal, or one of them is 1.",
    )


class _Axes:
    """The axes of one operator, on inputs of some types: their sizes."""

    def __init__(
        self,
        type: str,
        said: Notation | AxisMap,
        types: Types,
        attrs: Attrs,
        unifier: Unifier,
    ) -> None:
        self.type = type
        self.types = types
        self.attrs = attrs
        self.unifier = unifier
        self.notation = said if isinstance(said, Notation) else None
        self.mixed = said.mixed
        self.sizes: dict[Index, Size] = {None: 1}
        self.wanted: Wanted = {}
        self.named: Named = said.inputs if isinstance(said, AxisMap) else {}
        self.made: Named = said.outputs if isinstance(said, AxisMap) else {}
        if isinstance(said, Notation):
            self._check_ranks(said)
            self.named, self.made = said.spelled(types)
        else:
            self.sizes.update(said.sizes)
            self.wanted = said.wanted

    # ---- sizes -------------------------------------------------------------------------------

    def variables(self) -> Iterator[tuple[str, int, Type, Indices]]:
        """The inputs: slot, which variable, type, and the index of each axis."""
        for slot, found in self.named.items():
            for i, type_ in enumerate(self.types.get(slot, ())):
                yield slot, i, type_, found[min(i, len(found) - 1)]

    def measure(self, but: frozenset[str] = frozenset()) -> None:
        """Find the size of each index, but for some."""
        sizes = self.sizes
        for slot, i, type_, indices in self.variables():
            shape = shape_of(type_)
            if len(indices) != len(shape):
                raise self._wrong_rank(slot, i, type_, indices)
            for axis, (index, size) in enumerate(zip(indices, shape, strict=True)):
                known = sizes.get(index)
                if known is size or index is None or index in but:
                    continue
                if known is None:
                    sizes[index] = size
                elif known != size:
                    sizes[index] = self._joined((slot, i, axis), index, known, size)

    def _joined(self, place: tuple[str, int, int], index: str, known: Size, size: Size) -> Size:
        """The one size that an index has."""
        if self._broadcasts(place[0], index):
            found = broadcast_sizes(self.unifier, known, size)
        else:
            found = self.unifier.unify(known, size)
        if found is None:
            raise self._differing(place, index, known, size)
        return found

    def _broadcasts(self, slot: str, index: str) -> bool:
        return index.startswith(DOTS) and slot not in self.wanted

    def outputs(self) -> Shapes | None:
        """The shapes that follow, or `None` where the size of an axis is not told."""
        shapes: Shapes = {}
        for slot, made in self.made.items():
            found = [[self._size(index) for index in indices] for indices in made]
            known = [tuple(size for size in sizes if size is not None) for sizes in found]
            if list(map(len, found)) != list(map(len, known)):
                return None
            shapes[slot] = tuple(known)
        return shapes

    def _size(self, index: Index) -> Size | None:
        found = self.sizes.get(index)
        if found is None:
            told = self.attrs.get(index or "")
            if isinstance(told, bool) or not isinstance(told, int | Dim):
                return None
            found = told
        if isinstance(found, int):
            if found < 0:
                raise ShapeError(
                    f"{self.type} cannot make an axis of {found}.", fix="Use 0 or more."
                )
            return found
        return self.unifier.resolve(found)

    # ---- what does not fit -------------------------------------------------------------------

    def _check_ranks(self, said: Notation) -> None:
        """Refuse inputs with too few axes for their term, or too many."""
        for slot, term in said.inputs.items():
            named = len(term) - (DOTS in term)
            for type_ in self.types.get(slot, ()):
                rank = len(shape_of(type_))
                if rank < named or (rank > named and DOTS not in term):
                    kind = {1: "a vector", 2: "a matrix"}.get(named, _counted(named))
                    more = " or more" if DOTS in term else ""
                    raise ShapeError(
                        f"{self.type} needs {kind}, not {type_}.",
                        fix=f"{slot} needs {_counted(named)}{more}: `{' '.join(term)}`.",
                    )

    def _wrong_rank(self, slot: str, i: int, type_: Type, indices: Indices) -> ShapeError:
        """An input does not have the axes that it must have."""
        wrong = self._wrong_shape(slot, i, type_, indices)
        must = f"{self._called(slot, i)} must have {_counted(len(indices))}."
        wrong.fix = f"{must} Use br.expand_dims, br.squeeze or br.reshape."
        return wrong

    def _differing(
        self, place: tuple[str, int, int], index: str, known: Size, size: Size
    ) -> ShapeError:
        """An index has two sizes."""
        slot, i, axis = place
        type_, indices = next(
            (t, found) for s, n, t, found in self.variables() if (s, n) == (slot, i)
        )
        if self._broadcasts(slot, index):
            return _not_broadcast(self.type, known, size, axis - len(indices))
        first = self._first(index)
        kept = any(index in one for made in self.made.values() for one in made)
        told = slot in self.wanted or self._alike(slot, i, indices)
        if not told and (index.isidentifier() or not kept):
            verb = "match" if kept or first[0] == slot else "contract"
            named = f" for `{index}`" if index.isidentifier() else ""
            wrong = ShapeError(f"{self.type} cannot {verb} {known} with {size}{named}.")
        else:
            wrong = self._wrong_shape(slot, i, type_, indices)
        one, other = self._axis(*first), self._axis(*place)
        wrong.fix = f"{one[0].upper()}{one[1:]} must equal {other}."
        return wrong

    def _alike(self, slot: str, i: int, indices: Indices) -> Type | None:
        """The first input, where it has the same axes as the only other one."""
        every = list(self.variables())
        first = every[0]
        alike = len(every) == 2 and first[:2] != (slot, i) and first[3] == indices
        return first[2] if alike and not self.notation else None

    def _wrong_shape(self, slot: str, i: int, type_: Type, indices: Indices) -> ShapeError:
        """An input has another shape than it must have."""
        alike = self._alike(slot, i, indices)
        if alike:
            needed = f"two equal shapes, not {alike} and"
        elif slot in self.wanted:
            needed = f"{self.wanted[slot]()}, not"
        elif all(index in self.sizes for index in indices):
            article = "an" if slot[0] in "aeiou" else "a"
            sizes = ",".join(str(self.sizes[index]) for index in indices)
            needed = f"{article} {slot} of shape [{sizes}], not"
        else:
            needed = f"{_counted(len(indices))}, not"
        return ShapeError(f"{self.type} needs {needed} {type_}.")

    def _first(self, index: str) -> tuple[str, int, int]:
        """The first axis that has an index."""
        return next(
            (slot, i, indices.index(index))
            for slot, i, _, indices in self.variables()
            if index in indices
        )

    def _called(self, slot: str, i: int) -> str:
        return f"{slot}[{i}]" if len(self.types[slot]) > 1 else slot

    def _axis(self, slot: str, i: int, axis: int) -> str:
        """An axis in words: `the last axis of x`."""
        rank = len(shape_of(self.types[slot][i]))
        words = {0: "first", rank - 2: "second last", rank - 1: "last"}
        which = "only" if rank == 1 else words.get(axis)
        found = f"the {which} axis" if which else f"axis {axis}"
        return f"{found} of {self._called(slot, i)}"


def _counted(count: int) -> str:
    """`two axes`, and so on."""
    words: Sequence[str] = ("no axes", "one axis", "two axes", "three axes", "four axes")
    return words[count] if count < len(words) else f"{count} axes"
