"""Expressions of the blocks of random programs: values of three kinds, from others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import braces as br
from tests.random_programs.sequences import activate_slice

SCALAR, VECTOR, MATRIX = "scalar", "vector", "matrix"


@dataclass
class Place:
    """A block being written: what can be read in it, and what may be written.

    Attributes:
        values: Variables by kind; those of outer blocks come first.
        integers: Counters and the like, of several dtypes.
        flags: Bool scalars.
        depth: How many constructs it is in.
        looped: Whether a loop is around it.
        rows: Whether matrices have the rows of a row-wise branch.
        masked: Whether only some rows run, in a row-wise branch or a step with lengths.
    """

    values: dict[str, list[br.Var]]
    integers: list[br.Var]
    flags: list[br.Var]
    depth: int = 0
    looped: bool = False
    rows: bool = False
    masked: bool = False

    def inside(self, looped: bool = False) -> Place:
        """A block in this one."""
        values = {kind: list(found) for kind, found in self.values.items()}
        return Place(
            values,
            list(self.integers),
            list(self.flags),
            self.depth + 1,
            self.looped or looped,
            self.rows,
            self.masked,
        )

    def selected(self, matrices: Sequence[br.Var]) -> Place:
        """A row-wise branch in this one, with its rows of these matrices."""
        inner = self.inside()
        inner.rows = inner.masked = True
        inner.values[MATRIX] = list(matrices)
        return inner

    def take(self, kinds: Sequence[str], values: Sequence[Any]) -> None:
        """Add what can be read: a value of each kind."""
        for kind, value in zip(kinds, values, strict=True):
            self.values[kind].append(value)


@br.custom_gradient
def own(a: br.Var, b: br.Var) -> Any:
    """A product whose gradient is written, and is the true one."""
    h = br.tanh(a * b)
    y = h * br.sin(a)

    def gradient(g: br.Var) -> tuple[br.Var, br.Var]:
        d = g * (1.0 - h * h) * br.sin(a)
        return d * b + g * h * br.cos(a), d * a

    return y, gradient


class Expressions:
    """Draws expressions from what a place can read.

    Attributes:
        draw: The random numbers.
        w: The parameter that everything shares.
        x: The data with steps, whose number is symbolic.
    """

    draw: random.Random
    w: br.Var
    x: br.Var

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
            lambda: br.sin(a * br.cast(self.integer(place) % 3, "float64")),
            lambda: own(a, b),
        ]
        options += self.special(place, kind, a)
        return self.draw.choice(options)()

    def special(self, place: Place, kind: str, a: br.Var) -> list[Callable[[], br.Var]]:
        """What only one kind can do."""
        if kind == SCALAR:
            return [lambda: br.tanh(br.sum(self.pick(place, VECTOR) * self.w[1]))] * 2
        if kind == VECTOR:
            found: list[Callable[[], br.Var]] = [
                lambda: br.tanh(a @ self.w),
                lambda: br.tanh(br.einsum("i,j->i", a, a)),
            ]
            if place.values[MATRIX]:
                found.append(lambda: br.tanh(br.sum(self.pick(place, MATRIX), axis=0)))
            if place.values[MATRIX] and not place.masked:
                found.append(lambda: activate_slice(self.draw, self.pick(place, MATRIX)))
            return found
        steps = [] if place.rows else [lambda: a * activate_slice(self.draw, self.x)]
        return [
            *steps,
            lambda: br.tanh(a @ self.w),
            lambda: br.sin(a + self.pick(place, VECTOR)),
            lambda: a * br.tanh(br.sum(a, axis=0)),
            lambda: a - br.sum(a * a, axis=1, keepdims=True) * 0.3,
            lambda: br.sin(a * br.expand_dims(br.einsum("bi,ci->b", a, a), axis=1)),
            lambda: br.tanh(br.einsum("bi,bj->bi", a, a)),
        ]

    def condition(self, place: Place) -> br.Var:
        """A bool scalar: of integers, flags, the parameter, or values."""
        share = self.draw.random()
        if share < 0.25:
            return self.draw.choice(place.integers) % 2 == 0
        if share < 0.4 and place.flags:
            return self.draw.choice(place.flags)
        if share < 0.6:
            return br.sum(self.pick(place, VECTOR) * self.w[2]) > self.number()
        return br.sum(self.pick(place, self.kind(place))) > self.number()

    def integer(self, place: Place) -> br.Var:
        """An integer scalar of int32."""
        return br.cast(self.draw.choice(place.integers), "int32")
