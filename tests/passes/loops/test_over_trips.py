"""Loop passes change no value and no gradient of any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.building import call
from braces.extend.programs import all_bodies, all_ops
from tests.support.rnn_cells import CELLS, CLASSES, IDS, WIDTH, close, fed, ran, tagger

ROWS = 3
MODES = ("compile", "interpret")
PLAIN = (br.passes.dce,)


def values(trips: int) -> dict[str, Any]:
    rng = np.random.default_rng(trips)
    ids, labels = rng.integers(0, IDS, (trips, ROWS)), rng.integers(0, CLASSES, (trips, ROWS))
    return {"ids": ids.astype("int32"), "labels": labels.astype("int32")}


def products(prog: br.Program, fetch: Any, passes: Any = br.passes.default) -> int:
    """Return the number of matrix products in loops."""
    found = all_ops(prog.explain(fetch=fetch, passes=passes).program.main)
    return sum(op.type in ("matmul", "einsum") for path, op in found if path)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.unoptimized
def test_values_and_gradients_are_those_of_the_loops_as_written(cell: str) -> None:
    prog, wanted = tagger(cell, order=2)
    feeds = [values(trips) for trips in (0, 1, 4)]
    as_written = ran(prog, wanted, feeds, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.parametrize("cell", ["lstm", "highway"])
@pytest.mark.unoptimized
def test_a_loop_that_counts_down_is_no_other(cell: str) -> None:
    prog, wanted = tagger(cell, order=1, reverse=True)
    as_written = ran(prog, wanted, [values(4)], passes=PLAIN)
    close(ran(prog, wanted, [values(4)]), as_written)


@pytest.mark.parametrize(
    ("cell", "recurrent"),
    [
        ("simple", 1),
        ("lstm", 1),
        ("peephole", 3),
        ("gru", 3),
        ("highway", 4),
        ("attention", 3),
    ],
)
def test_only_products_of_memories_stay_in_loops(cell: str, recurrent: int) -> None:
    # once forwards, and once by the memory backwards
    passes = (br.passes.vectorize_before, br.passes.vectorize_after, br.passes.dce)
    assert products(*tagger(cell, order=1), passes) == 2 * recurrent


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.unoptimized
def test_the_input_of_the_trip_before_is_multiplied_for_all_trips(reverse: bool) -> None:
    with br.Program() as prog:
        xs = br.data("xs", ["t", ROWS, WIDTH], dtype="float64")
        w, u = (br.parameter(n, [WIDTH, WIDTH], dtype="float64") for n in ("w", "u"))
        rnn = br.create_rnn(reverse=reverse)
        with rnn.stepnet() as net:
            x = net.add_input(xs)
            h, before = (net.add_memory(shape=[ROWS, WIDTH], dtype="float64") for _ in "ab")
            h.update(br.tanh(h @ w + before @ u))
            before.update(x)
            net.add_output(h.pre(1) * before.pre(1))
        slope = br.gradients(br.sum(rnn()), [w, u, xs])
        curved = br.gradients(br.sum(br.sin(slope[0])), [w, xs])
    wanted = [rnn(), *slope, *curved]
    assert products(prog, wanted[:1], PLAIN) == 2
    assert products(prog, wanted[:1], br.passes.default) == 1
    feeds = fed("xs", (0, 1, 2, 5), ROWS, WIDTH)
    close(ran(prog, wanted, feeds), ran(prog, wanted, feeds, passes=PLAIN))


@pytest.mark.unoptimized
def test_a_cell_without_a_batch_is_taken_out_as_one_with_it() -> None:
    with br.Program() as prog:
        xs = br.data("xs", ["t", WIDTH], dtype="float64")
        w, u, v = (br.parameter(n, [WIDTH, WIDTH], dtype="float64") for n in "wuv")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([WIDTH], dtype="float64"))
            h.update(br.tanh(w @ net.add_input(xs) + u @ h))
            net.add_output(v @ h.pre(1))
        slope = br.gradients(br.sum(br.sin(rnn())), [w, u, v, xs])
        curved = br.gradients(sum(br.sum(br.sin(one)) for one in slope), [w, u, v, xs])
    assert products(prog, [rnn(), *slope]) == 2
    wanted, feeds = [rnn(), *slope, *curved], fed("xs", (0, 1, 4), WIDTH)
    as_written = ran(prog, wanted, feeds, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.unoptimized
def test_frames_of_all_trips_are_convolved_as_one_batch() -> None:
    with br.Program() as prog:
        frames = br.data("frames", ["t", "b", 2, 5, 5], dtype="float64")
        weight = br.parameter("weight", [3, 2, 3, 3], dtype="float64")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([frames.shape[1], 3, 3, 3], dtype="float64"))
            seen = call("conv2d", net.add_input(frames), weight)
            h.update(br.tanh(h + seen))
            net.add_output(h.pre(1))
        slope = br.gradients(br.sum(br.sin(rnn())), [weight, frames])
    wanted = [rnn(), *slope]
    found = all_ops(prog.explain(fetch=rnn()).program.main)
    assert [path for path, op in found if op.type == "conv2d"] == [""]
    feeds = fed("frames", (0, 1, 4), ROWS, 2, 5, 5)
    as_written = ran(prog, wanted, feeds, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


Shapes = tuple[list[Any], list[Any], list[int], list[int]]
CONVOLUTIONS: dict[str, tuple[Shapes, dict[str, Any], dict[str, Any]]] = {
    "plain": (
        (["b", 4, 4, 4], ["b", 2, 4, 4], [2, 4, 3, 3], [2, 2, 3, 2]),
        {"padding": "same"},
        {"padding": "same"},
    ),
    "strided": (
        (["b", 2, 5, 4], ["b", 3, 3, 2], [3, 2, 3, 3], [3, 3, 2, 1]),
        {"stride": 2, "padding": 1},
        {"dilation": 2, "padding": (0, 2, 0, 0)},
    ),
    "grouped": (
        (["b", 4, 4, 5], ["b", 4, 4, 5], [4, 2, 3, 3], [4, 1, 3, 3]),
        {"padding": "same", "groups": 2},
        {"padding": "same", "groups": 4},
    ),
    "last": (
        (["b", 4, 4, 2], ["b", 4, 4, 3], [3, 3, 2, 3], [3, 3, 3, 3]),
        {"padding": "same", "layout": "NHWC"},
        {"padding": 1, "layout": "NHWC"},
    ),
    "lines": (
        (["b", 2, 6], ["b", 3, 3], [3, 2, 3], [3, 3, 3]),
        {"padding": "same", "stride": 2},
        {"padding": 1},
    ),
}
"""The shapes of frames, memory and their weights, and how both are convolved."""


def convolving(name: str, reverse: bool) -> tuple[br.Program, list[Any], list[Any]]:
    """A recurrent convolution: its loss and gradients, and derivatives of these."""
    (of_x, of_h, *of_weights), on_frames, on_memory = CONVOLUTIONS[name]
    conv = f"conv{len(of_x) - 2}d"
    with br.Program() as prog:
        xs, h0 = br.data("xs", ["t", *of_x], "float64"), br.data("h0", of_h, "float64")
        w, u = (
            br.parameter(n, shape, dtype="float64")
            for n, shape in zip("wu", of_weights, strict=True)
        )
        bias = br.parameter("bias", [u.shape[-1 if name == "last" else 0]], dtype="float64")
        rnn = br.create_rnn(reverse=reverse)
        with rnn.stepnet() as net:
            x, h = net.add_input(xs), net.add_memory(init=h0)
            h.update(
                br.tanh(call(conv, x, w, bias, **on_frames) + call(conv, h, u, **on_memory))
            )
            net.add_output(h.pre(1))
        wrt = [w, u, bias, xs, h0]
        loss = br.sum(br.sin(rnn()))
        slope = br.gradients(loss, wrt)
        curved = sum((br.sum(br.cos(g)) for g in slope), start=loss)
        return prog, [loss, *slope], br.gradients(curved, wrt)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.unoptimized
def test_derivatives_of_convolutions_leave_loops(name: str, reverse: bool) -> None:
    prog, slope, curved = convolving(name, reverse)
    found = [op.type for path, op in all_ops(prog.explain(fetch=slope).program.main) if path]
    left = [type_ for type_ in found if type_.startswith("conv")]
    assert len(left) == 2, left  # of the memory alone, forwards and backwards
    assert "conv_to_weight" not in left
    wanted = [*slope, *curved]
    (of_x, of_h, *_), *_ = CONVOLUTIONS[name]
    feeds = fed("xs", (0, 1, 4), ROWS, *of_x[1:])
    for feed in feeds:
        feed["h0"] = np.random.default_rng(9).normal(size=(ROWS, *of_h[1:]))
    as_written = ran(prog, wanted, feeds, passes=PLAIN, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.unoptimized
def test_masks_of_all_trips_at_once_are_those_of_each_trip(reverse: bool) -> None:
    with br.Program() as prog:
        xs = br.data("xs", ["t", 3, WIDTH])
        w, u = (br.parameter(n, [WIDTH, WIDTH]) for n in "wu")
        rnn = br.create_rnn(reverse=reverse)
        with rnn.stepnet() as net:
            h, x = net.add_memory(shape=[3, WIDTH]), net.add_input(xs)
            inner = br.create_rnn()
            with inner.stepnet() as deep:
                k = deep.add_memory(shape=[WIDTH])
                part = br.dropout(deep.add_input(x), rate=0.5)
                k.update(br.tanh(part @ w + k @ u))
                deep.add_output(part)
                deep.add_output(k.pre(1))
            part, rows = inner()
            kept = br.dropout(x, rate=0.5)
            h.update(br.tanh(kept @ w + h @ u + rows))
            net.add_output(part)
            net.add_output(kept)
        slope = br.gradients(br.sum(rnn.final(h)), [xs, w])
        curved = br.gradients(br.sum(br.sin(slope[0])), [w])
    wanted = [*rnn(), *slope, *curved]
    found = all_ops(prog.explain(fetch=wanted[:2]).program.main)
    assert sorted(path for path, op in found if op.type == "dropout") == ["", ""]
    feeds = fed("xs", (0, 1, 4), 3, WIDTH, dtype="float32")
    as_written = ran(prog, wanted, feeds, passes=PLAIN)
    for mode in MODES:
        found = ran(prog, wanted, feeds, mode=mode, passes=br.passes.default)
        for run, other in zip(found, as_written, strict=True):
            for one, two in zip(run[:2], other[:2], strict=True):
                np.testing.assert_array_equal(one, two)
            for one, two in zip(run[2:], other[2:], strict=True):
                np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.unoptimized
def test_draws_of_all_trips_at_once_are_those_of_each_trip(reverse: bool) -> None:
    with br.Program() as prog:
        xs, h0 = br.data("xs", ["t", 3, WIDTH]), br.data("h0", [3, WIDTH])
        w, u = (br.parameter(n, [WIDTH, WIDTH]) for n in "wu")
        rnn = br.create_rnn(reverse=reverse)
        with rnn.stepnet() as net:
            h, x = net.add_memory(init=h0), net.add_input(xs)
            inner = br.create_rnn()
            with inner.stepnet() as deep:
                k, row = deep.add_memory(shape=[WIDTH]), deep.add_input(x)
                noise = br.random.truncated_normal([WIDTH])
                k.update(br.tanh(row * noise + k @ u))
                deep.add_output(k.pre(1))
                deep.add_output(noise)
            rows, noise = inner()
            shaken = br.random.permutation(x, axis=1) * br.random.uniform([3, 1])
            chosen = br.one_hot(br.random.categorical(x, axis=0) + 1, WIDTH)
            kept = br.cast(br.random.bernoulli([3, WIDTH], 0.7), "float32")
            h.update(br.tanh(kept * shaken @ w + h @ u + rows + br.sum(chosen, axis=0)))
            sampled = br.random.categorical(h.pre() @ w)
            for drawn in (noise, shaken, kept, br.random.randint([2], 0, 9), chosen, sampled):
                net.add_output(drawn)
        *drawn, sampled = rnn()
        slope = br.gradients(br.sum(rnn.final(h)), [xs, w])
        curved = br.gradients(br.sum(br.sin(slope[0])), [w])
    wanted = [*drawn, sampled, *slope, *curved]
    left = all_ops(prog.explain(fetch=wanted).program.main)
    assert [path for path, op in left if op.type.startswith("random") and path] == []
    feeds = fed("xs", (0, 1, 4), 3, WIDTH, dtype="float32")
    for feed in feeds:
        feed["h0"] = np.random.default_rng(9).normal(size=(3, WIDTH)).astype("float32")
    as_written = ran(prog, wanted, feeds, passes=PLAIN)
    for mode in MODES:
        found = ran(prog, wanted, feeds, mode=mode, passes=br.passes.default)
        for run, other in zip(found, as_written, strict=True):
            for one, two in zip(run[: len(drawn)], other, strict=False):
                np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-6)
            for one, two in zip(run, other, strict=True):
                np.testing.assert_allclose(one, two, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("cell", CELLS)
def test_no_weight_is_transposed_in_a_loop(cell: str) -> None:
    prog, fetch = tagger(cell, order=1)
    found = all_ops(prog.explain(fetch=fetch).program.main)
    assert [path for path, op in found if path and op.type == "matrix_transpose"] == []


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("lstm", 2),
        ("gates", 2),
        ("boxed", 2),
        ("put together", 2),
        ("peephole", 2),
        ("gru", 5),
        ("two layers", 5),
    ],
)
def test_however_a_cell_is_written_as_many_products_are_left(cell: str, left: int) -> None:
    assert products(*tagger(cell, order=1)) == left


def test_a_product_of_what_is_put_together_leaves_only_the_memory_in_the_loop() -> None:
    prog, fetch = tagger("put together", order=1)
    main = prog.explain(fetch=fetch).program.main
    shapes = [
        tuple(body.vars[name].type.shape for name in op.binds())
        for body, _ in all_bodies(main)
        if body is not main
        for op in body.ops
        if op.type == "matmul"
    ]
    assert [[*map(str, shape)] for (shape,) in shapes] == [["b", "16"], ["b", "4"]]
