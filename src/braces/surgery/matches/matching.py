"""Matching: the search for a pattern at an operator of a program.

The search is anchored at the last operator of the pattern and backtracks over the operands of
commutative operators. It runs twice at a candidate: with a skeleton, by types and slots, and
then with the pattern that is built for the types found there, by attributes and types, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, permutations
from typing import Any, TypeAlias

from braces.define.decorator import OPS
from braces.dtypes import Type
from braces.errors import UnknownNameError, suggest
from braces.ir.records import DATA, Op, Source, VarInfo
from braces.passes.core.rewrite import InsertionPoint
from braces.surgery.matches.attributes import different_attribute, wildcard_values
from braces.surgery.matches.match_report import NearMisses
from braces.surgery.matches.pattern import Pattern, PatternGraph
from braces.surgery.matches.type_hint import fitting

MOST_WAYS = 64
"""Ways to match a skeleton at one operator that are compared in full."""

State: TypeAlias = tuple[dict[str, str], dict[str, Op]]
"""Variables of the program by those of the pattern, and operators by those of the pattern."""


@dataclass(frozen=True, eq=False)
class Match:
    """A place of a program that a pattern matches.

    `match["w"]` is the declaration of the variable that a wildcard matches, with `name`,
    `type`, `shape`, `dtype` and `persistable`; of an attribute wildcard it is the value.

    Attributes:
        path: Path of the last operator of the match, as `loop_0/body/act`.
        op: That operator.
        vars: Names in the program by names in the pattern.
        ops: Operators of the program by names in the pattern.
        attributes: Values of attribute wildcards.
        graph: The pattern, built for the types of this place.
    """

    path: str
    op: Op
    vars: Mapping[str, str]
    ops: Mapping[str, Op]
    attributes: Mapping[str, Any]
    graph: PatternGraph = field(repr=False)
    info: Callable[[str], VarInfo] = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        if name in self.attributes:
            return self.attributes[name]
        if name not in self.vars:
            raise UnknownNameError(
                f"the pattern has no wildcard `{name}`.",
                fix=suggest(name, [*self.vars, *self.attributes]),
            )
        return self.info(self.vars[name])

    @property
    def source(self) -> Source | None:
        """The line of the user's program that built the last operator."""
        return self.op.source

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names in the program of the outputs of the pattern."""
        return tuple(self.vars[name] for name in self.graph.outputs)


class Matcher:
    """Search for a pattern; it collects near misses."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.near = NearMisses()
        self._skeletons: dict[str, list[tuple[PatternGraph, str]]] = {}
        for skeleton in pattern.skeletons:
            for output in dict.fromkeys(reversed(skeleton.outputs)):
                type_ = skeleton.makers[output].type
                self._skeletons.setdefault(type_, []).append((skeleton, output))

    def match(
        self, op: Op, place: InsertionPoint, refused: Callable[[Match], str | None]
    ) -> Match | None:
        """Return the first match whose last operator is this one.

        Args:
            op: The operator.
            place: Its place.
            refused: Returns the reason to refuse a match, or `None`.
        """
        for skeleton, anchor in self._skeletons.get(op.type, ()):
            for match in self._strict(skeleton, anchor, op, place):
                reason = self._condition(match) or refused(match)
                if reason is None:
                    return match
                self.near.add(match.path, reason, skeleton.steps, skeleton.steps, op.source)
        return None

    def _strict(
        self, skeleton: PatternGraph, anchor: str, op: Op, place: InsertionPoint
    ) -> Iterator[Match]:
        """Yield the matches of the pattern built for the types of this place."""
        tried, near = set[tuple[object, ...]](), NearMisses()
        ways = GraphSearch(skeleton, op, place, near, strict=False).ways(anchor)
        for names, ops in islice(ways, MOST_WAYS):
            types = self._types(names, place)
            key = (
                *types,
                *(tuple(o.name for o in ops.values()) if self.pattern.attributes else ()),
            )
            if key in tried:
                continue
            tried.add(key)
            misfit = fitting(list(self.pattern.wildcards.values()), types)
            if misfit is not None:
                self._miss_type(skeleton, op, place, misfit, types)
                continue
            for values in wildcard_values(self.pattern.attributes, list(ops.values())):
                yield from self._strict_matches(skeleton, types, values, op, place)
        if not tried:
            self.near.update(near)

    def _strict_matches(
        self,
        skeleton: PatternGraph,
        types: tuple[Type, ...],
        values: Mapping[str, Any],
        op: Op,
        place: InsertionPoint,
    ) -> Iterator[Match]:
        graph = self.pattern.build(types, values, skeleton.choice)
        if not isinstance(graph, PatternGraph):
            return
        search = GraphSearch(graph, op, place, self.near, strict=True)
        for output in dict.fromkeys(reversed(graph.outputs)):
            if graph.makers[output].type != op.type:
                continue
            for names, ops in search.ways(output):
                yield Match(place.where(op), op, names, ops, values, graph, place.info)

    def _types(self, names: Mapping[str, str], place: InsertionPoint) -> tuple[Type, ...]:
        return tuple(place.table.type_of(names[name]) for name in self.pattern.wildcards)

    def _miss_type(
        self,
        skeleton: PatternGraph,
        op: Op,
        place: InsertionPoint,
        at: int,
        types: tuple[Type, ...],
    ) -> None:
        name, hint = list(self.pattern.wildcards.items())[at]
        reason = f"`{name}` is {types[at]}, not {hint}"
        self.near.add(place.where(op), reason, skeleton.steps, skeleton.steps, op.source)

    def _condition(self, match: Match) -> str | None:
        where = self.pattern.where
        return None if where is None or where(match) else "the condition `where` is false"


class GraphSearch:
    """Search for one graph at one operator.

    Attributes:
        graph: The graph.
        anchor: The operator.
        place: Its place.
        strict: Whether attributes and types count.
    """

    def __init__(
        self,
        graph: PatternGraph,
        anchor: Op,
        place: InsertionPoint,
        near: NearMisses,
        *,
        strict: bool,
    ) -> None:
        self.graph = graph
        self.anchor = anchor
        self.place = place
        self.strict = strict
        self._near = near

    def ways(self, output: str) -> Iterator[State]:
        """Yield the ways to match in which the anchor computes this output of the pattern."""
        others = [name for name in dict.fromkeys(self.graph.outputs) if name != output]
        like = self.graph.makers[output]
        for state in self._operator(like, self.anchor, ({}, {})):
            yield from self._others(others, state)

    def _others(self, outputs: list[str], state: State) -> Iterator[State]:
        """Match further outputs; their operators come before the anchor."""
        if not outputs:
            yield state
            return
        first, *rest = outputs
        if first in state[0]:
            yield from self._others(rest, state)
            return
        like = self.graph.makers[first]
        used = {id(op) for op in state[1].values()}
        for op in self._candidates(like, state[0]) or ():
            if op.type == like.type and id(op) not in used:
                for more in self._operator(like, op, state):
                    yield from self._others(rest, more)

    def _candidates(self, like: Op, names: Mapping[str, str]) -> list[Op] | None:
        """Return operators that read a bound variable or its users; `None` without one."""
        for name in like.reads():
            if name in names:
                return list(self.place.readers(names[name]))
        for name in like.reads():
            maker = self.graph.makers.get(name)
            below = None if maker is None else self._candidates(maker, names)
            if maker is not None and below is not None:
                bound = (n for op in below if op.type == maker.type for n in op.binds())
                return [op for name in bound for op in self.place.readers(name)]
        return None

    def _variable(self, wanted: str, name: str, state: State) -> Iterator[State]:
        """Yield the ways in which a variable of the pattern stands for one of the program."""
        names, ops = state
        if wanted in names:
            if names[wanted] == name:
                yield state
            else:
                self._miss(ops, f"`{name}` is another variable than `{names[wanted]}`")
            return
        like = self.graph.makers.get(wanted)
        if like is None:
            reason = self._leaf_mismatch(wanted, name)
            if reason is None:
                yield {**names, wanted: name}, ops
            else:
                self._miss(ops, reason)
            return
        op = self.place.maker(name)
        if op is None:
            self._miss(ops, f"`{name}` is not computed by `{like.type}`: it is an input")
        else:
            yield from self._operator(like, op, state)

    def _leaf_mismatch(self, wanted: str, name: str) -> str | None:
        """Return the reason for which an input of the pattern cannot be this variable."""
        info = self.graph.body.vars[wanted]
        if info.kind != DATA and not self.place.info(name).persistable:
            return f"`{name}` is not persistable"
        if not self.strict:
            return None
        type_ = self.place.table.type_of(name)
        return None if type_ == info.type else f"`{name}` is {type_}, not {info.type}"

    def _operator(self, like: Op, op: Op, state: State) -> Iterator[State]:
        """Yield the ways in which an operator of the pattern stands for one of the program."""
        names, ops = state
        reason = self._mismatch(like, op, ops)
        if reason is not None:
            self._miss(ops, reason, op.type == like.type and (self.strict or bool(op.inputs)))
            return
        bound = _bound_by(like, op)
        if any(names.get(wanted, name) != name for wanted, name in bound.items()):
            return
        state = {**names, **bound}, {**ops, like.name: op}
        for pairs in _operands(like, op):
            yield from self._all(pairs, state)

    def _all(self, pairs: list[tuple[str, str]], state: State) -> Iterator[State]:
        if not pairs:
            yield state
            return
        for more in self._variable(*pairs[0], state):
            yield from self._all(pairs[1:], more)

    def _mismatch(self, like: Op, op: Op, ops: Mapping[str, Op]) -> str | None:
        """Return the reason for which two operators differ; their operands aside."""
        if like.name in ops:
            return None if ops[like.name] is op else f"`{op.name}` is another operator"
        if op.type != like.type:
            return f"`{op.name}` is {op.type}, not {like.type}"
        if _slots(like) != _slots(op) or not op.outputs.keys() >= _read_slots(self.graph, like):
            return f"`{op.name}` has other inputs or outputs than `{like.type}` in the pattern"
        computed = op is not self.anchor and any(True for _ in op.reads())
        if computed and next(op.binds()) not in self.place.table.vars:
            return f"`{op.name}` is in a block around it; matches do not cross blocks"
        return different_attribute(like, op, self.place.table) if self.strict else None

    def _miss(self, ops: Mapping[str, Op], reason: str, agrees: bool = False) -> None:
        steps = sum(any(True for _ in op.reads()) for op in ops.values()) + agrees
        if self.strict:  # a skeleton matched, so only attributes count
            steps = self.graph.steps if agrees else 0
        if steps >= min(2, self.graph.steps):
            path = self.place.where(self.anchor)
            self._near.add(path, reason, steps, self.graph.steps, self.anchor.source)


def _slots(op: Op) -> dict[str, int]:
    return {slot: len(names) for slot, names in op.inputs.items() if names}


def _read_slots(graph: PatternGraph, like: Op) -> set[str]:
    """Return the output slots of an operator that the pattern uses."""
    used = {n for op in graph.makers.values() for n in op.reads()} | {*graph.outputs}
    return {slot for slot, names in like.outputs.items() if not used.isdisjoint(names)}


def _bound_by(like: Op, op: Op) -> dict[str, str]:
    return {
        wanted: name
        for slot, names in like.outputs.items()
        for wanted, name in zip(names, op.outputs.get(slot, ()), strict=False)
    }


def _operands(like: Op, op: Op) -> Iterator[list[tuple[str, str]]]:
    """Yield pairs of operands, in each order if the operator is commutative."""
    if OPS.get(op.type).commutative:
        wanted = list(like.reads())
        for order in permutations(op.reads()):
            yield list(zip(wanted, order, strict=True))
        return
    yield [
        pair
        for slot, names in like.inputs.items()
        for pair in zip(names, op.inputs.get(slot, ()), strict=True)
    ]


def unmatched_readers(op_names: Iterable[str], readers: Iterable[Op]) -> Op | None:
    """Return the first reader that is not among the operators of a match."""
    matched = set(op_names)
    return next((op for op in readers if op.name not in matched), None)
