"""A kernel's signature: positional parameters are inputs, keyword-only ones attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from braces.errors import OpDefinitionError
from braces.ops.kinds import KINDS

REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Slot:
    """An input or output of an operator.

    Attributes:
        many: Whether it holds any number of variables.
        optional: Whether it may be absent.
    """

    name: str
    many: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """An attribute: its kind as annotated on the kernel, and its default."""

    name: str
    kind: str
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is REQUIRED


def read_signature(
    kernel: Callable[..., Any],
) -> tuple[tuple[Slot, ...], tuple[AttrSpec, ...]]:
    """Inputs and attributes of a kernel, from its parameters."""
    inputs, attrs = list[Slot](), list[AttrSpec]()
    for parameter in inspect.signature(kernel).parameters.values():
        kind = _annotation(kernel, parameter)
        if parameter.kind is parameter.KEYWORD_ONLY:
            if kind.removesuffix(" | None") not in KINDS:
                raise OpDefinitionError(
                    f"{kernel.__name__}: `{parameter.name}` has the unknown kind {kind}.",
                    fix=f"Use one of {', '.join(KINDS)}; with `| None` where it may be absent.",
                )
            attrs.append(AttrSpec(parameter.name, kind, parameter.default))
        else:
            many = parameter.kind is parameter.VAR_POSITIONAL
            inputs.append(Slot(parameter.name, many, many or kind.endswith("| None")))
    return tuple(inputs), tuple(attrs)


def _annotation(kernel: Callable[..., Any], parameter: inspect.Parameter) -> str:
    kind = parameter.annotation
    if kind is parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
        raise OpDefinitionError(
            f"{kernel.__name__}: parameter `{parameter.name}` has no annotation.",
            fix="Annotate inputs as Tensor, attributes with their kind.",
        )
    text = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    plain = text.replace("define.", "").replace("typing.", "").replace("br.", "")
    return plain[9:-1] + " | None" if plain.startswith("Optional[") else plain
