"""Data-dependent shapes: numbers of the program that are sizes of axes.

    NonZero -> Shape -> Gather     a named size, like all sizes of shapes
    ReduceMax(lengths) -> Range    `as_size` of the number, with its value at run time

A vector that concatenates both is split again, so that known sizes stay known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from braces.errors import ProgramError
from braces.exchange.common.values.constants import MOST_ELEMENTS
from braces.exchange.onnx.reader.graph.node import GraphScope, OnnxNode, operator_of
from braces.extend import data_dependent
from braces.extend.building import Var, emit
from braces.extend.types import INT64, Dim, Size, is_integer

SAME = ("Identity", "Squeeze", "Unsqueeze")
"""Operators that change neither numbers nor their order."""


@dataclass(frozen=True)
class RunTimeSize:
    """A number that is known at run time only.

    Attributes:
        var: The variable that holds it.
        at: Its index there, if the variable is a vector.
    """

    var: Var
    at: int | None = None

    def number(self) -> Var:
        """Return the number as a scalar."""
        scalar = self.var if self.at is None else self.var[self.at]
        return scalar if scalar.dtype == INT64 else emit("cast", scalar, dtype=INT64)


Part: TypeAlias = "Size | RunTimeSize"
"""One number of a shape, or of bounds."""


def split_parts(names: GraphScope, name: str) -> list[Part]:
    """Return the numbers of a scalar or vector, one by one.

    Raises:
        ProgramError: If the value has rank above 1, an unknown length, or too many numbers.
    """
    known = names.runner.known_value(names, name)
    if known is not None:
        return [int(n) if isinstance(n, float) else n for n in known.items()]
    maker = names.maker(name)
    if maker is not None:
        seen, proto, _ = maker
        if operator_of(proto) == "Concat":
            return [part for text in proto.input for part in split_parts(seen, text)]
        if operator_of(proto) in SAME:
            return split_parts(seen, proto.input[0])
    value = names.value(name)
    var = names.runner.lift(value)
    if not is_integer(var.dtype):
        raise ProgramError(f"expected integer sizes as `{name:.80}`, got {var.dtype}.")
    if not var.ndim:
        return [RunTimeSize(var)]
    if var.ndim > 1 or isinstance(var.shape[0], Dim) or var.shape[0] > MOST_ELEMENTS:
        raise ProgramError(
            f"expected at most {MOST_ELEMENTS} sizes in `{name:.80}`, got {var.type}.",
            fix="Pass the values of the inputs that it depends on: inputs={'name': array}.",
        )
    return [RunTimeSize(var, at) for at in range(var.shape[0])]


def as_sizes(names: GraphScope, parts: list[Part]) -> list[Size]:
    """Return numbers as sizes; each run-time number gets one name."""
    return [
        _named_size(names, part) if isinstance(part, RunTimeSize) else part for part in parts
    ]


def _named_size(names: GraphScope, part: RunTimeSize) -> Size:
    sizes = names.runner.sizes
    key = part.var.name, part.at, id(part.var.program.current)
    if key not in sizes:
        sizes[key] = data_dependent.as_size(part.number())
    return sizes[key]


def as_size_or_number(part: Part) -> Size | Var:
    """Return a size, or the number that it depends on."""
    return part.number() if isinstance(part, RunTimeSize) else part


def sizes_at(node: OnnxNode, at: int) -> list[Size] | None:
    """Return the sizes of an input, known or data-dependent; `None` if it is omitted."""
    if not node.has(at):
        return None
    return as_sizes(node.names, split_parts(node.names, node.proto.input[at]))
