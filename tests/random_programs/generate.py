"""Random programs: loops, branches, and arithmetic, nested, with shared names and captures.

All numbers are float64 and stay of size one: what could grow goes through `tanh` or `sin`. A
program has the data `x: [t, b, 3]`, `m: [b, 3]`, `v: [3]`, `s: []`, `k: i32[]` and the
parameter `w: [3, 3]`, and gives one scalar. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import braces as br

SCALAR, VECTOR, MATRIX = "scalar", "vector", "matrix"
STEPS, ROWS, WIDTH = (0, 1, 3), (0, 1, 4), 3


@dataclass
class Place:
    """A block being written: what can be read in it, and what may be written.

    Attributes:
        values: Variables by kind; those of outer blocks come first.
        integers: Counters and the like.
        depth: How many constructs it is in.
        looped: Whether a loop is around it.
        rows: Whether matrices have the rows of a row-wise branch.
    """

    values: dict[str, list[br.Var]]
    integers: list[br.Var]
    depth: int = 0
    looped: bool = False
    rows: bool = False

    def inside(self, looped: bool = False) -> Place:
        """A block in this one."""
        values = {kind: list(found) for kind, found in self.values.items()}
        return Place(
            values, list(self.integers), self.depth + 1, self.looped or looped, self.rows
        )


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


def feeds_of(seed: int) -> dict[str, np.ndarray]:
    """Values for the data and the parameter of any program."""
    draw = np.random.default_rng(seed)
    steps, rows = draw.choice(STEPS, p=[0.1, 0.2, 0.7]), draw.choice(ROWS, p=[0.05, 0.15, 0.8])
    shapes = {"x": (steps, rows, WIDTH), "m": (rows, WIDTH), "v": (WIDTH,), "s": (),
              "w": (WIDTH, WIDTH)}  # fmt: skip
    found = {name: draw.uniform(-1.0, 1.0, shape) for name, shape in shapes.items()}
    return {**found, "k": np.asarray(draw.integers(-1, 5), np.int32)}


class _Writer:
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
            self.x, self.w, self.m = x, w, m
            place = Place({SCALAR: [s], VECTOR: [v], MATRIX: [m]}, [k])
            self.statements(place, size)
            result = self.total(place)
        return Generated(program, result, [x, m, v, s, w])

    # ---- choosing ----------------------------------------------------------------------------

    def pick(self, place: Place, kind: str) -> br.Var:
        """A variable of a kind; recent ones more often."""
        found = place.values[kind]
        if not found:
            return self.make(place, kind)
        if self.draw.random() < 0.6:
            return found[-1 - self.draw.randrange(min(3, len(found)))]
        return self.draw.choice(found)

    def make(self, place: Place, kind: str) -> br.Var:
        """A variable of a kind from one of another."""
        if kind == SCALAR:
            other = self.draw.choice([n for n in (VECTOR, MATRIX) if place.values[n]])
            return br.tanh(br.sum(self.pick(place, other)))
        return br.sin(self.pick(place, SCALAR) * self.w[0])

    def kind(self, place: Place) -> str:
        """A kind that there is."""
        kinds = [kind for kind in (SCALAR, VECTOR, MATRIX, MATRIX) if place.values[kind]]
        return self.draw.choice(kinds)

    def number(self) -> float:
        """A number that nothing is equal to by chance."""
        return round(self.draw.uniform(-1.0, 1.0), 6)

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
        result = parts[0]
        for part in parts[1:]:
            result = result + part
        return result

    def arithmetic(self, place: Place) -> None:
        kind = self.kind(place)
        place.values[kind].append(self.expression(place, kind))

    def expression(self, place: Place, kind: str) -> br.Var:
        """A new value of a kind."""
        a, b = self.pick(place, kind), self.pick(place, kind)
        options: list[Callable[[], br.Var]] = [
            lambda: br.tanh(a),
            lambda: br.sin(a) * b,
            lambda: br.tanh(a + b),
            lambda: br.sin(a - b * self.number()),
            lambda: br.tanh(a * b + self.number()),
            lambda: br.tanh(a * a),
            lambda: br.sin(a) + br.stop_gradient(b) * 0.1,
            lambda: br.tanh(a * self.pick(place, SCALAR)),
            lambda: br.where(a > self.number(), br.sin(a), b * 0.5),
            lambda: br.sin(a * br.cast(self.draw.choice(place.integers) % 3, "float64")),
        ]
        options += self.special(place, kind, a)
        return self.draw.choice(options)()

    def special(self, place: Place, kind: str, a: br.Var) -> list[Callable[[], br.Var]]:
        """What only one kind can do."""
        if kind == SCALAR:
            return [lambda: br.tanh(br.sum(self.pick(place, VECTOR) * self.w[1]))] * 2
        if kind == VECTOR:
            found: list[Callable[[], br.Var]] = [lambda: br.tanh(a @ self.w)]
            if place.values[MATRIX]:
                found.append(lambda: br.tanh(br.sum(self.pick(place, MATRIX), axis=0)))
            return found
        return [
            lambda: br.tanh(a @ self.w),
            lambda: br.sin(a + self.pick(place, VECTOR)),
            lambda: a * br.tanh(br.sum(a, axis=0)),
            lambda: a - br.sum(a * a, axis=1, keepdims=True) * 0.3,
        ]

    def condition(self, place: Place) -> br.Var:
        """A bool scalar."""
        if self.draw.random() < 0.3:
            return self.draw.choice(place.integers) % 2 == 0
        return br.sum(self.pick(place, self.kind(place))) > self.number()

    # ---- loops -------------------------------------------------------------------------------

    def memories(self, place: Place, block: Any, inner: Place) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for _ in range(self.draw.randint(1, 3)):
            kind = self.kind(place)
            init = self.pick(place, kind)
            several = self.draw.random() < 0.2
            memory = block.add_memory(init=(init, self.pick(place, kind)) if several else init)
            found.append((kind, memory))
            inner.values[kind].append(memory)
            if self.draw.random() < 0.25:
                inner.values[kind].append(memory.pre(self.draw.randint(1, 3)))
        return found

    def updates(self, inner: Place, memories: Sequence[tuple[str, Any]]) -> None:
        for kind, memory in memories:
            plain = self.draw.random() < 0.3
            memory.update(self.pick(inner, kind) if plain else self.expression(inner, kind))

    def while_loop(self, place: Place) -> None:
        loop, inner = br.create_while(), place.inside(looped=True)
        rows: list[tuple[str, Any]] = []
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0, dtype="int32"))
            inner.integers.append(count)
            memories = self.memories(place, body, inner)
            body.set_condition(self.goes_on(place, inner, count, memories))
            self.statements(inner, self.draw.randint(1, 3))
            count.update(count + 1)
            self.updates(inner, memories)
            if not place.looped and not place.rows and place.depth == 0:
                kind = self.kind(inner)
                rows.append((kind, self.pick(inner, kind)))
                body.add_output(rows[0][1])
        for kind, memory in memories:
            place.values[kind].append(loop.final(memory))
        for kind, _ in rows:
            place.values[kind].append(br.tanh(br.sum(loop(), axis=0)))
        place.integers.append(loop.final(count))

    def goes_on(
        self, place: Place, inner: Place, count: br.Var, memories: Sequence[tuple[str, Any]]
    ) -> br.Var:
        """A condition of a while: few trips, and often fewer."""
        limit = self.draw.choice(place.integers) % 4
        most = self.draw.choice([0, 1, 2, 3, limit])
        if self.draw.random() < 0.5:
            return count < most
        kind, memory = self.draw.choice(memories)
        del kind, inner
        return (count < most) & (br.sum(memory * memory) > abs(self.number()) * 0.3)

    def rnn(self, place: Place) -> None:
        given = self.draw.random() < 0.7 and not place.rows
        reverse = self.draw.random() < 0.3
        rnn = br.create_rnn(
            reverse=reverse, steps=None if given else self.draw.choice([0, 1, 3])
        )
        inner = place.inside(looped=True)
        with rnn.stepnet() as net:
            if given:
                inner.values[MATRIX].append(net.add_input(self.x))
            memories = self.memories(place, net, inner)
            self.statements(inner, self.draw.randint(1, 3))
            self.updates(inner, memories)
            outputs = [self.kind(inner) for _ in range(self.draw.randint(0, 2))]
            for kind in outputs:
                net.add_output(self.pick(inner, kind))
        for kind, memory in memories:
            place.values[kind].append(rnn.final(memory))
        stacked = rnn() if outputs else ()
        several = stacked if isinstance(stacked, tuple) else (stacked,)
        for kind, rows in zip(outputs, several, strict=True):
            place.values[kind].append(br.tanh(br.sum(rows, axis=0)))

    # ---- branches ----------------------------------------------------------------------------

    def branch(self, place: Place) -> None:
        choice = br.create_if_else(self.condition(place))
        kinds = [self.kind(place) for _ in range(self.draw.randint(1, 2))]
        for open_block in (choice.true_block, choice.false_block):
            with open_block() as block:
                self.case(place, block, kinds)
        self.take(place, kinds, choice())

    def case(self, place: Place, block: Any, kinds: Sequence[str]) -> None:
        inner = place.inside()
        self.statements(inner, self.draw.randint(0, 2))
        for kind in kinds:
            block.add_output(self.pick(inner, kind))

    def take(self, place: Place, kinds: Sequence[str], made: Any) -> None:
        several = made if isinstance(made, tuple) else (made,)
        for kind, value in zip(kinds, several, strict=True):
            place.values[kind].append(value)

    def switch(self, place: Place) -> None:
        indexed = self.draw.random() < 0.5
        index = self.draw.choice(place.integers) % 4
        chooser = br.create_switch(index) if indexed else br.create_switch()
        kinds = [self.kind(place)]
        for number in self.draw.sample(range(5), self.draw.randint(1, 3)):
            with chooser.case(number if indexed else self.condition(place)) as block:
                self.case(place, block, kinds)
        with chooser.default() as block:
            self.case(place, block, kinds)
        self.take(place, kinds, chooser())

    def row_branch(self, place: Place) -> None:
        if not place.values[MATRIX]:
            self.arithmetic(place)
            return
        deciding = self.pick(place, MATRIX)
        choice = br.create_if_else(deciding[:, 0] > self.number() * 0.5)
        sides = [choice.true_block, choice.false_block]
        if self.draw.random() < 0.15:
            sides.pop()
        for open_side in sides:
            with open_side() as block:
                inner = place.inside()
                inner.rows = True
                inner.values[MATRIX] = [block.add_input(self.pick(place, MATRIX))]
                if len(sides) == 2 and self.draw.random() < 0.6:
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
]
