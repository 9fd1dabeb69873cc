"""Common parts of views: slots by name, blocks that fit their owner, typed attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from braces.dims import Dim, Size
from braces.ir.records import ARGUMENT, Attr, Body, Slots

Origin: TypeAlias = "tuple[Body | None, str]"
"""Source of a value: the result of a block, or a variable outside."""


@dataclass(frozen=True, slots=True)
class Output:
    """A variable that an operator with cases binds.

    Attributes:
        name: The name outside; empty while the operator is not built.
        results: The names that compute it, in the order of the cases.
    """

    name: str
    results: tuple[str, ...]


def outputs_of(names: Sequence[str], cases: Sequence[Sequence[str]]) -> tuple[Output, ...]:
    """Return outputs from their names and from the results of each case, in the same order."""
    each = zip(*cases, strict=True)
    return tuple(Output(name, results) for name, results in zip(names, each, strict=True))


def replace_slots(before: Slots, **named: Iterable[str]) -> Slots:
    """Return slots with some replaced; empty lists create no new slots."""
    merged = {**before, **{slot: tuple(names) for slot, names in named.items()}}
    return {slot: names for slot, names in merged.items() if names or slot in before}


def fit_interface(content: Body, params: Iterable[str], results: Iterable[str]) -> Body:
    """Return a block with these parameters and results; other arguments are removed."""
    params, results = tuple(params), tuple(results)
    if (params, results) == (content.params, content.results):
        return content
    param_set = set(params)
    remaining_vars = {
        n: v for n, v in content.vars.items() if v.kind != ARGUMENT or n in param_set
    }
    return Body(params, results, remaining_vars, content.ops, content.unknown)


def cases_in(attrs: Mapping[str, Attr]) -> tuple[Body, ...]:
    """Return the blocks of an operator that has a list of them."""
    cases = attrs["cases"]
    assert isinstance(cases, tuple)
    return tuple(body for body in cases if isinstance(body, Body))


def size_in(value: Attr) -> Size:
    """Return an attribute that is a size."""
    assert isinstance(value, int | Dim)
    return value


def names_read(body: Body) -> set[str]:
    """Return all names that the operators and the results of a block read."""
    return {name for op in body.ops for name in op.reads()} | set(body.results)
