"""Steps with lengths are taken out of loops too, and padding still reaches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.cells import CELLS, WIDTH

import braces as br
from braces.errors import BracesError
from braces.ir.walk import all_ops

ROWS, IDS, CLASSES = 4, 9, 5
MODES = ("compile", "interpret")
PLAIN = (br.passes.eliminate,)
FAR = 2**30
"""An id and a label that no table has."""


def built(
    cell: str, order: int, rows: Any = "b", **options: Any
) -> tuple[br.Program, list[Any]]:
    """A tagger with everything in the step: ids, labels and lengths in; loss, derivatives."""
    step, memories = CELLS[cell]
    parameters = list[Any]()

    def parameter(*shape: int) -> Any:
        parameters.append(br.parameter(f"p{len(parameters)}", shape, dtype="float64"))
        return parameters[-1]

    with br.Program() as prog:
        ids, labels = (br.data(n, ["t", rows], dtype="int32") for n in ("ids", "labels"))
        scale = br.data("scale", ["t", rows, WIDTH], dtype="float64")
        lengths = br.data("lengths", [rows], dtype="int32")
        table = parameter(IDS, WIDTH)
        rnn = br.create_rnn(lengths=lengths, **options)
        with rnn.stepnet() as net:
            x = br.embedding(net.add_input(ids), table) * br.log(net.add_input(scale))
            kept = [
                net.add_memory(init=br.zeros([ids.shape[1], WIDTH], dtype="float64"))
                for _ in range(memories)
            ]
            nexts = step(x, kept, parameter)
            for memory, after in zip(kept, nexts, strict=True):
                memory.update(after)
            logits = nexts[0] @ parameter(WIDTH, CLASSES) + parameter(CLASSES)
            net.add_output(br.softmax_cross_entropy(logits, net.add_input(labels)))
            net.add_output(nexts[0])
        losses, states = rnn()
        loss = br.sum(losses) + br.sum(br.sin(rnn.final(kept[0])))
        wanted = [loss, losses, states, *br.gradients(loss, [*parameters, scale])]
        if order == 2:
            curved = sum((br.sum(br.sin(g)) for g in wanted[3:]), start=br.sum(br.sin(loss)))
            wanted += br.gradients(curved, [*parameters, scale])
    return prog, wanted


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


def close(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def run(prog: br.Program, fetch: Any, feed: dict[str, Any], **options: Any) -> list[Any]:
    exe, scope = br.Executor(**options), br.Scope()
    exe.init(prog, scope, seed=1)
    return exe.run(prog, scope, feed=feed, fetch=fetch)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.unoptimized
def test_values_and_gradients_are_those_of_the_steps_as_written(cell: str) -> None:
    prog, wanted = built(cell, order=2)
    for trips in (0, 1, 4):
        as_written = run(prog, wanted, values(trips), mode="interpret")
        for mode in MODES:
            close(
                run(prog, wanted, values(trips), mode=mode, passes=br.passes.default),
                as_written,
            )


@pytest.mark.unoptimized
def test_where_no_row_runs_nothing_does() -> None:
    prog, wanted = built("lstm", order=1)
    feed = values(4, lengths=(0, 0, 0, 0))
    close(run(prog, wanted, feed), run(prog, wanted, feed, mode="interpret"))


@pytest.mark.parametrize("options", [{"reverse": True}, {"rows": ROWS}])
@pytest.mark.unoptimized
def test_counting_down_or_with_a_number_of_rows_is_no_other(options: dict[str, Any]) -> None:
    prog, wanted = built("lstm", order=1, **options)
    close(run(prog, wanted, values(4)), run(prog, wanted, values(4), passes=PLAIN))


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
    for trips in (0, 1, 5):
        feed = {"xs": np.random.default_rng(trips).normal(size=(trips, ROWS, WIDTH))}
        as_written = run(prog, wanted, feed, mode="interpret")
        for mode in MODES:
            close(run(prog, wanted, feed, mode=mode, passes=br.passes.default), as_written)
    explained = prog.explain(fetch=wanted[:4])
    found = all_ops(explained.program.main)
    inside = [path for path, op in found if op.type == "matmul" and path.startswith("loop")]
    assert len(inside) == 3  # of the slice and the memory, and once by the memory backwards
    assert "though it needs slices alone: which rows run is not known before" in str(explained)


def test_what_is_wrong_in_a_row_that_runs_is_told() -> None:
    prog, wanted = built("simple", order=1)
    feed = values(4)
    feed["ids"][0, 1] = FAR
    for mode in MODES:
        with pytest.raises(BracesError, match="embedding") as caught:
            run(prog, wanted, feed, mode=mode, passes=br.passes.default)
        assert "test_split.py" in str(caught.value)


def test_check_nan_sees_nothing_of_the_padding() -> None:
    prog, wanted = built("simple", order=1)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=1)
    found = exe.run(prog, scope, feed=values(4), fetch=wanted[0], check_nan=True)
    assert np.isfinite(found)
