"""Operator schema from a kernel's signature: inputs are positional, attributes keyword-only."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from braces.define.core.attribute_kinds import BLOCK_KINDS, KINDS, LEADING_AXIS_RULES, ROLES
from braces.dims import Size
from braces.errors import OpDefinitionError

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output of an operator.

    Attributes:
        many: Whether it holds any number of variables.
        optional: Whether it may be absent.
        index: Whether a Python integer stays an integer, independent of other operands.
    """

    name: str
    many: bool = False
    optional: bool = False
    index: bool = False


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """An attribute with its kind, default and role, from the kernel's annotations.

    Attributes:
        role: Its purpose, one of `braces.define.core.attribute_kinds.ROLES`; most have none.
    """

    name: str
    kind: str
    default: Any = REQUIRED
    role: str = ""

    @property
    def required(self) -> bool:
        """Return whether there is no default."""
        return self.default is REQUIRED

    @property
    def holds_blocks(self) -> bool:
        """Return whether it is a block, or several."""
        return self._base in BLOCK_KINDS

    @property
    def sizes_axes(self) -> bool:
        """Return whether it is the shape of the first output."""
        return self._base == "Shape" and not self.role

    @property
    def _base(self) -> str:
        return self.kind.removesuffix(" | None")

    def led(self, value: Any, size: Size, rank: int) -> Any:
        """Return the value for an operator with one more leading axis (batching).

        Args:
            value: The value without the axis.
            size: The size of the axis.
            rank: The rank of the first input without the axis.
        """
        absent = value is None and self.kind != self._base
        return (
            value
            if absent or self._base not in LEADING_AXIS_RULES
            else LEADING_AXIS_RULES[self._base](value, size, rank)
        )


def read_signature(
    kernel: Callable[..., Any],
) -> tuple[tuple[Slot, ...], tuple[AttrSpec, ...]]:
    """Return inputs and attributes of a kernel from its parameters."""
    inputs, attrs = list[Slot](), list[AttrSpec]()
    for parameter in inspect.signature(kernel).parameters.values():
        kind = _read_annotation(kernel, parameter)
        if parameter.kind is parameter.KEYWORD_ONLY:
            attrs.append(_read_attribute(kernel, parameter, kind))
        else:
            _check_is_input(kernel, parameter.name, kind)
            many = parameter.kind is parameter.VAR_POSITIONAL
            optional = many or kind.endswith("| None")
            index = kind.removesuffix(" | None") == "Indices"
            inputs.append(Slot(parameter.name, many, optional, index))
    _check_roles(kernel, attrs)
    return tuple(inputs), tuple(attrs)


def _check_is_input(kernel: Callable[..., Any], name: str, annotated: str) -> None:
    """Refuse a positional parameter whose annotation is that of an attribute."""
    kind = annotated.removesuffix(" | None")
    if kind in KINDS or (kind in ROLES and kind != "Indices"):
        raise OpDefinitionError(
            f"{kernel.__name__}: the attribute `{name}` must be keyword-only.",
            given=f"{name}: {annotated}",
            fix=f"Write `*,` before `{name}`; positional parameters are inputs, annotated as "
            "Tensor.",
        )


def _read_attribute(
    kernel: Callable[..., Any], parameter: inspect.Parameter, annotated: str
) -> AttrSpec:
    base = annotated.removesuffix(" | None")
    role = base if base in ROLES else ""
    if not role and base not in KINDS:
        raise OpDefinitionError(
            f"{kernel.__name__}: unknown kind {annotated} of `{parameter.name}`.",
            fix=f"Use one of {', '.join((*KINDS, *ROLES))}; append `| None` if it is optional.",
        )
    kind = ROLES.get(base, base) + annotated[len(base) :]
    return AttrSpec(parameter.name, kind, parameter.default, role)


def _check_roles(kernel: Callable[..., Any], attrs: Iterable[AttrSpec]) -> None:
    taken: dict[str, str] = {}
    for spec in attrs:
        if spec.role and taken.setdefault(spec.role, spec.name) != spec.name:
            raise OpDefinitionError(
                f"{kernel.__name__}: duplicate role {spec.role} of `{taken[spec.role]}` and "
                f"`{spec.name}`.",
                fix="Use a role for at most one attribute.",
            )


_ROLE = re.compile(r"typing\.Annotated\[.*?, '(\w+)'\]")
"""Format of an annotation with a role."""


def _read_annotation(kernel: Callable[..., Any], parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    if kind is parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
        raise OpDefinitionError(
            f"{kernel.__name__}: parameter `{parameter.name}` has no annotation.",
            fix="Annotate inputs as Tensor, attributes with their kind.",
        )
    named = isinstance(kind, type)
    text = kind if isinstance(kind, str) else kind.__name__ if named else str(kind)
    plain = re.sub(r"\b(define|typing|br)\.", "", _ROLE.sub(r"\1", text))
    return plain[9:-1] + " | None" if plain.startswith("Optional[") else plain


def call_signature(inputs: Sequence[Slot], attrs: Sequence[AttrSpec]) -> inspect.Signature:
    """Return an operator's call signature: inputs, then attributes, by position or keyword."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        inspect.Parameter(
            slot.name, plain, default=None if slot.optional and not slot.many else REQUIRED
        )
        for slot in inputs
    ]
    seen_default = any(p.default is not REQUIRED for p in parameters)
    for spec in attrs:
        kind = inspect.Parameter.KEYWORD_ONLY if spec.required and seen_default else plain
        seen_default = seen_default or not spec.required
        parameters.append(inspect.Parameter(spec.name, kind, default=spec.default))
    parameters.sort(key=lambda p: p.kind)
    return inspect.Signature(parameters)
