"""Row-wise branches with rows on several devices, compared with one device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import braces as br
from tests.support.sharded_models import ROWS, WIDTH

DATA = br.Layout(br.Mesh({"data": -1}), {"batch": "data"})
CHOSEN = {
    "none": np.zeros(ROWS, bool),
    "all": np.ones(ROWS, bool),
    "those of some devices": np.arange(ROWS) < ROWS // 2,
    "one": np.arange(ROWS) == ROWS - 1,
    "some of each device": np.arange(ROWS) % 2 == 0,
}
Branch = Callable[[Any, br.Var], br.Var]
"""From what a case can do, and all rows, to the rows that it gives."""


def by_mask(branch: Branch, orders: int = 1) -> tuple[br.Program, list[br.Var]]:
    """A branch by a mask that is fed: its rows, and gradients of what it reads."""
    with br.Program() as program:
        x = br.data("x", ["batch", WIDTH], dtype="float64")
        chosen = br.data("chosen", ["batch"], dtype="bool")
        br.data("which", [], dtype="int32")
        h = br.fc(x, 8, name="up")
        choice = br.create_if_else(chosen)
        with choice.true_block() as t:
            t.add_output(branch(t, h))
        with choice.false_block() as f:
            f.add_output(f.add_input(h) * 0.5)
        wanted = [choice()]
        add_gradients(program, wanted, orders)
    return program, wanted


def add_gradients(program: br.Program, wanted: list[br.Var], orders: int) -> None:
    """Add to a value the gradients of its squares, by parameters, and those of these."""
    found = wanted
    for _ in range(orders):
        loss = sum((br.mean(one**2) for one in found), br.constant(0.0, dtype="float64"))
        every = br.gradients(loss, [p for p in program.parameters if p.trainable])
        found = [one for one in every if one is not None]
        wanted += [loss, *found]


def alike(
    program: br.Program,
    wanted: list[br.Var],
    feeds: Iterable[dict[str, Any]],
    mode: str = "compile",
    layout: br.Layout = DATA,
) -> br.Executor:
    """One device and several give the same; what runs on several."""
    both = br.Executor(mode), br.Executor(mode, layout=layout)
    scopes = br.Scope(), br.Scope()
    for exe, scope in zip(both, scopes, strict=True):
        exe.init(program, scope, seed=0)
    for fed in feeds:
        one, other = (e.run(program, s, fed, wanted) for e, s in zip(both, scopes, strict=True))
        for left, right in zip(one, other, strict=True):
            np.testing.assert_allclose(right, left, rtol=1e-12, atol=1e-12)
    return both[1]


def masked(rng: np.random.Generator, rows: int = ROWS) -> list[dict[str, Any]]:
    """Rows, of which some are chosen."""
    x = rng.normal(size=[rows, WIDTH])
    chosen = enumerate(CHOSEN.values())
    return [{"x": x, "chosen": mask[:rows], "which": i % 3} for i, mask in chosen]
