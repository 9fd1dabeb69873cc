"""Matching: the search for a pattern at an operator of a program.

The search is anchored at the last operator of the pattern and backtracks over the operands of
commutative operators. It runs twice at a candidate: with a skeleton, by types and slots, and
then with the pattern that is built for the types found there, by attributes and types, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from braces.builder.checked_calls import checked_name
from braces.builder.user_functions import calling
from braces.dtypes import Type
from braces.errors import UnknownNameError, suggest
from braces.ir.records import Op, Source, VarInfo
from braces.passes.core.rewrite import InsertionPoint
from braces.surgery.matches.attributes import wildcard_values
from braces.surgery.matches.graph_search import GraphSearch
from braces.surgery.matches.match_report import NearMisses
from braces.surgery.matches.pattern import Pattern, PatternGraph
from braces.surgery.matches.type_hint import fitting

MOST_WAYS = 64
"""Ways to match a skeleton at one operator that are compared in full."""


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
        name = checked_name(name, "a wildcard")
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
        for state in islice(ways, MOST_WAYS):
            names, ops = state.names, state.ops
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
            for state in search.ways(output):
                path, outer = place.where(op), set(graph.names)
                ops = {name: each for name, each in state.ops.items() if name in outer}
                yield Match(path, op, state.names, ops, values, graph, place.info)

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
        if where is None:
            return None
        name = self.pattern.__name__
        with calling(where, f"the condition of the pattern `{name}`, at `{match.path}`"):
            return None if where(match) else "the condition `where` is false"
