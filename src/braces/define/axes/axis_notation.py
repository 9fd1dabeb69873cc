"""How a definition says its axes: in the notation, or as a function that chooses."""

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
    Reduced,
    Types,
    broadcasting,
    mapped,
    shape_of,
)
from braces.define.core.kernel_call import ask
from braces.define.core.signature import AttrSpec, Slot
from braces.errors import OpDefinitionError, suggest

AS_IN_EINSUM = "Write them as in einsum: '... i k, ... k j -> ... i j'."


def axis_rule(
    type: str,
    axes: Axes,
    inputs: Sequence[Slot],
    outputs: Sequence[Slot],
    attrs: Sequence[AttrSpec],
) -> AxisRule | None:
    """What a definition says of its axes, as a function of types and attributes.

    Raises:
        OpDefinitionError: It cannot be read, or names an input or axis that there is not.
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
        if not axes or all(spec.name != "axis" for spec in attrs):
            raise OpDefinitionError(
                f"{type}: axes={axes!r} tells what is reduced over the attribute `axis`; there "
                f"is no such {'attribute' if axes else 'input'}.",
                fix="Write `*, axis: int | None = None` in the signature, or say the axes in "
                "the notation: '... i -> ...'.",
            )
        axes = Reduced(axes)
    if not callable(axes):
        raise OpDefinitionError(
            f"{type}: axes={axes!r:.80} is neither a notation nor a function.",
            fix=AS_IN_EINSUM,
        )
    return Chosen(type, axes, *slots)


@dataclass(frozen=True)
class Chosen:
    """Axes that a function chooses, for one operator."""

    type: str
    function: Callable[[Any, Any], str | AxisMap]
    inputs: Names
    outputs: Names

    def __call__(self, types: Types, attrs: Attrs) -> AxisMap:
        """The map for inputs of these types."""
        found = self.told(types, attrs)
        return found(types, attrs) if isinstance(found, Notation) else found

    def told(self, types: Types, attrs: Attrs) -> Notation | AxisMap:
        """What the function says.

        Raises:
            ShapeError: It refuses the inputs.
        """
        known = {n: types[n] for n in (*self.inputs, *self.outputs) if types.get(n)}
        return ask(self.type, "axes=", self._asked, (known, attrs), {}, self._read)

    @cached_property
    def _asked(self) -> Callable[[Any, Any], object]:
        """The function; what it refuses has the name of the operator."""

        @wraps(self.function)
        def asked(types: Types, attrs: Attrs) -> object:
            try:
                return self.function(types, attrs)
            except AxisError as error:
                raise error.of(self.type) from None
            except KeyError as error:
                if error.args[0] not in self.outputs:
                    raise
                return AxisMap({}, {})  # it asks for outputs, of which nothing is known yet

        return asked

    def _read(self, found: object) -> Notation | AxisMap:
        if isinstance(found, str):
            return _read(self.type, found, self.inputs, self.outputs)
        if not isinstance(found, AxisMap):
            raise TypeError
        return found


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
        return mapped(types, *self.spelled(types), self.mixed)

    @cached_property
    def elementwise(self) -> bool:
        """Whether it is nothing but `...`."""
        return all(term == (DOTS,) for term in (*self.inputs.values(), *self.outputs.values()))

    def spelled(
        self, types: Types
    ) -> tuple[dict[str, tuple[Indices, ...]], dict[str, tuple[Indices, ...]]]:
        """The index of each axis of inputs of these types, and of the outputs."""
        extra = {
            name: [len(shape_of(t)) - len(term) + 1 for t in types.get(name, ())]
            for name, term in self.inputs.items()
            if DOTS in term
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
        return inputs, outputs


def is_elementwise(rule: AxisRule | None) -> bool:
    """Whether each element comes of those at its own place alone, in arrays of every shape."""
    return isinstance(rule, Notation) and all(
        term == (DOTS,) for term in (*rule.inputs.values(), *rule.outputs.values())
    )


def _spelled(term: Sequence[str], extra: int) -> Indices:
    """The names of a term, with those of `...` counted from the last one on."""
    dots = broadcasting(extra)
    return tuple(name for one in term for name in (dots if one == DOTS else [one]))


@cache
def _read(type: str, text: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Notation:
    left, arrow, right = text.partition("->")
    terms = [_terms(left, len(inputs)), _terms(right, len(outputs))]
    names = ", ".join((*inputs, *outputs))
    for slots, found in zip((inputs, outputs), terms, strict=True):
        if not arrow or len(found) != len(slots):
            raise OpDefinitionError(
                f"{type}: axes={text!r} is not one term for each of {names}.",
                fix=AS_IN_EINSUM,
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
