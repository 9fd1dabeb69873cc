"""Probes and patches of a recurrent network beside the program with the output declared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import braces as br
from benchmarks.case import Case, Comparison, Goal, clocked

TITLE = "probes and patches of inner values"
WIDTH, BATCH = 64, 16
PROBE_GOAL = Goal(ratio=1.05)


def cases(tiny: bool) -> list[Case]:
    """A forward run and a training step, without and with lengths; then a patch."""
    trips = 8 if tiny else 200
    built = [
        probe_case(trips, trained=trained, ragged=ragged, tiny=tiny)
        for trained in (False, True)
        for ragged in (False, True)
    ]
    return [*built, patch_case(trips, tiny=tiny)]


def probe_case(trips: int, *, trained: bool, ragged: bool, tiny: bool) -> Case:
    """Compare the fetch of a path with that of a declared output."""
    inner, declared = (
        runner(trips, trained=trained, ragged=ragged, declared=out) for out in (False, True)
    )
    return Case(
        what=f"{'training step' if trained else 'forward run'} of {trips} iterations"
        f"{' with lengths' if ragged else ''}",
        sides={"probe": clocked(inner), "declared output": clocked(declared)},
        comparisons=[Comparison("probe", "declared output", PROBE_GOAL)],
        agree=partial(check_values, inner, declared),
        rounds=1 if tiny else 0,
        family="probe",
    )


def patch_case(trips: int, *, tiny: bool) -> Case:
    """Compare a run that replaces one iteration, each time another one, with a plain run."""
    prog, path, _ = build(trips, trained=False, ragged=False, declared=False)
    exe = br.Executor()
    scope, feed, step = exe.init(prog), feed_of(trips, ragged=False), iter(range(10**9))

    def patched() -> Any:
        patch = {path: br.patch(0.0, trips=next(step) % trips)}
        return exe.run(prog, scope, feed, "loss", patch=patch)

    def plain() -> Any:
        return exe.run(prog, scope, feed, "loss")

    return Case(
        what=f"sweep over {trips} iterations, one replaced in each run",
        sides={"patch": clocked(patched), "plain run": clocked(plain)},
        comparisons=[Comparison("patch", "plain run")],
        agree=lambda: check_compilations(exe, patched),
        rounds=1 if tiny else 0,
        family="patch",
    )


def runner(
    trips: int, *, trained: bool, ragged: bool, declared: bool
) -> Callable[[], list[Any]]:
    """Return a run that fetches the loss and the hidden values."""
    prog, path, output = build(trips, trained=trained, ragged=ragged, declared=declared)
    exe = br.Executor()
    scope, feed = exe.init(prog), feed_of(trips, ragged=ragged)
    fetch = ["loss", output if declared else path]
    return lambda: exe.run(prog, scope, feed, fetch)


def build(
    trips: int, *, trained: bool, ragged: bool, declared: bool
) -> tuple[br.Program, str, str]:
    """Build the network; return the path of its hidden value and the name of the output."""
    with br.Program() as prog:
        x = br.data("x", [trips, BATCH, WIDTH])
        lengths = br.data("lengths", [BATCH], "int32") if ragged else None
        w = br.parameter("w", [WIDTH, WIDTH], init=br.init.normal(0.1))
        rnn = br.create_rnn(lengths=lengths)
        with rnn.stepnet() as step:
            row = step.add_input(x)
            h = step.add_memory(shape=[WIDTH], batch_like=x, batch_axis=1)
            act = br.tanh(row + h.pre(1) @ w, name="act")
            h.update(act)
            if declared:
                step.add_output(act)
        loss = br.mean(br.square(rnn.final(h)), name="loss")
        output = rnn().name if declared else ""
        if trained:
            br.optimizer.sgd(1e-3).minimize(loss)
    return prog, prog.find(name="*/act", kind="variables")[0].path, output


def feed_of(trips: int, *, ragged: bool) -> dict[str, Any]:
    """Return random inputs, and lengths from 1 to all iterations."""
    rng = np.random.default_rng(0)
    feed: dict[str, Any] = {"x": rng.normal(size=(trips, BATCH, WIDTH)).astype("float32")}
    return feed | ({"lengths": rng.integers(1, trips + 1, BATCH, "int32")} if ragged else {})


def check_values(probe: Callable[[], list[Any]], declared: Callable[[], list[Any]]) -> None:
    """Check that both have the same hidden values."""
    (_, hidden), (_, expected) = probe(), declared()
    np.testing.assert_allclose(hidden, expected, 1e-4, 1e-5)


def check_compilations(exe: br.Executor, run: Callable[[], Any]) -> None:
    """Check that runs with other iterations compile nothing."""
    run()
    count = exe.stats.compilations
    run()
    assert exe.stats.compilations == count
