"""An operator over all iterations equals its iterations one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import pytest

from braces.extend.operators import OPS
from braces.extend.programs import Op
from braces.extend.types import TensorType
from braces.passes.batching.batching_rule import BatchedOp, apply_batching_rule
from tests.ops.contract.test_axes import (
    CASES,
    FIRST,
    Outputs,
    Sample,
    Values,
    by_operator,
    derivatives,
    of,
    run_together,
    same,
    sample_of,
)

pytestmark = pytest.mark.unoptimized

TRIPS = 3


def named(kind: str, found: Mapping[str, Sequence[Any]]) -> dict[str, tuple[str, ...]]:
    """A name for each variable, by slot."""
    return {
        s: tuple(f"{kind}.{s}.{i}" for i, _ in enumerate(xs)) for s, xs in found.items() if xs
    }


def by_name(names: Mapping[str, Sequence[str]], found: Mapping[str, Sequence[Any]]) -> Any:
    """Return the entry of each name."""
    pairs = (zip(names[slot], xs, strict=True) for slot, xs in found.items() if xs)
    return dict(chain.from_iterable(pairs))


def op_of(sample: Sample) -> tuple[Op, dict[str, TensorType], dict[str, np.ndarray]]:
    """The operator as a program has it, the types of all that it names, and its inputs."""
    given, made = named("in", sample.values), named("out", sample.made)
    values = by_name(given, sample.values)
    types = {name: TensorType(x.dtype, x.shape) for name, x in values.items()}
    op = Op(sample.definition.type, "op", given, made, dict(sample.attrs))
    return op, types | by_name(made, sample.made), values


def trips_of(x: np.ndarray) -> list[np.ndarray]:
    """The values of each trip: the same numbers in other places."""
    flat = x.reshape(-1)
    return [np.roll(flat, shift).reshape(x.shape) for shift in range(TRIPS)]


def all_ways(op: Op) -> Iterator[set[str]]:
    """What may vary: all inputs, or one."""
    names = list(dict.fromkeys(op.reads()))
    if names:
        yield set(names)
    if len(names) > 1:
        yield from ({name} for name in names)


@dataclass(frozen=True)
class Way:
    """An operator that is written for all trips, and what it and the operator are given."""

    sample: Sample
    op: Op
    found: BatchedOp
    values: Mapping[str, np.ndarray]

    @property
    def together(self) -> tuple[Sample, Values]:
        """All trips at once."""

        def given(name: str) -> np.ndarray:
            x, rank = self.values[name], self.found.ranks.get(name)
            if name not in self.found.varying:
                return x
            whole = np.stack(trips_of(x))
            return whole.reshape(TRIPS, *(1,) * ((rank or whole.ndim) - whole.ndim), *x.shape)

        definition = OPS.get(self.found.op.type)
        longer = replace(self.sample, definition=definition, values={}, attrs=self.found.attrs)
        return longer, self._inputs(self.found.op, given)

    @property
    def each(self) -> list[tuple[Sample, Values]]:
        """One trip after the other."""

        def given(trip: int, name: str) -> np.ndarray:
            x = self.values[name]
            return trips_of(x)[trip] if name in self.found.varying else x

        return [
            (self.sample, self._inputs(self.op, partial(given, trip))) for trip in range(TRIPS)
        ]

    @staticmethod
    def _inputs(op: Op, given: Callable[[str], np.ndarray]) -> Values:
        return {slot: tuple(map(given, names)) for slot, names in op.inputs.items()}


def ways_of(sample: Sample) -> Iterator[Way]:
    """An operator written for all trips, by what varies."""
    op, types, values = op_of(sample)
    for varying in all_ways(op):
        found = apply_batching_rule(op, types.__getitem__, varying, TRIPS)
        if found is not None:
            yield Way(sample, op, found, values)


def check(samples: Sequence[Sample]) -> None:
    """Hold operators for all trips against those for one."""
    ways = [way for sample in samples for way in ways_of(sample)]
    if not ways:
        return
    answers = iter(run_together([run for way in ways for run in (way.together, *way.each)]))
    for way in ways:
        together, parts = next(answers), list(islice(answers, TRIPS))
        assert same(together, stacked(parts)), way.found


def stacked(parts: Sequence[Outputs]) -> Outputs:
    """The outputs of all trips."""
    return {
        slot: [np.stack(xs) for xs in zip(*(p[slot] for p in parts), strict=True)]
        for slot in parts[0]
    }


@by_operator(CASES)
def test_all_trips_at_once_are_the_trips_one_by_one(op: str) -> None:
    check([sample_of(case) for case in of(op, CASES)])


@by_operator(FIRST)
def test_so_are_derivatives(op: str) -> None:
    check([one for case in of(op, FIRST) for one in derivatives(case)])
