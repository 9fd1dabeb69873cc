"""What the views share: slots by name, blocks that fit their owner, attributes with types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from braces.dims import Dim, Size
from braces.ir.records import ARGUMENT, Attr, Body, Slots

Origin: TypeAlias = "tuple[Body | None, str]"
"""Where a value comes from: the result of a block, or a variable outside."""


@dataclass(frozen=True, slots=True)
class Output:
    """A variable that an operator with cases binds.

    Attributes:
        name: As it is called outside; empty while the operator is not built.
        results: What gives it, in the order of the cases.
    """

    name: str
    results: tuple[str, ...]


def outputs_of(names: Sequence[str], cases: Sequence[Sequence[str]]) -> tuple[Output, ...]:
    """Outputs from their names and from the results of each case, in the same order."""
    each = zip(*cases, strict=True)
    return tuple(Output(name, results) for name, results in zip(names, each, strict=True))


def slots(before: Slots, **named: Iterable[str]) -> Slots:
    """Slots with some replaced; where there is nothing to list, none comes to those before."""
    whole = {**before, **{slot: tuple(names) for slot, names in named.items()}}
    return {slot: names for slot, names in whole.items() if names or slot in before}


def fitted(content: Body, params: Iterable[str], results: Iterable[str]) -> Body:
    """A block with these parameters and results; what else its owner would bind is gone."""
    params, results = tuple(params), tuple(results)
    if (params, results) == (content.params, content.results):
        return content
    given = set(params)
    kept = {n: v for n, v in content.vars.items() if v.kind != ARGUMENT or n in given}
    return Body(params, results, kept, content.ops, content.unknown)


def cases_in(attrs: Mapping[str, Attr]) -> tuple[Body, ...]:
    """The blocks of an operator that has a list of them."""
    cases = attrs["cases"]
    assert isinstance(cases, tuple)
    return tuple(body for body in cases if isinstance(body, Body))


def size_in(value: Attr) -> Size:
    """An attribute that is a size."""
    assert isinstance(value, int | Dim)
    return value


def names_read(body: Body) -> set[str]:
    """All that the operators and the results of a block read, whoever binds it."""
    return {name for op in body.ops for name in op.reads()} | set(body.results)
