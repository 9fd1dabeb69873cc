"""Search for the graph of a pattern at one operator of a program.

The search follows the operands from the anchor and backtracks over the orders of commutative
ones. Blocks are compared from their results; operators without a way to these do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import NamedTuple, TypeAlias

from braces.define.decorator import OPS
from braces.dims import Size
from braces.ir.records import CAPTURES, DATA, Op
from braces.passes.core.rewrite import InsertionPoint
from braces.surgery.matches.attributes import SizeMatch, different_attribute
from braces.surgery.matches.crossings import crossing
from braces.surgery.matches.levels import Level
from braces.surgery.matches.match_report import NearMisses
from braces.surgery.matches.pattern import PatternGraph


class State(NamedTuple):
    """Partial match.

    Attributes:
        names: Variables of the program by those of the pattern, with the prefix of their level.
        ops: Operators of the program by those of the pattern, with the prefix of their level.
        sizes: Sizes of the program by data-dependent sizes of the pattern.
    """

    names: dict[str, str]
    ops: dict[str, Op]
    sizes: dict[str, Size]


class VariableGoal(NamedTuple):
    """A goal: a variable of the pattern stands for one of the program."""

    wanted: str
    name: str
    level: Level


class OperatorGoal(NamedTuple):
    """A goal: an operator of the pattern stands for one of the program.

    Constants may be at another level in the program.
    """

    like: Op
    op: Op
    level: Level
    found_at: Level


Goal: TypeAlias = "VariableGoal | OperatorGoal"
Goals: TypeAlias = "tuple[Goal, Goals] | None"
"""A linked list of goals, which ways to match share."""


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
        self._level = Level(dict(graph.makers), dict(graph.body.vars), graph.outputs, place)

    def ways(self, output: str) -> Iterator[State]:
        """Yield the ways to match in which the anchor computes this output of the pattern."""
        others = [name for name in dict.fromkeys(self.graph.outputs) if name != output]
        like = self.graph.makers[output]
        for state in self._match(like, self.anchor, State({}, {}, {})):
            yield from self._others(others, state)

    def _others(self, outputs: list[str], state: State) -> Iterator[State]:
        """Match further outputs; their operators come before the anchor."""
        if not outputs:
            yield state
            return
        first, *rest = outputs
        if first in state.names:
            yield from self._others(rest, state)
            return
        like = self.graph.makers[first]
        used = {id(op) for op in state.ops.values()}
        for op in self._candidates(like, state.names) or ():
            if op.type == like.type and id(op) not in used:
                for more in self._match(like, op, state):
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

    def _match(self, like: Op, op: Op, state: State) -> Iterator[State]:
        """Yield the ways in which an operator stands for one, depth first."""
        start = OperatorGoal(like, op, self._level, self._level)
        stack: list[tuple[Goals, State]] = [((start, None), state)]
        while stack:
            goals, state = stack.pop()
            if goals is None:
                yield state
                continue
            goal, rest = goals
            ways = [
                (_linked(more, rest), after)
                for more, after in (
                    self._variable(goal, state)
                    if isinstance(goal, VariableGoal)
                    else self._operator(goal, state)
                )
            ]
            stack += reversed(ways)

    def _variable(self, goal: VariableGoal, state: State) -> Iterator[tuple[list[Goal], State]]:
        """Yield the goals that follow from a variable of the pattern."""
        wanted, name, level = goal
        at = level.of(wanted)
        key = at.prefix + wanted
        if key in state.names:
            if state.names[key] == name:
                yield [], state
            else:
                other = state.names[key]
                self._miss(state.ops, f"`{name}` is another variable than `{other}`")
            return
        like = at.likes.get(wanted)
        if like is None:
            reason = self._leaf_mismatch(wanted, name, level)
            if reason is None:
                yield [], state._replace(names={**state.names, key: name})
            else:
                self._miss(state.ops, reason)
            return
        maker = level.maker(name)
        elsewhere = self._crossing(like, name, level)
        if elsewhere is not None:
            self._miss(state.ops, elsewhere, agrees=True)
        elif maker is None:
            self._miss(state.ops, f"`{name}` is not computed by `{like.type}`: it is an input")
        elif _computes(like) and not (at.prefix == maker.level.prefix and at.binds(name)):
            place = (
                "is inside a block, not before it as in the pattern"
                if maker.level.is_inside(name)
                else "is in a block around it; matches do not cross blocks"
            )
            agrees = maker.op.type == like.type
            self._miss(state.ops, f"`{maker.op.name}` {place}", agrees)
        else:
            yield [OperatorGoal(like, maker.op, at, maker.level)], state

    def _crossing(self, like: Op, name: str, level: Level) -> str | None:
        """Return the reason to refuse an operand that is computed in another block."""
        maker = level.maker(name)
        if level.outer is not None or not _computes(like):
            return None
        if maker is not None and maker.op.type == like.type:
            return None
        return crossing(name, like.type, None if maker is None else maker.op, self.place)

    def _leaf_mismatch(self, wanted: str, name: str, level: Level) -> str | None:
        """Return the reason for which an input of the pattern cannot be this variable."""
        if level.is_inside(name):
            return f"`{name}` is inside of a block of the match, not an input of it"
        info = self.graph.body.vars[wanted]
        if info.kind != DATA and not self.place.info(name).persistable:
            return f"`{name}` is not persistable"
        if not self.strict:
            return None
        type_ = self.place.table.type_of(name)
        return None if type_ == info.type else f"`{name}` is {type_}, not {info.type}"

    def _operator(self, goal: OperatorGoal, state: State) -> Iterator[tuple[list[Goal], State]]:
        """Yield the goals that follow from an operator: operands, and results of blocks."""
        like, op, level, _ = goal
        key = level.prefix + like.name
        if key in state.ops:
            if state.ops[key] is op:
                yield [], state
            else:
                self._miss(state.ops, f"`{op.name}` is another operator")
            return
        sizes = dict(state.sizes)
        reason = self._mismatch(goal, sizes)
        if reason is not None:
            agrees = op.type == like.type and (self.strict or bool(op.inputs))
            self._miss(state.ops, reason, agrees)
            return
        inner = [
            (level.inner(like, label, wanted, body), wanted, body)
            for (label, wanted), body in zip(
                like.bodies().items(), op.bodies().values(), strict=True
            )
        ]
        bound = {level.prefix + wanted: name for wanted, name in _bound_by(like, op).items()}
        for at, wanted, body in inner:
            pairs = zip(wanted.params, body.params, strict=True)
            bound |= {at.prefix + param: name for param, name in pairs}
        if any(state.names.get(wanted, name) != name for wanted, name in bound.items()):
            return
        state = State({**state.names, **bound}, {**state.ops, key: op}, sizes)
        results = [
            VariableGoal(result, name, at)
            for at, wanted, body in inner
            for result, name in zip(wanted.results, body.results, strict=True)
        ]
        for pairs in _operands(like, op):
            yield [*(VariableGoal(*pair, level) for pair in pairs), *results], state

    def _mismatch(self, goal: OperatorGoal, sizes: dict[str, Size]) -> str | None:
        """Return the reason for which two operators differ; their operands aside."""
        like, op, level, found_at = goal
        if op.type != like.type:
            return f"`{op.name}` is {op.type}, not {like.type}"
        used = {
            slot for slot, names in like.outputs.items() if not level.used.isdisjoint(names)
        }
        if _slots(like) != _slots(op) or not op.outputs.keys() >= used:
            return f"`{op.name}` has other inputs or outputs than `{like.type}` in the pattern"
        if _interfaces(like) != _interfaces(op):
            return f"`{op.name}` has other blocks than `{like.type}` in the pattern"
        if not self.strict:
            return None
        return different_attribute(like, op, found_at, SizeMatch(self.graph.sizes, sizes))

    def _miss(self, ops: Mapping[str, Op], reason: str, agrees: bool = False) -> None:
        steps = sum(any(True for _ in op.reads()) for op in ops.values()) + agrees
        if self.strict:  # a skeleton matched, so only attributes count
            steps = self.graph.steps if agrees else 0
        if steps >= min(2, self.graph.steps):
            path = self.place.where(self.anchor)
            self._near.add(path, reason, steps, self.graph.steps, self.anchor.source)


def _computes(op: Op) -> bool:
    """Return whether an operator is no constant."""
    return bool(op.bodies()) or any(True for _ in op.reads())


def _linked(goals: Iterable[Goal], rest: Goals) -> Goals:
    for goal in reversed([*goals]):
        rest = (goal, rest)
    return rest


def _slots(op: Op) -> dict[str, int]:
    """Return the numbers of operands by slot; captures are compared where blocks read them."""
    left_out = CAPTURES if op.bodies() else None
    return {slot: len(names) for slot, names in op.inputs.items() if names and slot != left_out}


def _interfaces(op: Op) -> list[tuple[str, int, int]]:
    """Return the labels of blocks, with their numbers of parameters and results."""
    bodies = op.bodies()
    if not bodies:
        return []
    return [(label, len(body.params), len(body.results)) for label, body in bodies.items()]


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
    slots = _slots(like)
    yield [
        pair
        for slot, names in like.inputs.items()
        if slot in slots
        for pair in zip(names, op.inputs.get(slot, ()), strict=True)
    ]


def unmatched_readers(op_names: Iterable[str], readers: Iterable[Op]) -> Op | None:
    """Return the first reader that is not among the operators of a match."""
    matched = set(op_names)
    return next((op for op in readers if op.name not in matched), None)
