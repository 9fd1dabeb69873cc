"""What loop passes make of loops changes no value and no gradient of any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.ir.walk import all_bodies, all_ops

ROWS, WIDTH, CLASSES = 3, 4, 5
MODES = ("compile", "interpret")
PLAIN = (br.passes.eliminate,)

Cell = Callable[[Any, Sequence[Any], Callable[..., Any]], tuple[Any, ...]]
"""From the step's input, the memories, and what gives parameters, to the next memories."""


def simple(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    (h,) = memories
    return (br.tanh(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) + p(WIDTH)),)


def lstm(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    h, c = memories
    gates = x @ p(WIDTH, 4 * WIDTH) + h @ p(WIDTH, 4 * WIDTH) + p(4 * WIDTH)
    i, f, o, u = br.split(gates, 4, axis=-1)
    after = br.sigmoid(f) * c + br.sigmoid(i) * br.tanh(u)
    return br.sigmoid(o) * br.tanh(after), after


def gates(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """An LSTM whose gates are written one by one."""
    h, c = memories

    def gate() -> Any:
        return x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) + p(WIDTH)

    after = br.sigmoid(gate()) * c + br.sigmoid(gate()) * br.tanh(gate())
    return br.sigmoid(gate()) * br.tanh(after), after


def put_together(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """An LSTM with one weight for all, whose input and memory are put together before."""
    h, c = memories
    gates = br.concat([x, h], axis=-1) @ p(2 * WIDTH, 4 * WIDTH) + p(4 * WIDTH)
    i, f, o, u = br.split(gates, 4, axis=-1)
    after = br.sigmoid(f) * c + br.sigmoid(i) * br.tanh(u)
    return br.sigmoid(o) * br.tanh(after), after


def two_layers(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """Gates of a memory and of what the layer below gives, both of the same trip."""
    h, low = memories
    low = br.tanh(x @ p(WIDTH, WIDTH) + low @ p(WIDTH, WIDTH))
    one, two, three = (low @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) for _ in range(3))
    return br.tanh(one) * br.sigmoid(two) + three, low


def peephole(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    h, c = memories

    def gate(seen: Any) -> Any:
        return br.sigmoid(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH) + seen * p(WIDTH))

    after = gate(c) * c + gate(c) * br.tanh(x @ p(WIDTH, WIDTH))
    return gate(after) * br.tanh(after), after


def gru(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    (h,) = memories
    reset = br.sigmoid(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH))
    update = br.sigmoid(x @ p(WIDTH, WIDTH) + h @ p(WIDTH, WIDTH))
    new = br.tanh(x @ p(WIDTH, WIDTH) + (reset * h) @ p(WIDTH, WIDTH))
    return (update * h + (1.0 - update) * new,)


def highway(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """One weight twice in a step, and a product of weights, which is the same on each trip."""
    (h,) = memories
    w = br.tanh(p(WIDTH, WIDTH) @ p(WIDTH, WIDTH))
    for _ in range(2):
        gate = br.sigmoid(h @ w + x)
        h = gate * br.tanh(h @ w) + (1.0 - gate) * h
    return (h,)


def attention(x: Any, memories: Sequence[Any], p: Callable[..., Any]) -> tuple[Any, ...]:
    """The memory looks at keys that do not change."""
    (h,) = memories
    keys = br.tanh(p(6, WIDTH))
    looked = br.softmax((h @ p(WIDTH, WIDTH)) @ br.matrix_transpose(keys), axis=-1) @ keys
    return (br.tanh(x @ p(WIDTH, WIDTH) + looked),)


CELLS: dict[str, tuple[Cell, int]] = {
    "simple": (simple, 1),
    "lstm": (lstm, 2),
    "gates": (gates, 2),
    "put together": (put_together, 2),
    "two layers": (two_layers, 2),
    "peephole": (peephole, 2),
    "gru": (gru, 1),
    "highway": (highway, 1),
    "attention": (attention, 1),
}


def built(cell: str, order: int, reverse: bool = False) -> tuple[br.Program, list[Any]]:
    """A tagger with everything in the step: ids in, losses out; the loss and derivatives."""
    step, memories = CELLS[cell]
    parameters = list[Any]()

    def parameter(*shape: int) -> Any:
        parameters.append(br.parameter(f"p{len(parameters)}", shape, dtype="float64"))
        return parameters[-1]

    with br.Program() as prog:
        ids, labels = (br.data(n, ["t", "b"], dtype="int32") for n in ("ids", "labels"))
        table = parameter(9, WIDTH)
        rnn = br.create_rnn(reverse=reverse)
        with rnn.stepnet() as net:
            x = br.embedding(net.add_input(ids), table)
            kept = [
                net.add_memory(init=br.zeros([ids.shape[1], WIDTH], dtype="float64"))
                for _ in range(memories)
            ]
            nexts = step(x, kept, parameter)
            for memory, after in zip(kept, nexts, strict=True):
                memory.update(after)
            logits = nexts[0] @ parameter(WIDTH, CLASSES) + parameter(CLASSES)
            net.add_output(br.softmax_cross_entropy(logits, net.add_input(labels)))
        loss = br.sum(rnn())
        wanted = [loss, *br.gradients(loss, parameters)]
        if order == 2:
            curved = sum((br.sum(br.sin(g)) for g in wanted[1:]), start=br.sum(br.sin(loss)))
            wanted += br.gradients(curved, parameters)
    return prog, wanted


def values(trips: int) -> dict[str, Any]:
    rng = np.random.default_rng(trips)
    ids, labels = rng.integers(0, 9, (trips, ROWS)), rng.integers(0, CLASSES, (trips, ROWS))
    return {"ids": ids.astype("int32"), "labels": labels.astype("int32")}


def run(
    prog: br.Program, fetch: Any, trips: int, feed: Any = None, **options: Any
) -> list[Any]:
    exe, scope = br.Executor(**options), br.Scope()
    exe.init(prog, scope, seed=1)
    return exe.run(prog, scope, feed=feed or values(trips), fetch=fetch)


def close(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def products(prog: br.Program, fetch: Any, passes: Any = br.passes.default) -> int:
    """How many products of matrices are left in loops."""
    found = all_ops(prog.explain(fetch=fetch, passes=passes).program.main)
    return sum(op.type in ("matmul", "einsum") for path, op in found if path)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.unoptimized
def test_values_and_gradients_are_those_of_the_loops_as_written(cell: str) -> None:
    prog, wanted = built(cell, order=2)
    for trips in (0, 1, 4):
        as_written = run(prog, wanted, trips, mode="interpret")
        for mode in MODES:
            close(run(prog, wanted, trips, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.parametrize("cell", ["lstm", "highway"])
def test_a_loop_that_counts_down_is_no_other(cell: str) -> None:
    prog, wanted = built(cell, order=1, reverse=True)
    as_written = run(prog, wanted, 4, passes=PLAIN)
    close(run(prog, wanted, 4), as_written)


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
    passes = (br.passes.batch, br.passes.defer, br.passes.eliminate)
    assert products(*built(cell, order=1), passes) == 2 * recurrent


@pytest.mark.parametrize("reverse", [False, True])
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
            net.add_output(h * before)
        slope = br.gradients(br.sum(rnn()), [w, u, xs])
        curved = br.gradients(br.sum(br.sin(slope[0])), [w, xs])
    wanted = [rnn(), *slope, *curved]
    assert products(prog, wanted[:1], PLAIN) == 2
    assert products(prog, wanted[:1], br.passes.default) == 1
    for trips in (0, 1, 2, 5):
        feed = {"xs": np.random.default_rng(trips).normal(size=(trips, ROWS, WIDTH))}
        as_written, cut = (
            run(prog, wanted, trips, feed=feed, passes=passes)
            for passes in (PLAIN, br.passes.default)
        )
        close(cut, as_written)


@pytest.mark.parametrize("cell", CELLS)
def test_no_weight_is_transposed_in_a_loop(cell: str) -> None:
    prog, fetch = built(cell, order=1)
    found = all_ops(prog.explain(fetch=fetch).program.main)
    assert [path for path, op in found if path and op.type == "matrix_transpose"] == []


@pytest.mark.parametrize(
    ("cell", "left"),
    [
        ("lstm", 2),
        ("gates", 2),
        ("put together", 2),
        ("peephole", 2),
        ("gru", 5),
        ("two layers", 5),
    ],
)
def test_however_a_cell_is_written_as_many_products_are_left(cell: str, left: int) -> None:
    assert products(*built(cell, order=1)) == left


def test_a_product_of_what_is_put_together_leaves_only_the_memory_in_the_loop() -> None:
    prog, fetch = built("put together", order=1)
    main = prog.explain(fetch=fetch).program.main
    shapes = [
        tuple(body.vars[name].type.shape for name in op.binds())
        for body, _ in all_bodies(main)
        if body is not main
        for op in body.ops
        if op.type == "matmul"
    ]
    assert [[*map(str, shape)] for (shape,) in shapes] == [["b", "16"], ["b", "4"]]
