"""Shapes that follow from what a run is fed: numbers of the program that are sizes of axes.

    NonZero -> Shape -> Gather     a size with a name, as all that shapes say
    ReduceMax(lengths) -> Range    as_size of the number; the run tells it

A vector that is put together of both is taken apart, so that what is known stays known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from braces.builder.append import one
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import INT64, is_integer
from braces.errors import ProgramError
from braces.exchange.common.values.constants import MOST_ELEMENTS
from braces.exchange.onnx.reader.graph.node import Names, Node, operator_of
from braces.frontend.array_api import data_dependent as finding

SAME = ("Identity", "Squeeze", "Unsqueeze")
"""Operators that change no number, and no order where there is one."""


@dataclass(frozen=True)
class Told:
    """A number that only a run tells.

    Attributes:
        var: What holds it.
        at: Its place there, where that has an axis.
    """

    var: Var
    at: int | None = None

    def number(self) -> Var:
        """The number alone."""
        made = self.var if self.at is None else self.var[self.at]
        return made if made.dtype == INT64 else one("cast", made, dtype=INT64)


Part: TypeAlias = "Size | Told"
"""One number of a shape, or of bounds."""


def parts(names: Names, name: str) -> list[Part]:
    """The numbers of a scalar or vector, one by one.

    Raises:
        ProgramError: It has more axes, nobody knows how many numbers, or they are too many.
    """
    known = names.runner.known(names, name)
    if known is not None:
        return [int(n) if isinstance(n, float) else n for n in known.items()]
    maker = names.maker(name)
    if maker is not None:
        seen, proto, _ = maker
        if operator_of(proto) == "Concat":
            return [part for given in proto.input for part in parts(seen, given)]
        if operator_of(proto) in SAME:
            return parts(seen, proto.input[0])
    value = names.value(name)
    var = names.runner.lift(value)
    if not is_integer(var.dtype):
        raise ProgramError(f"`{name:.80}` is of {var.dtype}, and sizes are integers.")
    if not var.ndim:
        return [Told(var)]
    if var.ndim > 1 or isinstance(var.shape[0], Dim) or var.shape[0] > MOST_ELEMENTS:
        raise ProgramError(
            f"`{name:.80}` says sizes, but not how many, or too many: {var.type}.",
            fix="Give the values of inputs that it follows from: inputs={'name': array}.",
        )
    return [Told(var, at) for at in range(var.shape[0])]


def as_sizes(names: Names, given: list[Part]) -> list[Size]:
    """Numbers as sizes; those that a run tells get names, the same ones each time."""
    return [_size(names, part) if isinstance(part, Told) else part for part in given]


def _size(names: Names, part: Told) -> Size:
    sizes = names.runner.sizes
    key = part.var.name, part.at, id(part.var.program.current)
    if key not in sizes:
        sizes[key] = finding.as_size(part.number())
    return sizes[key]


def told(part: Part) -> Size | Var:
    """A size, or the number that tells it."""
    return part.number() if isinstance(part, Told) else part


def sizes_at(node: Node, at: int) -> list[Size] | None:
    """The sizes that an input says, known or told by a run, where it is given."""
    if not node.has(at):
        return None
    return as_sizes(node.names, parts(node.names, node.proto.input[at]))
