"""Comparison of two traces: the first operator of each whose value differs.

Values are compared by content, so the two programs need no names in common, and a value that
only one of them computes is no difference by itself. From the results that differ, the values
without an equal one in the other run are followed backward. The first operator there whose
operands all have equal values is the difference. Operators that compute nothing, such as a
constant or a reshape, come last: one of the two runs may have a layout of its own.

A model of another system may have one operator for a whole loop, as an LSTM of ONNX. Its trace
then offers a finer one of the same model, which stands for it in the search in `a` if the
results of both agree.

A match may be accidental: of a small value (a flag, a small integer, a constant of one number),
or of a value that the other run computes elsewhere, as a gradient does. It counts as a match
unless the operator that reads it has a counterpart in the other run, of the same type and with
the same large operands, which reads another value in its place. Then the operator that computed
the value is the difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from braces.errors import ProgramError
from braces.surgery.comparison.value_comparison import (
    DifferingOperator,
    ResultDifference,
    ValueComparison,
)
from braces.surgery.comparison.value_matching import (
    TEXT,
    ValuePool,
    as_numbers,
    family_of,
    is_weak,
    largest_error,
)
from braces.surgery.comparison.value_trace import NEXT, Event, Key, Trace


def compare_traces(left: Trace, right: Trace, rtol: float, atol: float) -> ValueComparison:
    """Compare two traces.

    Raises:
        ProgramError: If the runs have no results in common.
    """
    pairs = _result_pairs(left, right)
    if not pairs:
        raise ProgramError(
            "the two runs have no results in common.",
            given=f"a: {_listed(left.results)}; b: {_listed(right.results)}",
            fix="Fetch results of the same names, or as many of each.",
        )
    forth, back = Matching(left, right, rtol, atol), Matching(right, left, rtol, atol)
    results = tuple(_differences(pairs, forth))
    names = {result.name for result in results}
    olds = [old for name, old, _ in pairs if name in names]
    news = [new for name, _, new in pairs if name in names]
    keys = [key for event in left.events for key in event.writes if key in left.values]
    finer = _finer_difference(left, right, names, rtol, atol) if results else None
    return ValueComparison(
        finer or forth.first_difference(olds),
        back.first_difference(news),
        results,
        sum(forth.matches(key) for key in keys),
        len(keys),
        forth.differing_inputs(olds),
        tuple(_unpaired(left, right, pairs)),
    )


def _finer_difference(
    left: Trace, right: Trace, names: Collection[str], rtol: float, atol: float
) -> DifferingOperator | None:
    """Return the first difference from a finer trace of the same model, if that agrees."""
    finer = None if right.finer is None else right.finer()
    if finer is None:
        return None
    agreeing = Matching(finer, right, rtol, atol)
    if any(_differences(_result_pairs(finer, right), agreeing)):
        return None
    pairs = [pair for pair in _result_pairs(left, finer) if pair[0] in names]
    return Matching(left, finer, rtol, atol).first_difference([old for _, old, _ in pairs])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _differences(
    pairs: Sequence[tuple[str, Key, Key]], matching: Matching
) -> Iterator[ResultDifference]:
    """Yield the results that differ."""
    for name, old, new in pairs:
        values = matching.own.values.get(old), matching.other.values.get(new)
        if values[0] is None or values[1] is None or matching.pool.equal(values[0], values[1]):
            continue
        yield ResultDifference(name, largest_error(values[0], values[1]))


def _result_pairs(left: Trace, right: Trace) -> list[tuple[str, Key, Key]]:
    """Return the results to compare: those of one name, and others by position."""
    shared = [name for name in left.results if name in right.results]
    pairs = [(name, left.results[name], right.results[name]) for name in shared]
    olds, news = (
        [name for name in trace.results if name not in shared and not name.startswith(NEXT)]
        for trace in (left, right)
    )
    if len(olds) == len(news) or not shared:
        others = zip(olds, news, strict=False)
        pairs += [(old, left.results[old], right.results[new]) for old, new in others]
    return pairs


def _unpaired(
    left: Trace, right: Trace, pairs: Sequence[tuple[str, Key, Key]]
) -> Iterator[str]:
    """Yield the names of the results that only one run has."""
    olds, news = {old for _, old, _ in pairs}, {new for _, _, new in pairs}
    yield from (name for name, key in left.results.items() if key not in olds)
    yield from (name for name, key in right.results.items() if key not in news)


class Matching:
    """The values of one run, matched with those of another by content."""

    def __init__(self, own: Trace, other: Trace, rtol: float, atol: float) -> None:
        self.own, self.other = own, other
        self.pool = ValuePool(other.compared_values(), rtol, atol)
        self.makers = {key: event for event in own.events for key in event.writes}
        self.other_makers = {key: event for event in other.events for key in event.writes}
        self._matches: dict[Key, bool] = {}
        self._by_type: dict[str, list[Event]] = {}
        for event in other.events:
            self._by_type.setdefault(event.type, []).append(event)

    def matches(self, key: Key) -> bool:
        """Return whether a value has an equal one in the other run; lists count as equal."""
        if key not in self.own.values:
            return True
        if key not in self._matches:
            values = [self.own.compared(key)]
            values += [self.own.values[key]] if key in self.own.cleared else []
            self._matches[key] = any(map(self.pool.has, values))
        return self._matches[key]

    def differing_inputs(self, results: Sequence[Key]) -> tuple[str, ...]:
        """Return the data and parameters without equal values that results depend on."""
        reads = [key for event in self._differing(results) for key in event.reads]
        inputs = [name for path, name in reads if not path and (path, name) not in self.makers]
        return tuple(name for name in dict.fromkeys(inputs) if not self.matches(("", name)))

    def first_difference(self, results: Sequence[Key]) -> DifferingOperator | None:
        """Return the first operator that leads to these results with a value of its own."""
        if not results:
            return None
        needed = self._differing(results)
        ready = [event for event in needed if all(map(self.matches, event.reads))]
        computing = (event for event in ready if not self._moves(event))
        event = next(chain(computing, ready, needed), None)
        if event is None:
            event = self.makers.get(results[0])
        return None if event is None else self._described(self._refined(event))

    def _moves(self, event: Event) -> bool:
        """Return whether an operator computes nothing, as a constant, a reshape or a concat."""
        reads = [self.own.values[key].ravel() for key in event.reads if key in self.own.values]
        writes = [self.own.values[key] for key in event.writes if key in self.own.values]
        if not reads:
            return True
        if TEXT in map(family_of, (*reads, *writes)):
            return False
        sources = np.concatenate([as_numbers(value) for value in reads])
        return all(bool(np.isin(as_numbers(value), sources).all()) for value in writes)

    def _differing(self, results: Sequence[Key]) -> list[Event]:
        """Return the operators without equal values that results depend on, in order."""
        wanted, needed, forced = set(results), list[Event](), set(results)
        for event in reversed(self.own.events):
            writes = [key for key in event.writes if key in wanted]
            differs = any(key in forced or not self.matches(key) for key in writes)
            if differs:
                needed.append(event)
            if differs or not all(map(self._has_value, writes)):
                wanted.update(key for key in event.reads if not self._agrees(key))
                wanted.update(event.inner)
        return list(reversed(needed))

    def _has_value(self, key: Key) -> bool:
        return key in self.own.values

    def _agrees(self, key: Key) -> bool:
        """Return whether a value has an equal one; a list may hold values without."""
        return self._has_value(key) and self.matches(key)

    def _refined(self, event: Event) -> Event:
        """Return the operator itself, or one before it whose value matches only by accident."""
        other = next(self._counterparts(event), None)
        return event if other is None else self._descend(event, other, set())

    def _descend(self, event: Event, other: Event, seen: set[int]) -> Event:
        """Follow two operators of one type to the operand in which they differ."""
        seen.add(id(event))
        if event.type != other.type or len(event.reads) != len(other.reads):
            return event
        operands = zip(event.reads, other.reads, strict=True)
        results = zip(event.inner, other.inner, strict=False)
        for own_key, other_key in (*operands, *results):
            maker, other_maker = self.makers.get(own_key), self.other_makers.get(other_key)
            if maker is None or other_maker is None or id(maker) in seen:
                continue
            if not self._agree(own_key, other_key):
                return self._descend(maker, other_maker, seen)
        return event

    def _counterparts(self, event: Event) -> Iterator[Event]:
        """Yield operators of the same type with the same large operands in the other run."""
        strong = [
            at
            for at, key in enumerate(event.reads)
            if key in self.own.values and not is_weak(self.own.values[key])
        ]
        for other in self._by_type.get(event.type, ()) if strong else ():
            same_rank = len(other.reads) == len(event.reads)
            if same_rank and all(
                self._agree(event.reads[at], other.reads[at]) for at in strong
            ):
                yield other

    def _agree(self, own_key: Key, other_key: Key) -> bool:
        own, other = self.own.compared(own_key), self.other.compared(other_key)
        return own is None or other is None or self.pool.equal(own, other)

    def _described(self, event: Event) -> DifferingOperator:
        values = {key[1]: self.own.compared(key) for key in event.writes}
        copies = {name: np.array(v) for name, v in values.items() if v is not None}
        return DifferingOperator(
            self.own.system, event.path, event.iteration, event.type, event.source, copies
        )
