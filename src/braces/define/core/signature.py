"""A kernel's signature: positional parameters are inputs, keyword-only ones attributes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from braces.define.core.attribute_kinds import BLOCK_KINDS, KINDS, LED, ROLES
from braces.dims import Size
from braces.errors import OpDefinitionError

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output of an operator.

    Attributes:
        many: Whether it holds any number of variables.
        optional: Whether it may be absent.
        index: Whether a Python integer stays one, whatever stands beside it.
    """

    name: str
    many: bool = False
    optional: bool = False
    index: bool = False


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """An attribute: its kind and its role as annotated on the kernel, and its default.

    Attributes:
        role: What it is for, one of `braces.define.core.attribute_kinds.ROLES`; most have none.
    """

    name: str
    kind: str
    default: Any = REQUIRED
    role: str = ""

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED

    @property
    def holds_blocks(self) -> bool:
        """Whether it is a block, or several."""
        return self._base in BLOCK_KINDS

    @property
    def sizes_axes(self) -> bool:
        """Whether it is the shape of the first output."""
        return self._base == "Shape" and not self.role

    @property
    def _base(self) -> str:
        return self.kind.removesuffix(" | None")

    def led(self, value: Any, size: Size, rank: int) -> Any:
        """A value where the operator is to work along one more axis in front.

        Args:
            value: The value without that axis.
            size: How long the axis is.
            rank: How many axes the first input has without it.
        """
        absent = value is None and self.kind != self._base
        return value if absent or self._base not in LED else LED[self._base](value, size, rank)


def read_signature(
    kernel: Callable[..., Any],
) -> tuple[tuple[Slot, ...], tuple[AttrSpec, ...]]:
    """Inputs and attributes of a kernel, from its parameters."""
    inputs, attrs = list[Slot](), list[AttrSpec]()
    for parameter in inspect.signature(kernel).parameters.values():
        kind = _annotation(kernel, parameter)
        if parameter.kind is parameter.KEYWORD_ONLY:
            attrs.append(_attribute(kernel, parameter, kind))
        else:
            many = parameter.kind is parameter.VAR_POSITIONAL
            optional = many or kind.endswith("| None")
            index = kind.removesuffix(" | None") == "Indices"
            inputs.append(Slot(parameter.name, many, optional, index))
    _check_roles(kernel, attrs)
    return tuple(inputs), tuple(attrs)


def _attribute(
    kernel: Callable[..., Any], parameter: inspect.Parameter, annotated: str
) -> AttrSpec:
    base = annotated.removesuffix(" | None")
    role = base if base in ROLES else ""
    if not role and base not in KINDS:
        raise OpDefinitionError(
            f"{kernel.__name__}: `{parameter.name}` has the unknown kind {annotated}.",
            fix=f"Use one of {', '.join((*KINDS, *ROLES))}; with `| None` where it may be "
            "absent.",
        )
    kind = ROLES.get(base, base) + annotated[len(base) :]
    return AttrSpec(parameter.name, kind, parameter.default, role)


def _check_roles(kernel: Callable[..., Any], attrs: Iterable[AttrSpec]) -> None:
    taken: dict[str, str] = {}
    for spec in attrs:
        if spec.role and taken.setdefault(spec.role, spec.name) != spec.name:
            raise OpDefinitionError(
                f"{kernel.__name__}: `{taken[spec.role]}` and `{spec.name}` are both "
                f"{spec.role}.",
                fix="An operator has at most one attribute for each role.",
            )


_ROLE = re.compile(r"typing\.Annotated\[.*?, '(\w+)'\]")
"""How an annotation with a role is written out."""


def _annotation(kernel: Callable[..., Any], parameter: inspect.Parameter) -> str:
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
    """How an operator is called: inputs, then attributes, by position or by keyword."""
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
