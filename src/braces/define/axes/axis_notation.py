"""Axis declarations of definitions: notation, or a function that selects one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, wraps
from typing import Any

from braces.define.axes.axis_map import (
    DOTS,
    Attrs,
    Axes,
    AxisError,
    AxisMap,
    AxisRule,
    Indices,
    Names,
    Types,
    broadcasting_indices,
    make_axis_map,
    shape_of,
)
from braces.define.axes.axis_rules import Reduction
from braces.define.core.kernel_call import call_rule
from braces.define.core.signature import AttrSpec, Slot
from braces.errors import OpDefinitionError, suggest

EINSUM_HINT = "Use the notation of einsum: '... i k, ... k j -> ... i j'."


def axis_rule(
    type: str,
    axes: Axes,
    inputs: Sequence[Slot],
    outputs: Sequence[Slot],
    attrs: Sequence[AttrSpec],
) -> AxisRule | None:
    """Return the declared axes of a definition as a function of types and attributes.

    Raises:
        OpDefinitionError: If the notation is invalid, or names an unknown input or axis.
    """
    slots = tuple(s.name for s in inputs), tuple(s.name for s in outputs)
    if axes is None:
        return None
    if isinstance(axes, str):
        return _parse_choice(type, axes, *slots)
    if isinstance(axes, Mapping):
        for name in axes:
            if name not in slots[0]:
                raise OpDefinitionError(
                    f"{type}: unknown input {name!r} in axes={axes!r}.",
                    fix=suggest(name, slots[0]),
                )
        if not axes or all(spec.name != "axis" for spec in attrs):
            raise OpDefinitionError(
                f"{type}: axes={axes!r} declares a reduction over the attribute `axis`, but "
                f"{'there is no such attribute' if axes else 'names no input'}.",
                fix="Write `*, axis: int | None = None` in the signature, or declare the axes "
                "in the notation of einsum: '... i -> ...'.",
            )
        axes = Reduction(axes)
    if not callable(axes):
        raise OpDefinitionError(
            f"{type}: expected a notation or a function for `axes`, got {axes!r:.80}.",
            fix=EINSUM_HINT,
        )
    return ChosenAxes(type, axes, *slots)


@dataclass(frozen=True)
class ChosenAxes:
    """Axes selected by a function, for one operator."""

    type: str
    function: Callable[[Any, Any], str | AxisMap]
    inputs: Names
    outputs: Names

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """Return the map for inputs of these types."""
        declaration = self.choose(types, attrs)
        return declaration(types, attrs) if isinstance(declaration, Notation) else declaration

    def choose(self, types: Types, attrs: Attrs) -> Notation | AxisMap:
        """Return the result of the function.

        Raises:
            ShapeError: If the function rejects the inputs.
        """
        available_types = {n: types[n] for n in (*self.inputs, *self.outputs) if types.get(n)}
        return call_rule(
            self.type, "axes=", self._wrapped, (available_types, attrs), {}, self._parse_choice
        )

    @cached_property
    def _wrapped(self) -> Callable[[Any, Any], object]:
        """The function; its errors get the name of the operator."""

        @wraps(self.function)
        def chosen_shapes(types: Types, attrs: Attrs) -> object:
            try:
                return self.function(types, attrs)
            except AxisError as error:
                raise error.of(self.type) from None
            except KeyError as error:
                if error.args[0] not in self.outputs:
                    raise
                return AxisMap({}, {})  # it reads output types, which are unknown yet

        return chosen_shapes

    def _parse_choice(self, declaration: object) -> Notation | AxisMap:
        if isinstance(declaration, str):
            return _parse_choice(self.type, declaration, self.inputs, self.outputs)
        if not isinstance(declaration, AxisMap):
            raise TypeError
        return declaration


# ---- notation --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notation:
    """Axes in the notation of `braces.define.axes.axis_map`.

    Attributes:
        inputs: By slot, the names of its axes.
        outputs: The same for the outputs.
        mixed: The names with a `!`.
    """

    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    mixed: frozenset[str]

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """Return the map for inputs of these types."""
        del attrs
        return make_axis_map(types, *self.spelled(types), self.mixed)

    @cached_property
    def elementwise(self) -> bool:
        """Return whether all terms are `...`."""
        return all(term == (DOTS,) for term in (*self.inputs.values(), *self.outputs.values()))

    def spelled(
        self, types: Types
    ) -> tuple[dict[str, tuple[Indices, ...]], dict[str, tuple[Indices, ...]]]:
        """Return the index of each axis of inputs of these types, and of the outputs."""
        extra = {
            name: [len(shape_of(t)) - len(term) + 1 for t in types.get(name, ())]
            for name, term in self.inputs.items()
            if DOTS in term
        }
        most = max((n for counts in extra.values() for n in counts), default=0)
        inputs = {
            name: tuple(
                _expand_term(term, extra[name][i] if name in extra else 0)
                for i in range(len(types.get(name, ())))
            )
            for name, term in self.inputs.items()
        }
        outputs = {name: (_expand_term(term, most),) for name, term in self.outputs.items()}
        return inputs, outputs


def is_elementwise(rule: AxisRule | None) -> bool:
    """Return whether each element depends only on elements at its position, for all shapes."""
    return isinstance(rule, Notation) and all(
        term == (DOTS,) for term in (*rule.inputs.values(), *rule.outputs.values())
    )


def _expand_term(term: Sequence[str], extra: int) -> Indices:
    """Return the names of a term, with `...` expanded and counted from the last axis."""
    dots = broadcasting_indices(extra)
    return tuple(index for name in term for index in (dots if name == DOTS else [name]))


@cache
def _parse_choice(
    type: str, text: str, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Notation:
    left, arrow, right = text.partition("->")
    terms = [_terms(left, len(inputs)), _terms(right, len(outputs))]
    names = ", ".join((*inputs, *outputs))
    for slots, side_terms in zip((inputs, outputs), terms, strict=True):
        if not arrow or len(side_terms) != len(slots):
            raise OpDefinitionError(
                f"{type}: expected one term for each of {names}, got axes={text!r}.",
                fix=EINSUM_HINT,
            )
    all_indices = [index for side_terms in terms for term in side_terms for index in term]
    for index in all_indices:
        if not re.fullmatch(r"\.\.\.|[A-Za-z_]\w*!?", index):
            raise OpDefinitionError(
                f"{type}: invalid axis {index!r} in axes={text!r}.",
                fix="Use identifiers for axes, `...` for any number of axes, and `!` after an "
                "axis whose entries depend on each other.",
            )
    plain = [
        [tuple(index.rstrip("!") for index in term) for term in side_terms]
        for side_terms in terms
    ]
    return Notation(
        dict(zip(inputs, plain[0], strict=True)),
        dict(zip(outputs, plain[1], strict=True)),
        frozenset(index.rstrip("!") for index in all_indices if index.endswith("!")),
    )


def _terms(side: str, slots: int) -> list[list[str]]:
    return [term.split() for term in side.split(",")] if side.strip() or slots == 1 else []
