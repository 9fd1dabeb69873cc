"""One program, checked every way: both modes, finite differences, second order, forward mode.

`check` builds a scalar `y` of the float64 data `x` and puts into the same program

    g = dy/dx        z = <g, v>        h = dz/dx        t = jvp(y; v)        s = jvp(z; v)

for a fixed direction `v`. Then `t = z`, `s = <h, v>`, and `g` and `h` are the differences of
`y` and `z`. All of it is one run, so each mode compiles once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import braces as br
from braces.passes.autodiff.forward_mode import jvp
from tests.support.comparison import differences, near

Feeds = Mapping[str, Any]
Build = Callable[..., br.Var]

TOLERANCE = 2e-6


def constant(value: Any) -> br.Var:
    """A float64 constant."""
    return br.constant(np.asarray(value, "float64"))


def integer(value: int) -> br.Var:
    """An int32 constant, for counters."""
    return br.constant(value, dtype="int32")


@dataclass
class Checked:
    """A program with its derivatives."""

    program: br.Program
    inputs: list[str]
    fetches: dict[str, br.Var] = field(default_factory=dict[str, br.Var])
    interpreter: br.Executor = field(default_factory=lambda: br.Executor(mode="interpret"))
    compiler: br.Executor = field(default_factory=br.Executor)
    scope: br.Scope = field(default_factory=br.Scope)

    def run(self, feeds: Feeds, mode: str = "compile") -> dict[str, np.ndarray]:
        """All values for these feeds."""
        executor = self.compiler if mode == "compile" else self.interpreter
        return executor.run(self.program, self.scope, feed=feeds, fetch=self.fetches)

    def has(self, kind: str, name: str) -> bool:
        """Whether there is such a derivative."""
        return f"{kind} {name}" in self.fetches


def declare(feeds: Feeds, shapes: Mapping[str, Sequence[Any]]) -> dict[str, br.Var]:
    """Data variables for the feeds, in their own shapes where none is said."""
    return {
        name: br.data(name, list(shapes.get(name, value.shape)), dtype=value.dtype.name)
        for name, value in feeds.items()
    }


def derive(
    build: Build,
    feeds: Feeds,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    second: bool = True,
) -> Checked:
    """Build the program and its derivatives."""
    directions = {n: direction(n, a.shape) for n, a in feeds.items() if a.dtype.kind == "f"}
    with br.Program() as program:
        data = declare(feeds, shapes or {})
        moves = {n: br.data(f"{n}.v", list(data[n].shape), dtype="float64") for n in directions}
        y = build(**data)
        checked = Checked(program, list(directions), {"y": y})
        z = _first(checked, y, data, moves)
        if z is not None and second:
            _second(checked, z, data, moves)
    return checked


def _first(checked: Checked, y: br.Var, data: Any, moves: Any) -> br.Var | None:
    names = checked.inputs
    grads = br.gradients([y], [data[n] for n in names])
    found = {n: g for n, g in zip(names, grads, strict=True) if g is not None}
    checked.fetches |= {f"g {n}": g for n, g in found.items()}
    (tangent,) = jvp([y], [data[n] for n in names], [moves[n] for n in names])
    if tangent is not None:
        checked.fetches["t"] = tangent
    terms = [br.sum(g * moves[n]) for n, g in found.items()]
    if not terms:
        return None
    z = terms[0]
    for term in terms[1:]:
        z = z + term
    checked.fetches["z"] = z
    return z


def _second(checked: Checked, z: br.Var, data: Any, moves: Any) -> None:
    names = checked.inputs
    grads = br.gradients([z], [data[n] for n in names])
    checked.fetches |= {f"h {n}": g for n, g in zip(names, grads, strict=True) if g is not None}
    (tangent,) = jvp([z], [data[n] for n in names], [moves[n] for n in names])
    if tangent is not None:
        checked.fetches["s"] = tangent


def direction(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A fixed direction for an input."""
    return np.random.default_rng(len(name) + ord(name[0])).uniform(-1.0, 1.0, shape)


def check(
    build: Build,
    *feeds: Feeds,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    second: bool = True,
    tolerance: float = TOLERANCE,
) -> Checked:
    """Build a program and check it with each of these feeds, one run after the other.

    Args:
        build: From the data variables to a float64 scalar.
        feeds: Arrays by name, of the same dtypes each time.
        shapes: Declared shapes of inputs that are symbolic.
        second: Whether to check second derivatives.
        tolerance: Relative to the largest value.
    """
    checked = derive(build, feeds[0], shapes, second)
    for given in feeds:
        compare(checked, given, tolerance)
    return checked


def compare(checked: Checked, feeds: Feeds, tolerance: float = TOLERANCE) -> None:
    """Hold everything against everything, for one set of feeds."""
    moves = _moves(checked, feeds)
    feeds = moved(checked, feeds)
    compiled, interpreted = (checked.run(feeds, mode) for mode in ("compile", "interpret"))
    for name, value in compiled.items():
        assert np.all(np.isfinite(value)), name
        near(value, interpreted[name], 1e-9, f"modes: {name}")
    near(compiled.get("t", 0.0), compiled.get("z", 0.0), 1e-9, "jvp against gradient")
    inner = sum(np.sum(compiled[f"h {n}"] * moves[f"{n}.v"]) for n in checked.inputs
                if checked.has("h", n))  # fmt: skip
    near(compiled.get("s", inner), inner, 1e-8, "jvp of gradient against second order")
    for name in checked.inputs:
        slopes = differences(checked.run, feeds, name, ("y", "z")) if name in feeds else {}
        first, second = (slopes.get(key, np.zeros(())) for key in ("y", "z"))
        near(compiled.get(f"g {name}", 0.0), first, tolerance, f"gradient of {name}")
        if checked.has("h", name) or "s" in checked.fetches:
            near(compiled.get(f"h {name}", 0.0), second, tolerance, f"second order of {name}")


def moved(checked: Checked, feeds: Feeds) -> dict[str, Any]:
    """The feeds with the directions of derivatives, as far as the fetches need them."""
    return _used(checked, {**feeds, **_moves(checked, feeds)})


def _moves(checked: Checked, feeds: Feeds) -> dict[str, np.ndarray]:
    return {f"{n}.v": direction(n, np.shape(feeds[n])) for n in checked.inputs}


def _used(checked: Checked, feeds: Feeds) -> dict[str, Any]:
    """Only the feeds that the fetches need, whatever passes make of that."""
    from braces.runtime.plan.plan import Plan

    plan = Plan.of(checked.program.definition, [v.name for v in checked.fetches.values()], ())
    return {name: value for name, value in feeds.items() if name in plan.feeds}


def reread(checked: Checked, feeds: Feeds) -> None:
    """Saved, loaded, printed, parsed and pruned, the program gives the same bits."""
    from braces.ir.text.parser import parse_program
    from braces.passes.cleanup.prune import prune

    program = checked.program
    moves = {f"{n}.v": direction(n, np.shape(feeds[n])) for n in checked.inputs}
    feeds = _used(checked, {**feeds, **moves})
    names = {key: var.name for key, var in checked.fetches.items()}
    wanted = checked.run(feeds, "interpret")
    loaded = br.Program.from_bytes(program.to_bytes())
    parsed = br.Program(parse_program(str(program)))
    assert str(loaded) == str(program)
    assert str(parsed) == str(program)
    last = list(names)[-1]
    small = prune(loaded, [names["y"], names[last]])
    again = br.Program.from_bytes(small.to_bytes())
    assert sum(len(b.ops) for b in again.blocks) <= sum(len(b.ops) for b in program.blocks)
    for other in (loaded, parsed):
        found = checked.interpreter.run(other, checked.scope, feed=feeds, fetch=names)
        for key, value in wanted.items():
            np.testing.assert_array_equal(found[key], value, err_msg=key)
    fewer = {n: v for n, v in feeds.items() if n in again.vars}
    found = checked.interpreter.run(again, checked.scope, feed=fewer,
                                    fetch=[names["y"], names[last]])  # fmt: skip
    np.testing.assert_array_equal(found[0], wanted["y"])
    np.testing.assert_array_equal(found[1], wanted[last])
