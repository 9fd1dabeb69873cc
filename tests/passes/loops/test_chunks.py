"""Chunks of iterations, if all iterations at once would exceed the memory limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import Body, all_ops
from braces.target import CPU
from tests.passes.loops.test_over_trips import MODES, PLAIN, ROWS, values
from tests.support.rnn_cells import close, ran, tagger

Limit = Callable[[int], None]


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Limit:
    """Sets how many bytes may be computed for all trips at once."""

    def set_it(size_bytes: int) -> None:
        monkeypatch.setattr(
            "braces.target.TARGETS", {"cpu": replace(CPU, stacked_bytes=size_bytes)}
        )

    return set_it


def loops(body: Body) -> int:
    return sum(op.type == "loop" for _, op in all_ops(body))


def planned(prog: br.Program, fetch: Any, trips: int) -> Body:
    sizes = {"t": trips, "b": ROWS}
    return prog.explain(fetch=fetch, sizes=sizes).program.main


@pytest.mark.parametrize(
    ("cell", "lengths"), [("simple", (0, 1, 16, 19)), ("lstm", (19,)), ("attention", (19,))]
)
@pytest.mark.unoptimized
def test_chunks_give_the_values_and_gradients_of_the_loop(
    cell: str, lengths: tuple[int, ...], limit: Limit
) -> None:
    prog, wanted = tagger(cell, order=2)
    whole = loops(planned(prog, wanted, 19))
    limit(2**12)
    assert loops(planned(prog, wanted, 19)) > whole
    feeds = [values(trips) for trips in lengths]
    as_written = ran(prog, wanted, feeds, mode="interpret")
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.unoptimized
def test_chunks_count_as_the_loop_does(reverse: bool, limit: Limit) -> None:
    prog, wanted = tagger("lstm", order=1, reverse=reverse)
    limit(2**12)
    feeds = [values(trips) for trips in (32, 37)]
    as_written = ran(prog, wanted, feeds, passes=PLAIN)
    for mode in MODES:
        close(ran(prog, wanted, feeds, mode=mode, passes=br.passes.default), as_written)


@pytest.mark.parametrize("trips", [32, 35])
@pytest.mark.unoptimized
def test_sizes_that_are_declared_have_chunks_too(trips: int, limit: Limit) -> None:
    with br.Program() as prog:
        xs = br.data("xs", [trips, ROWS, 4], dtype="float64")
        w, u = (br.parameter(n, [4, 4], dtype="float64") for n in "wu")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([ROWS, 4], dtype="float64"))
            kept = br.dropout(net.add_input(xs), 0.5)
            h.update(br.tanh(kept @ w + h))
            net.add_output(br.logsumexp(h.pre(1) @ u, axis=-1))
        slopes = br.gradients(br.sum(rnn()), [w, u, xs])
    wanted = [rnn(), rnn.final(h), *slopes]
    feed = {"xs": np.random.default_rng(0).normal(size=(trips, ROWS, 4))}
    limit(2**12)
    assert loops(prog.explain(fetch=wanted).program.main) > 2
    for mode in MODES:
        made, as_written = (
            ran(prog, wanted, [feed], mode=mode, passes=passes)
            for passes in (br.passes.default, PLAIN)
        )
        close(made, as_written)


@pytest.mark.parametrize("trained", [False, True])
def test_what_is_large_never_exists_for_all_trips(trained: bool, limit: Limit) -> None:
    classes, trips, rows = 4096, 64, 8
    with br.Program() as prog:
        xs, labels = br.data("xs", ["t", "b", 16]), br.data("labels", ["t", "b"], dtype="int32")
        w, u, c = (
            br.parameter(n, s)
            for n, s in (("w", [16, 16]), ("u", [16, classes]), ("c", [classes]))
        )
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(init=br.zeros([xs.shape[1], 16]))
            h.update(br.tanh(net.add_input(xs) + h @ w))
            losses = br.softmax_cross_entropy(
                h.pre(1) @ u + c, net.add_input(labels), reduction="none"
            )
            net.add_output(losses)
        wanted = [br.mean(rnn())]
        wanted += br.gradients(wanted[0], [w, u, c]) if trained else []
    rng = np.random.default_rng(0)
    feed = {
        "xs": rng.normal(size=(trips, rows, 16)).astype("float32"),
        "labels": rng.integers(0, classes, (trips, rows)).astype("int32"),
    }
    whole = 4 * trips * rows * classes
    limit(whole // 8)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=1)
    found = exe.run(prog, scope, feed, fetch=wanted)
    (code,) = [
        one for p in exe._plans.by_program[prog][1].values() for one in p.executables.values()
    ]
    assert code.code.memory_analysis().temp_size_in_bytes < whole // 4
    as_written = br.Executor(passes=PLAIN).run(prog, scope, feed, fetch=wanted)
    for one, other in zip(found, as_written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_plans_are_by_the_number_of_trips_that_fit(limit: Limit) -> None:
    prog, wanted = tagger("simple", order=1)
    limit(2**12)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=1)
    for trips in (1, 60, 61, 70, 64, 1, 80):
        exe.run(prog, scope, feed=values(trips), fetch=wanted)
    assert len(exe._plans.by_program[prog][1]) == 2
