"""Random programs: loops, branches, and arithmetic, nested, with shared names and captures.

All numbers are float64 and stay of size one: what could grow goes through `tanh` or `sin`. A
program has the data `x: [t, b, 3]`, `m: [b, 3]`, `v: [3]`, `s: []`, `k: i32[]`, the lengths
`n: i32[b]` and the parameter `w: [3, 3]`, and gives one scalar. Everything follows from the
seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import braces as br
from tests.random_programs.expressions import MATRIX, SCALAR, VECTOR, Place
from tests.random_programs.functional import Functional
from tests.random_programs.sequences import reduce_rows

STEPS, ROWS, WIDTH = (0, 1, 3), (0, 1, 4), 3


@dataclass
class Generated:
    """A random program.

    Attributes:
        program: It.
        result: A scalar.
        inputs: What it can be differentiated by.
    """

    program: br.Program
    result: br.Var
    inputs: list[br.Var] = field(default_factory=list[br.Var])


def generate(seed: int, size: int = 8, depth: int = 4) -> Generated:
    """The program of a seed.

    Args:
        seed: Any integer.
        size: About how many statements the main block has.
        depth: How deep constructs may nest.
    """
    return _Writer(random.Random(seed), depth).program(size)


def feeds_of(seed: int, rows: int | None = None) -> dict[str, np.ndarray]:
    """Values for the data and the parameter of any program; the seed may say how many rows."""
    draw = np.random.default_rng(seed)
    steps, few = draw.choice(STEPS, p=[0.1, 0.2, 0.7]), draw.choice(ROWS, p=[0.1, 0.15, 0.75])
    rows = few if rows is None else rows
    shapes = {"x": (steps, rows, WIDTH), "m": (rows, WIDTH), "v": (WIDTH,), "s": (),
              "w": (WIDTH, WIDTH)}  # fmt: skip
    found = {name: draw.uniform(-1.0, 1.0, shape) for name, shape in shapes.items()}
    lengths = draw.integers(0, steps + 2, rows, np.int32)
    return {**found, "k": np.asarray(draw.integers(-1, 5), np.int32), "n": lengths}


class _Writer(Functional):
    def __init__(self, draw: random.Random, depth: int) -> None:
        self.draw = draw
        self.depth = depth

    def program(self, size: int) -> Generated:
        with br.Program() as program:
            x = br.data("x", ["t", "b", WIDTH], dtype="float64")
            m = br.data("m", ["b", WIDTH], dtype="float64")
            v = br.data("v", [WIDTH], dtype="float64")
            s = br.data("s", [], dtype="float64")
            k = br.data("k", [], dtype="int32")
            w = br.parameter("w", [WIDTH, WIDTH], init=np.eye(WIDTH), dtype="float64")
            self.lengths = br.data("n", ["b"], dtype="int32")
            self.x, self.w, self.m = x, w, m
            place = Place({SCALAR: [s], VECTOR: [v], MATRIX: [m]}, [k], [])
            self.statements(place, size)
            result = self.total(place)
        return Generated(program, result, [x, m, v, s, w])

    # ---- statements --------------------------------------------------------------------------

    def statements(self, place: Place, count: int) -> None:
        for _ in range(count):
            nested = place.depth < self.depth and self.draw.random() < 0.45
            write = self.draw.choice(_CONSTRUCTS) if nested else _Writer.arithmetic
            write(self, place)

    def total(self, place: Place) -> br.Var:
        """A scalar of the last few values of each kind."""
        parts = [br.sum(one * (1.0 + i)) for kind in (SCALAR, VECTOR, MATRIX)
                 for i, one in enumerate(place.values[kind][-3:])]  # fmt: skip
        result = br.sum(self.w * self.w)
        for part in parts:
            result = result + part
        return result

    def arithmetic(self, place: Place) -> None:
        kind = self.kind(place)
        place.values[kind].append(self.expression(place, kind))

    # ---- loops -------------------------------------------------------------------------------

    def memories(
        self, place: Place, block: Any, inner: Place, only: str | None = None
    ) -> list[tuple[str, Any]]:
        """Memories of a loop by kind; all of one kind where that is asked."""
        found: list[tuple[str, Any]] = []
        for _ in range(self.draw.randint(1, 3)):
            kind = only or self.kind(place)
            init = self.pick(place, kind)
            several = self.draw.random() < 0.2
            memory = block.add_memory(init=(init, self.pick(place, kind)) if several else init)
            found.append((kind, memory))
            inner.values[kind].append(memory.pre(1))
            if self.draw.random() < 0.25:
                inner.values[kind].append(memory.pre(self.draw.randint(1, 3)))
        return found

    def discrete(self, place: Place, block: Any, inner: Place) -> tuple[list[Any], list[Any]]:
        """Integer and bool memories beside the others."""
        integers, flags = list[Any](), list[Any]()
        if self.draw.random() < 0.35:
            integers.append(block.add_memory(init=self.integer(place)))
        if self.draw.random() < 0.25:
            flags.append(block.add_memory(init=self.condition(place)))
        inner.integers += [*(memory.pre(1) for memory in integers), block.step]
        inner.flags += [memory.pre(1) for memory in flags]
        return integers, flags

    def updates(self, inner: Place, memories: Sequence[tuple[str, Any]]) -> None:
        for kind, memory in memories:
            plain = self.draw.random() < 0.3
            memory.update(self.pick(inner, kind) if plain else self.expression(inner, kind))

    def discrete_updates(self, inner: Place, integers: list[Any], flags: list[Any]) -> None:
        for memory in integers:
            memory.update((memory * 3 + self.integer(inner)) % 5)
        for memory in flags:
            memory.update(~memory if self.draw.random() < 0.5 else self.condition(inner))

    def segments(self) -> int | None:
        """A checkpoint_every, now and then."""
        return self.draw.choice([1, 2, 4]) if self.draw.random() < 0.15 else None

    def limits(self) -> dict[str, int]:
        """Segments, or a bound on the trips, which are at most 3: one in a while exceeds it."""
        if (segments := self.segments()) is not None:
            return {"checkpoint_every": segments}
        share = self.draw.random()
        if share < 0.06:
            return {"max_trips": self.draw.choice([0, 1, 2])}
        return {"max_trips": self.draw.choice([3, 3, 5])} if share < 0.2 else {}

    def while_loop(self, place: Place) -> None:
        loop, inner = br.create_while(**self.limits()), place.inside(True)
        rows: list[tuple[str, Any]] = []
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0, dtype="int32"))
            inner.integers.append(count.pre(1))
            integers, flags = self.discrete(place, body, inner)
            memories = self.memories(place, body, inner)
            body.set_condition(self.goes_on(place, count, memories, flags))
            self.statements(inner, self.draw.randint(1, 3))
            count.update(count + 1)
            self.updates(inner, memories)
            self.discrete_updates(inner, integers, flags)
            if not place.looped and not place.rows:
                kind = self.kind(inner)
                rows.append((kind, self.pick(inner, kind)))
                body.add_output(rows[0][1])
        for kind, memory in memories:
            place.values[kind].append(loop.final(memory))
        for kind, _ in rows:
            place.values[kind].append(reduce_rows(self.draw, loop()))
        place.integers += [loop.final(memory) for memory in (count, *integers)]
        place.flags += [loop.final(memory) for memory in flags]

    def goes_on(
        self,
        place: Place,
        count: br.Var,
        memories: Sequence[tuple[str, Any]],
        flags: Sequence[Any],
    ) -> br.Var:
        """A condition of a while: few trips, and often fewer; of memories and the parameter."""
        limit = self.integer(place) % 4
        few = count < self.draw.choice([0, 1, 2, 3, limit])
        share = self.draw.random()
        if share < 0.4:
            return few
        if share < 0.5 and flags:
            return few & flags[0]
        kind, memory = self.draw.choice(memories)
        size = memory * memory if kind == SCALAR else memory * self.w[0]
        return few & (br.sum(size) > (self.number() - 0.5) * 0.6)

    def rnn(self, place: Place) -> None:
        given = self.draw.random() < 0.7 and not place.rows
        frozen = place.values[MATRIX] and self.draw.random() < 0.4
        ragged = frozen and not place.rows and self.draw.random() < 0.7
        rnn = br.create_rnn(
            reverse=self.draw.random() < 0.3,
            steps=None if given else self.draw.choice([0, 1, 3]),
            lengths=self.lengths if ragged else None,
            checkpoint_every=None if place.masked else self.segments(),
        )
        inner, only = place.inside(True), MATRIX if frozen else None
        inner.masked = inner.masked or bool(frozen)
        with rnn.stepnet() as net:
            if given:
                inner.values[MATRIX].append(net.add_input(self.x))
            memories = self.memories(place, net, inner, only)
            integers, flags = ([], []) if frozen else self.discrete(place, net, inner)
            self.statements(inner, self.draw.randint(1, 3))
            self.updates(inner, memories)
            self.discrete_updates(inner, integers, flags)
            outputs = [(only or self.kind(inner), self.draw.random() < 0.2)
                       for _ in range(self.draw.randint(0, 2))]  # fmt: skip
            for kind, second in outputs:
                net.add_output(self.pick(inner, kind), axis=self.axis(kind, second))
            self.stop(net, inner, bool(frozen), bool(ragged))
        for kind, memory in memories:
            place.values[kind].append(rnn.final(memory))
        place.integers += [rnn.final(memory) for memory in integers]
        place.flags += [rnn.final(memory) for memory in flags]
        stacked = rnn() if outputs else ()
        several = stacked if isinstance(stacked, tuple) else (stacked,)
        for (kind, second), rows in zip(outputs, several, strict=True):
            first = br.moveaxis(rows, 1, 0) if self.axis(kind, second) else rows
            plain = place.masked or self.draw.random() < 0.5
            made = br.tanh(br.sum(first, axis=0)) if plain else reduce_rows(self.draw, first)
            place.values[kind].append(made)

    def axis(self, kind: str, second: bool) -> int:
        """Where the steps of an output go."""
        return 1 if second and kind == MATRIX else 0

    def stop(self, net: Any, inner: Place, frozen: bool, ragged: bool) -> None:
        """Stop early: all rows, or each row on its own."""
        by_rows = frozen and (not ragged or self.draw.random() < 0.3)
        if by_rows:
            net.stop_when(self.pick(inner, MATRIX)[:, 1] > abs(self.number()))
        elif self.draw.random() < 0.2:
            net.stop_when(self.condition(inner))

    # ---- branches ----------------------------------------------------------------------------

    def branch(self, place: Place) -> None:
        choice = br.create_if_else(self.condition(place))
        kinds, sides = self.kinds(place, 1, 2), self.sides(choice)
        for open_side in sides:
            with open_side() as block:
                self.case(place, block, kinds)
        if len(sides) == 1:
            choice.pass_through(*self.picks(place, kinds))
        self.take(place, kinds, choice())

    def sides(self, choice: Any) -> list[Callable[[], Any]]:
        """Both blocks of an if-else, in any order, or now and then only one."""
        both = [choice.true_block, choice.false_block]
        return self.draw.sample(both, 1 if self.draw.random() < 0.15 else 2)

    def case(self, place: Place, block: Any, kinds: Sequence[str]) -> None:
        inner = place.inside()
        self.statements(inner, self.draw.randint(0, 2))
        for kind in kinds:
            block.add_output(self.pick(inner, kind))

    def take(self, place: Place, kinds: Sequence[str], made: Any) -> None:
        place.take(kinds, made if isinstance(made, tuple) else (made,))

    def switch(self, place: Place) -> None:
        indexed = self.draw.random() < 0.5
        index = self.draw.choice(place.integers) % 4
        chooser = br.create_switch(index) if indexed else br.create_switch()
        kinds = [self.kind(place)]
        whole = self.draw.random() < 0.2  # all that the index can be, and no default
        numbers = self.draw.sample(range(5), self.draw.randint(1, 3))
        for number in range(4) if whole else numbers:
            with chooser.case(number if indexed else self.condition(place)) as block:
                self.case(place, block, kinds)
        if not (indexed and whole) and not self.misses():
            with chooser.default() as block:
                self.case(place, block, kinds)
        self.take(place, kinds, chooser())

    # ---- plain blocks ------------------------------------------------------------------------

    def block(self, place: Place) -> None:
        """A plain block, of which some values are read after it; now and then called again."""
        inner = place.inside()
        known = {kind: len(values) for kind, values in inner.values.items()}
        with br.block("group", recompute=self.draw.random() < 0.4) as group:
            self.statements(inner, self.draw.randint(1, 3))
            kind = self.kind(inner)
            inner.values[kind].append(br.tanh(self.expression(inner, kind)))
        for kind, values in inner.values.items():
            made = values[known[kind] :]
            place.values[kind] += [one for one in made if self.draw.random() < 0.7]
        if self.draw.random() < 0.4:
            self.call(place, group, inner)

    def call(self, place: Place, group: Any, inner: Place) -> None:
        """A block once more, on another value in place of one that it read."""
        given = {var.name: kind for kind in (SCALAR, VECTOR) for var in place.values[kind]}
        read = [name for name in group.inputs if name in given][:1]
        others = {name: self.pick(place, given[name]) for name in read}
        kinds = {var.name: kind for kind, values in inner.values.items() for var in values}
        names, made = group.results, group(**others)
        for name, var in zip(names, made if isinstance(made, tuple) else (made,), strict=True):
            if name in kinds:
                place.values[kinds[name]].append(var)

    def row_branch(self, place: Place) -> None:
        if not place.values[MATRIX]:
            self.arithmetic(place)
            return
        deciding = self.pick(place, MATRIX)
        choice = br.create_if_else(deciding[:, 0] > self.number() * 0.5)
        sides, first = self.sides(choice), self.pick(place, MATRIX)
        if len(sides) == 1:
            choice.pass_through(first)
        for open_side in sides:
            with open_side() as block:
                inner = place.selected([block.add_input(first)])
                first = self.pick(place, MATRIX)
                if self.draw.random() < 0.6:
                    other = block.add_input(self.pick(place, MATRIX))
                    inner.values[MATRIX].append(other)
                self.statements(inner, self.draw.randint(1, 3))
                block.add_output(self.pick(inner, MATRIX))
        place.values[MATRIX].append(choice())


_CONSTRUCTS: list[Callable[[_Writer, Place], None]] = [
    _Writer.while_loop,
    _Writer.rnn,
    _Writer.branch,
    _Writer.switch,
    _Writer.row_branch,
    _Writer.block,
    _Writer.functional_while,
    _Writer.functional_scan,
    _Writer.functional_cond,
    _Writer.functional_switch,
]
