"""Shape inference from axis maps and input shapes.

An axis has one size wherever it is named, in inputs and outputs. Axes of `...` broadcast: each
has the one size that is not 1. The size of an axis that no input has comes from the map, or
from the attribute of that name; size 1 has no name. Sizes may be symbolic. Unnamed ones are
unified with their counterparts:

    "... i k, ... k j -> ... i j"     x: f32[b,t,3]   y: f32[?0,4]   out: f32[b,t,4], ?0 is 3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from braces.define.axes.axis_notation import ChosenAxes, Notation
from braces.dims import Dim, Shape, Size, Unifier
from braces.dtypes import Type
from braces.errors import ShapeError

Named: TypeAlias = "Mapping[str, tuple[Indices, ...]]"
Shapes: TypeAlias = "dict[str, tuple[Shape, ...]]"


def infer_shapes(
    type: str, rule: AxisRule, types: Types, attrs: Attrs, unifier: Unifier
) -> Shapes | None:
    """Return the output shapes by slot, or `None` if some do not follow from the axes.

    Args:
        type: The operator, for messages.
        rule: Its axis rule.
        types: The types of its inputs, by slot.
        attrs: Its attributes.
        unifier: The unifier of unnamed dimensions; it records new equalities.

    Raises:
        ShapeError: If the shapes of the inputs are incompatible.
    """
    declaration = _declaration_of(rule, types, attrs)
    if isinstance(declaration, Notation) and declaration.elementwise:
        shapes = [
            shape_of(type_) for slot in declaration.inputs for type_ in types.get(slot, ())
        ]
        return dict.fromkeys(declaration.outputs, (broadcast_shapes(type, unifier, *shapes),))
    axes = _AxisSizes(type, declaration, types, attrs, unifier)
    axes.measure()
    return axes.outputs()


def infer_unmixed_shapes(
    type: str, rule: AxisRule, types: Types, attrs: Attrs, unifier: Unifier
) -> Shapes | None:
    """Return the shapes as `infer_shapes`, but without sizes of mixed axes.

    It serves definitions with axes whose shapes do not follow from them: along a mixed axis,
    outputs may be longer or shorter than inputs.
    """
    axes = _AxisSizes(type, _declaration_of(rule, types, attrs), types, attrs, unifier)
    axes.measure(but=axes.mixed)
    return axes.outputs()


def _declaration_of(rule: AxisRule, types: Types, attrs: Attrs) -> Notation | AxisMap:
    if isinstance(rule, Notation):
        return rule
    return rule.choose(types, attrs) if isinstance(rule, ChosenAxes) else rule(types, attrs)


def broadcast_shapes(type: str, unifier: Unifier, *shapes: Shape) -> Shape:
    """Return the common shape under NumPy's broadcasting.

    Raises:
        ShapeError: If two sizes on one axis differ and neither is 1.
    """
    first = shapes[0] if shapes else ()
    for shape in shapes:
        if shape != first:
            break
    else:
        return first  # the common case
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            known = result[axis]
            if known == 1:
                result[axis] = size
            elif size not in (1, known):
                common = broadcast_sizes(unifier, known, size)
                if common is None:
                    raise _not_broadcast(type, known, size, axis - rank)
                result[axis] = common
    return tuple(map(unifier.resolve, result)) if unifier.known else tuple(result)


def broadcast_sizes(unifier: Unifier, left: Size, right: Size) -> Size | None:
    """Return the common size of an axis, where 1 broadcasts; `None` if sizes do not fit."""
    if unifier.resolve(left) == 1:
        return right
    return left if unifier.resolve(right) == 1 else unifier.unify(left, right)


def _not_broadcast(type: str, left: Size, right: Size, axis: int) -> ShapeError:
    error = ShapeError(
        f"{type} cannot broadcast {left} with {right} on axis {axis}.",
        fix="Use equal sizes, or size 1, on this axis.",
    )
    if isinstance(left, Dim) and isinstance(right, Dim):
        error.advise(
            "Different symbolic sizes may differ in a run: declare the data with one name, "
            "and slice both alike, as x[1:] and y[1:]."
        )
    return error


class _AxisSizes:
    """Sizes of the axes of one operator, for inputs of given types."""

    def __init__(
        self,
        type: str,
        declaration: Notation | AxisMap,
        types: Types,
        attrs: Attrs,
        unifier: Unifier,
    ) -> None:
        self.type = type
        self.types = types
        self.attrs = attrs
        self.unifier = unifier
        self.notation = declaration if isinstance(declaration, Notation) else None
        self.mixed = declaration.mixed
        self.sizes: dict[Index, Size] = {None: 1}
        self.wanted: Wanted = {}
        self.named: Named = declaration.inputs if isinstance(declaration, AxisMap) else {}
        self.made: Named = declaration.outputs if isinstance(declaration, AxisMap) else {}
        if isinstance(declaration, Notation):
            self._check_ranks(declaration)
            self.named, self.made = declaration.spelled(types)
        else:
            self.sizes.update(declaration.sizes)
            self.wanted = declaration.wanted

    # ---- sizes -------------------------------------------------------------------------------

    def variables(self) -> Iterator[tuple[str, int, Type, Indices]]:
        """Yield the inputs: slot, position, type, and the index of each axis."""
        for slot, slot_indices in self.named.items():
            for i, type_ in enumerate(self.types.get(slot, ())):
                yield slot, i, type_, slot_indices[min(i, len(slot_indices) - 1)]

    def measure(self, but: frozenset[str] = frozenset()) -> None:
        """Determine the size of each index, with exceptions."""
        sizes = self.sizes
        for slot, i, type_, indices in self.variables():
            shape = shape_of(type_)
            if len(indices) != len(shape):
                raise self._wrong_rank(slot, i, type_, indices)
            for axis, (index, size) in enumerate(zip(indices, shape, strict=True)):
                previous = sizes.get(index)
                if previous is size or index is None or index in but:
                    continue
                if previous is None:
                    sizes[index] = size
                elif previous != size:
                    sizes[index] = self._unify_sizes((slot, i, axis), index, previous, size)

    def _unify_sizes(
        self, place: tuple[str, int, int], index: str, known: Size, size: Size
    ) -> Size:
        """Return the common size of an index."""
        if self._broadcasts(place[0], index):
            common = broadcast_sizes(self.unifier, known, size)
        else:
            common = self.unifier.unify(known, size)
        if common is None:
            raise self._differing(place, index, known, size)
        return common

    def _broadcasts(self, slot: str, index: str) -> bool:
        return index.startswith(DOTS) and slot not in self.wanted

    def outputs(self) -> Shapes | None:
        """Return the output shapes, or `None` if the size of an axis is unknown."""
        shapes: Shapes = {}
        for slot, entries in self.made.items():
            sizes_of_variables = [
                [self._size(index) for index in indices] for indices in entries
            ]
            known_shapes = [
                tuple(size for size in sizes if size is not None)
                for sizes in sizes_of_variables
            ]
            if list(map(len, sizes_of_variables)) != list(map(len, known_shapes)):
                return None
            shapes[slot] = tuple(known_shapes)
        return shapes

    def _size(self, index: Index) -> Size | None:
        size = self.sizes.get(index)
        if size is None:
            attr_size = self.attrs.get(index or "")
            if isinstance(attr_size, bool) or not isinstance(attr_size, int | Dim):
                return None
            size = attr_size
        if isinstance(size, int):
            if size < 0:
                raise ShapeError(
                    f"{self.type}: negative axis size {size}.", fix="Use a size of 0 or more."
                )
            return size
        return self.unifier.resolve(size)

    # ---- errors ------------------------------------------------------------------------------

    def _check_ranks(self, notation: Notation) -> None:
        """Reject inputs with too few or too many axes for their term."""
        for slot, term in notation.inputs.items():
            named = len(term) - (DOTS in term)
            for type_ in self.types.get(slot, ()):
                rank = len(shape_of(type_))
                if rank < named or (rank > named and DOTS not in term):
                    more = " or more" if DOTS in term else ""
                    raise ShapeError(
                        f"{self.type}: expected {_of_rank(named)}{more}, got {type_}.",
                        fix=f"Pass `{slot}` with the axes `{' '.join(term)}`.",
                    )

    def _wrong_rank(self, slot: str, i: int, type_: Type, indices: Indices) -> ShapeError:
        """Return the error for an input of the wrong rank."""
        wrong = self._wrong_shape(slot, i, type_, indices)
        must = f"{self._called(slot, i)} must have rank {len(indices)}."
        wrong.fix = f"{must} Use br.expand_dims, br.squeeze or br.reshape."
        return wrong

    def _differing(
        self, place: tuple[str, int, int], index: str, known: Size, size: Size
    ) -> ShapeError:
        """Return the error for an index with two sizes."""
        slot, i, axis = place
        type_, indices = next(
            (t, slot_indices)
            for s, n, t, slot_indices in self.variables()
            if (s, n) == (slot, i)
        )
        if self._broadcasts(slot, index):
            return _not_broadcast(self.type, known, size, axis - len(indices))
        first = self._first(index)
        is_in_output = any(
            index in entry for entries in self.made.values() for entry in entries
        )
        has_shape_text = slot in self.wanted or self._equal_partner(slot, i, indices)
        if not has_shape_text and (index.isidentifier() or not is_in_output):
            verb = "match" if is_in_output or first[0] == slot else "contract"
            named = f" for `{index}`" if index.isidentifier() else ""
            wrong = ShapeError(f"{self.type} cannot {verb} {known} with {size}{named}.")
        else:
            wrong = self._wrong_shape(slot, i, type_, indices)
        entry, partner = self._axis(*first), self._axis(*place)
        wrong.fix = f"{entry[0].upper()}{entry[1:]} must equal {partner}."
        return wrong

    def _equal_partner(self, slot: str, i: int, indices: Indices) -> Type | None:
        """Return the type of the first input, if it has the same axes as the only other one."""
        every = list(self.variables())
        first = every[0]
        alike = len(every) == 2 and first[:2] != (slot, i) and first[3] == indices
        return first[2] if alike and not self.notation else None

    def _wrong_shape(self, slot: str, i: int, type_: Type, indices: Indices) -> ShapeError:
        """Return the error for an input of the wrong shape."""
        alike = self._equal_partner(slot, i, indices)
        if alike:
            needed = f"two equal shapes, got {alike} and"
        elif slot in self.wanted:
            needed = f"{self.wanted[slot]()}, got"
        elif all(index in self.sizes for index in indices):
            article = "an" if slot[0] in "aeiou" else "a"
            sizes = ",".join(str(self.sizes[index]) for index in indices)
            needed = f"{article} {slot} of shape [{sizes}], got"
        else:
            needed = f"{_of_rank(len(indices))}, got"
        return ShapeError(f"{self.type}: expected {needed} {type_}.")

    def _first(self, index: str) -> tuple[str, int, int]:
        """Return the first axis with an index."""
        return next(
            (slot, i, indices.index(index))
            for slot, i, _, indices in self.variables()
            if index in indices
        )

    def _called(self, slot: str, i: int) -> str:
        return f"{slot}[{i}]" if len(self.types[slot]) > 1 else slot

    def _axis(self, slot: str, i: int, axis: int) -> str:
        """Return an axis in words: `the last axis of x`."""
        rank = len(shape_of(self.types[slot][i]))
        words = {0: "first", rank - 2: "second last", rank - 1: "last"}
        which = "only" if rank == 1 else words.get(axis)
        phrase = f"the {which} axis" if which else f"axis {axis}"
        return f"{phrase} of {self._called(slot, i)}"


def _of_rank(rank: int) -> str:
    """Return the description of an array of a rank."""
    return f"an array of rank {rank}"
