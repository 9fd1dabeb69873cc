"""`br.compare_values`: the first operator whose value differs between two runs.

Values are compared by content, so the two programs need no names in common, and a value that
only one of them computes is no difference by itself. From the results that differ, the values
without an equal one in the other run are followed backward. The first operator there whose
operands all have equal values is the difference.

A match may be accidental: of a small value (a flag, a small integer, a constant of one number),
or of a value that the other run computes elsewhere, as a gradient does. It counts as a match
unless the operator that reads it has a counterpart in the other run, of the same type and with
the same large operands, which reads another value in its place. Then the operator that computed
the value is the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from braces.builder.builder import Builder
from braces.errors import ProgramError
from braces.keywords import hint_keywords
from braces.runtime.executor import Executor
from braces.runtime.inputs.fetches import read_fetch
from braces.scope import Scope
from braces.surgery.value_matching import ValuePool, is_weak, largest_error
from braces.surgery.value_trace import Event, Key, Trace, trace_program

ForeignTracer: TypeAlias = Callable[[Any, Any, Mapping[str, Any], Any], Trace | None]
FOREIGN_TRACERS: list[ForeignTracer] = []
"""Each returns the trace of a model of its system, or `None` for other values."""


@dataclass(frozen=True)
class DifferingOperator:
    """The operator at which two runs part.

    Attributes:
        system: The system that ran it.
        path: Its path, as `prog[path]` reads it.
        iteration: The iteration of each loop around it, the outermost first.
        type: Its type.
        source: The line that built it; empty if unknown.
        values: Its values by name.
    """

    system: str
    path: str
    iteration: tuple[int, ...]
    type: str
    source: str
    values: Mapping[str, Any]

    def __str__(self) -> str:
        where = f", iteration {', '.join(map(str, self.iteration))}" if self.iteration else ""
        line = f", built at {self.source}" if self.source else ""
        return f"`{self.path}` ({self.type}){where}{line}"


@dataclass(frozen=True)
class ResultDifference:
    """A result that differs.

    Attributes:
        name: Its name in the first program.
        error: The largest absolute difference; infinite for different shapes.
    """

    name: str
    error: float


@dataclass(frozen=True)
class ValueComparison:
    """The comparison of two runs; falsy if all results agree.

    Attributes:
        first: The first operator of `a` whose value differs; `None` if there is none.
        other: The first operator of `b` whose value has no equal one in `a`.
        results: The results that differ.
        matched: The number of values of `a` with an equal value in `b`.
        computed: The number of values that `a` computed.
    """

    first: DifferingOperator | None
    other: DifferingOperator | None
    results: tuple[ResultDifference, ...]
    matched: int
    computed: int

    def __bool__(self) -> bool:
        return bool(self.results)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        counts = f"{self.matched} of {self.computed} values have an equal one"
        if not self:
            yield f"The results agree; {counts}."
            return
        yield f"{len(self.results)} results differ; {counts}."
        yield from (f"  {result.name}: {result.error:.3g}" for result in self.results[:10])
        yield f"first difference in a: {self.first or 'none; the inputs differ'}"
        yield f"first difference in b: {self.other or 'none'}"


@hint_keywords
def compare_values(
    a: Builder,
    b: Any,
    scopes: Any = None,
    feed: Any = None,
    *,
    fetch: Any = None,
    args: Sequence[Any] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    seed: int | None = None,
) -> ValueComparison:
    """Find the first operator whose value differs between two runs with the same feeds.

    Both run once, operator by operator; scopes do not change. Values are compared by content,
    in loops for each iteration and in row-wise branches for the rows of each case. So `b` may
    be the result of a rewrite or a pass, or the model that `a` was imported from: a path of an
    ONNX file or an `onnx.ModelProto`, run by ONNX Runtime with all values of its graph as
    outputs, or a JAX function, of which each equation is evaluated.

    Args:
        a: A program.
        b: The program, ONNX model or JAX function to compare with it.
        scopes: The scope of both, or a pair of scopes; by default `exe.init` of each. A mapping
            of values, as an importer returns it, is a scope if `feed` is given too.
        feed: The feed of both runs, or a pair of feeds. Programs ignore data that they lack.
            ONNX inputs of other names are fed in the order of `a.feeds`.
        fetch: The results to compare; by default those of each program, by position.
        args: The arguments of a JAX function; by default the feeds in the order of `a.feeds`.
        rtol: The relative tolerance of floats.
        atol: The absolute tolerance of floats.
        seed: The seed of random draws, as for `exe.run`.

    Returns:
        A value that is falsy if the results agree, with the operators of `a` and of `b` at
        which the runs part, and the results that differ. It prints.

    Raises:
        ProgramError: If `b` is of another kind, or a run has no results.
        FeedError: If a feed is missing, or of a different type.
        UninitializedError: If a variable has no value.

    Example:
        >>> import braces as br
        >>> text = '''program { data x: f32[3]  a: f32[3] = sin(x=x)  b: f32[3] = exp(x=a)
        ...   y: f32[3] = tanh(x=b)  return y }'''
        >>> a, b = br.parse(text), br.parse(text.replace("exp", "cosh"))
        >>> difference = br.compare_values(a, b, feed={"x": [0.1, 0.2, 0.3]})
        >>> difference.first.path, difference.first.type, difference.other.type
        ('b', 'exp', 'cosh')
        >>> bool(br.compare_values(a, a, feed={"x": [0.1, 0.2, 0.3]}))
        False
    """
    if not isinstance(cast("Any", a), Builder):
        raise ProgramError(f"expected a program for `a`, got {a!r:.80}.")
    if feed is None and isinstance(scopes, Mapping):
        scopes, feed = None, cast("Any", scopes)
    feeds = _pair(feed if feed is not None else {})
    own_scopes = _pair(scopes)
    left = _trace(a, own_scopes[0], feeds[0], fetch, seed)
    if isinstance(b, Builder):
        right = _trace(b, own_scopes[1], feeds[1], fetch, seed)
    else:
        traces = (tracer(b, a, feeds[1], args) for tracer in FOREIGN_TRACERS)
        right = next((trace for trace in traces if trace is not None), None)
    if right is None:
        raise ProgramError(
            f"expected a program, an ONNX model or a JAX function for `b`, got {b!r:.80}.",
            fix="Import the model, and compare the two programs.",
        )
    return compare_traces(left, right, rtol, atol)


def _pair(values: Any) -> tuple[Any, Any]:
    return cast("tuple[Any, Any]", values) if isinstance(values, tuple) else (values, values)


def _trace(program: Builder, scope: Scope | None, feed: Any, fetch: Any, seed: Any) -> Trace:
    fetches, _ = read_fetch(program.definition.main.results if fetch is None else fetch)
    if not fetches and not program.updates:
        raise ProgramError("the program has no results to compare.", fix="Pass fetch=[y].")
    scope = _with_values(program, scope)
    infos = program.infos
    own_feed = {name: value for name, value in feed.items() if _name(name) in infos}
    return trace_program(program, scope, own_feed, fetches, seed)


def _with_values(program: Builder, scope: Any) -> Scope:
    """Return the scope of a run: initial values by default, or those of a mapping."""
    if scope is None:
        return Executor(mode="interpret").init(program)
    if isinstance(scope, Mapping):
        values, scope = cast("Mapping[str, Any]", scope), Scope()
        scope.update(values)
    return scope


def _name(variable: Any) -> str:
    return variable if isinstance(variable, str) else variable.name


# ---- comparison of traces --------------------------------------------------------------------


def compare_traces(left: Trace, right: Trace, rtol: float, atol: float) -> ValueComparison:
    """Compare two traces."""
    forth, back = Matching(left, right, rtol, atol), Matching(right, left, rtol, atol)
    pairs = _result_pairs(left, right)
    results = list[ResultDifference]()
    for name, old, new in pairs:
        values = left.values.get(old), right.values.get(new)
        if values[0] is None or values[1] is None or forth.pool.equal(values[0], values[1]):
            continue
        same_shape = values[0].shape == values[1].shape
        error = largest_error(values[0], values[1]) if same_shape else float("inf")
        results.append(ResultDifference(name, error))
    names = {result.name for result in results}
    olds = [old for name, old, _ in pairs if name in names]
    news = [new for name, _, new in pairs if name in names]
    keys = [key for event in left.events for key in event.writes if key in left.values]
    return ValueComparison(
        forth.first_difference(olds),
        back.first_difference(news),
        tuple(results),
        sum(forth.matches(key) for key in keys),
        len(keys),
    )


def _result_pairs(left: Trace, right: Trace) -> list[tuple[str, Key, Key]]:
    """Return the results to compare: those of one name, or else by position."""
    shared = [name for name in left.results if name in right.results]
    if shared:
        return [(name, left.results[name], right.results[name]) for name in shared]
    names = [name for name in left.results if not name.startswith("next value of ")]
    pairs = zip(names, right.results.values(), strict=False)
    return [(name, left.results[name], new) for name, new in pairs]


class Matching:
    """The values of one run, matched with those of another by content."""

    def __init__(self, own: Trace, other: Trace, rtol: float, atol: float) -> None:
        self.own, self.other = own, other
        self.pool = ValuePool(other.values, rtol, atol)
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
            candidates = self.pool.candidates(self.own.values[key])
            self._matches[key] = next(candidates, None) is not None
        return self._matches[key]

    def first_difference(self, results: Sequence[Key]) -> DifferingOperator | None:
        """Return the first operator that leads to these results with a value of its own."""
        if not results:
            return None
        needed = self._differing(results)
        ready = [event for event in needed if all(map(self.matches, event.reads))]
        event = next(iter([*ready, *needed]), None)
        if event is None:
            event = self.makers.get(results[0])
        return None if event is None else self._described(self._refined(event))

    def _differing(self, results: Sequence[Key]) -> list[Event]:
        """Return the operators without equal values that results depend on, in order."""
        wanted, needed, forced = set(results), list[Event](), set(results)
        for event in reversed(self.own.events):
            writes = [key for key in event.writes if key in wanted]
            if not any(key in forced or not self.matches(key) for key in writes):
                continue
            needed.append(event)
            wanted.update(key for key in event.reads if not self.matches(key))
            wanted.update(event.inner)
        return list(reversed(needed))

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
        own, other = self.own.values.get(own_key), self.other.values.get(other_key)
        return own is None or other is None or self.pool.equal(own, other)

    def _described(self, event: Event) -> DifferingOperator:
        values = {
            key[1]: self.own.values[key] for key in event.writes if key in self.own.values
        }
        copies = {name: np.array(value) for name, value in values.items()}
        return DifferingOperator(
            self.own.system, event.path, event.iteration, event.type, event.source, copies
        )
