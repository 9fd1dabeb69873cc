"""Steps with lengths are taken out of loops too, and padding still reaches nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from braces.extend.programs import all_ops
from tests.support.rnn_cells import CELLS, CLASSES, IDS, WIDTH, close, fed, ran, tagger

ROWS = 4
MODES = ("compile", "interpret")
PLAIN = (br.passes.dce,)
FAR = 2**30
"""An id and a label that no table has."""


def built(cell: str, order: int, **options: Any) -> tuple[br.Program, list[Any]]:
    """A tagger with lengths."""
    return tagger(cell, order, padded=True, **options)


def values(trips: int, lengths: Any = (0, 4, 1, 2)) -> dict[str, Any]:
    """Padding is what would fail or spread, wherever it were computed with."""
    rng = np.random.default_rng(trips)
    lengths = np.minimum(lengths, trips).astype("int32")
    padding = np.arange(trips)[:, None] >= lengths
    ids, labels = rng.integers(0, IDS, (trips, ROWS)), rng.integers(0, CLASSES, (trips, ROWS))
    scale = rng.uniform(0.5, 2.0, (trips, ROWS, WIDTH))
    return {
        "ids": np.where(padding, FAR, ids).astype("int32"),
        "labels": np.where(padding, -FAR, labels).astype("int32"),
        "scale": np.where(padding[..., None], [np.nan, -1.0, 0.0, np.inf], scale),
        "lengths": lengths,
    }


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.unoptimized
def test_values_and_gradients_are_those_of_the_steps_as_written(cell: str) -> None:
    prog, wanted = built(cell, order=2)
    feeds = [values(trips) for trips in (0, 1, 4)]
    as_written = ran(prog, wanted, feeds, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.unoptimized
def test_where_no_row_runs_nothing_does() -> None:
    prog, wanted = built("lstm", order=1)
    feeds = [values(4, lengths=(0, 0, 0, 0))]
    close(ran(prog, wanted, feeds), ran(prog, wanted, feeds, mode="interpret"))


@pytest.mark.parametrize("options", [{"reverse": True}, {"rows": ROWS}])
@pytest.mark.unoptimized
def test_counting_down_or_with_a_number_of_rows_is_no_other(options: dict[str, Any]) -> None:
    prog, wanted = built("lstm", order=1, **options)
    close(ran(prog, wanted, [values(4)]), ran(prog, wanted, [values(4)], passes=PLAIN))


@pytest.mark.parametrize("rows", ["b", ROWS])
@pytest.mark.parametrize("cell", ["lstm", "boxed", "gates", "put together"])
def test_only_products_of_memories_stay_in_loops(cell: str, rows: Any) -> None:
    prog, wanted = built(cell, order=1, rows=rows)
    found = all_ops(prog.explain(fetch=wanted).program.main)
    inside = [path for path, op in found if op.type == "matmul" and path.startswith("loop")]
    assert len(inside) == 2  # once forwards, and once by the memory backwards


@pytest.mark.parametrize("rows", ["b", ROWS])
@pytest.mark.parametrize("cell", ["lstm", "boxed", "put together"])
def test_the_gradient_computes_no_product_of_the_step_again(cell: str, rows: Any) -> None:
    prog, _ = built(cell, order=1, rows=rows)
    forward, backward = (
        sum(op.type == "matmul" for _, op in all_ops(loop))
        for loop in (
            next(iter(op.bodies().values()))
            for op in prog.definition.main.ops
            if op.type == "loop"
        )
    )
    assert backward == 2 * forward  # by what it reads, and by the weights


def stopping() -> tuple[br.Program, list[Any]]:
    """Rows that stop by what they read, with derivatives of derivatives."""
    with br.Program() as prog:
        xs = br.data("xs", ["t", "b", WIDTH], dtype="float64")
        w, u, v = (br.parameter(n, [WIDTH, WIDTH], dtype="float64") for n in "wuv")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([xs.shape[1], WIDTH], dtype="float64"))
            after = br.tanh(net.add_input(xs) @ w + h.pre(1) @ u)
            h.update(after)
            net.add_output(after @ v)
            net.stop_when(after[:, 0] > 0.5)
        loss = br.sum(br.sin(rnn())) + br.sum(rnn.final(h) ** 2)
        wanted = br.gradients(loss, [w, u, v, xs])
        curved = sum((br.sum(br.sin(g)) for g in wanted), start=loss)
        return prog, [loss, *wanted, *br.gradients(curved, [w, u, v, xs])]


@pytest.mark.unoptimized
def test_of_rows_that_stop_only_products_that_wait_for_it_stay() -> None:
    prog, wanted = stopping()
    feeds = fed("xs", (0, 1, 5), ROWS, WIDTH)
    as_written = ran(prog, wanted, feeds, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)
    explained = prog.explain(fetch=wanted[:4])
    found = all_ops(explained.program.main)
    inside = [path for path, op in found if op.type == "matmul" and path.startswith("loop")]
    assert len(inside) == 3  # of the slice and the memory, and once by the memory backwards
    assert "the active batch elements are unknown before the loop" in str(explained)


def test_what_is_wrong_in_a_row_that_runs_is_told() -> None:
    prog, wanted = built("simple", order=1)
    feed = values(4)
    feed["ids"][0, 1] = FAR
    for mode in MODES:
        with pytest.raises(BracesError, match="embedding") as caught:
            ran(prog, wanted, [feed], mode=mode, passes=br.passes.default)
        assert "cells.py" in str(caught.value)


def test_check_nan_sees_nothing_of_the_padding() -> None:
    prog, wanted = built("simple", order=1)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=1)
    found = exe.run(prog, scope, feed=values(4), fetch=wanted[0], check_nan=True)
    assert np.isfinite(found)
