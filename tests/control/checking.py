"""Programs of the battery: both modes and all derivatives agree, and files keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import braces as br
from braces import prune
from braces.extend.programs import parse_program
from braces.testing.gradients import (
    TOLERANCE,
    DerivativeProgram,
    build_derivatives,
    compare_derivatives,
    feed_with_directions,
)
from tests.support.comparison import TALLY

Feeds = Mapping[str, Any]
Build = Callable[..., br.Var]


def constant(value: Any) -> br.Var:
    """A float64 constant."""
    return br.constant(np.asarray(value, "float64"))


def integer(value: int) -> br.Var:
    """An int32 constant, for counters."""
    return br.constant(value, dtype="int32")


def check(
    build: Build,
    *feeds: Feeds,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    second: bool = True,
    tolerance: float = TOLERANCE,
) -> DerivativeProgram:
    """Build a program and check it with each of these feeds, one run after the other.

    Args:
        build: From the data variables to a float64 scalar.
        feeds: Arrays by name, of the same dtypes each time.
        shapes: Declared shapes of inputs that are symbolic.
        second: Whether to check second derivatives.
        tolerance: Relative to the largest value.
    """
    built = build_derivatives(build, feeds[0], shapes, 2 if second else 1)
    for feed in feeds:
        compare_derivatives(built, feed, tolerance)
        TALLY.add(2 * len(built.fetches), 2 * sum(np.size(feed[n]) for n in built.inputs))
    return built


def reread(built: DerivativeProgram, feed: Feeds) -> None:
    """Saved, loaded, printed, parsed and pruned, the program gives the same bits."""
    program = built.program
    feed = feed_with_directions(built, feed)
    names = {key: var.name for key, var in built.fetches.items()}
    wanted = built.run(feed, "interpret")
    loaded = br.Program.from_bytes(program.to_bytes())
    parsed = br.Program(parse_program(str(program)))
    assert str(loaded) == str(program)
    assert str(parsed) == str(program)
    last = list(names)[-1]
    small = prune(loaded, [names["y"], names[last]])
    again = br.Program.from_bytes(small.to_bytes())
    assert sum(len(b.ops) for b in again.blocks) <= sum(len(b.ops) for b in program.blocks)
    interpreter = built.executors["interpret"]
    for other in (loaded, parsed):
        found = interpreter.run(other, built.scope, feed=feed, fetch=names)
        for key, value in wanted.items():
            np.testing.assert_array_equal(found[key], value, err_msg=key)
    fewer = {n: v for n, v in feed.items() if n in again.vars}
    found = interpreter.run(again, built.scope, feed=fewer, fetch=[names["y"], names[last]])
    np.testing.assert_array_equal(found[0], wanted["y"])
    np.testing.assert_array_equal(found[1], wanted[last])
