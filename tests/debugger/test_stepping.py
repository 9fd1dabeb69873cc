"""Steps, breakpoints and ends of runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.debugger.session import DebugSession
from tests.debugger.programs import (
    NAN_FEED,
    NESTED_FEED,
    branches,
    branches_feed,
    halving,
    nan_in_loop,
    nested,
)


@pytest.fixture
def started() -> Iterator[Any]:
    """Start a session that stops before the first operator."""
    sessions = list[DebugSession]()

    def start(prog: br.Program, feed: dict[str, Any], **options: Any) -> DebugSession:
        scope = br.Executor().init(prog, br.Scope())
        sessions.append(DebugSession(prog, scope, feed, **options))
        if options.get("paused", True):
            assert sessions[-1].controller.wait().reason == "before the first operator"
        return sessions[-1]

    yield start
    for session in sessions:
        session.close()


def test_steps_go_into_blocks_over_them_and_out(started: Any) -> None:
    session = started(nested(), NESTED_FEED)
    inner = "loop_1/body[0]/loop_0/body"
    places = [session.position]
    for command in ("step", "step", "step", "step", "over", "over", "out", "out"):
        session.go(command)
        places.append(session.position)
    assert places == [
        "",
        "full_0",
        f"{inner}[0]/constant_0",
        f"{inner}[0]/multiply_0",
        f"{inner}[0]/s",
        f"{inner}[1]/constant_0",
        f"{inner}[1]/multiply_0",
        "loop_1/body[0]/loop_0",
        "loop_1",
    ]
    assert session.go("over").state == "paused"
    assert session.position == "y"
    assert session.go("out").state == "finished"
    assert session.results["y"] == 57.0


def test_a_step_over_a_loop_runs_all_of_it(started: Any) -> None:
    session = started(nested(), NESTED_FEED)
    session.go("over")
    session.go("over")
    assert session.position == "loop_1"
    assert len(session.recording.measures("loop_1/body/loop_0/body/s")) == 6


def test_run_to_stops_at_each_run_of_an_operator(started: Any) -> None:
    session = started(nested(), NESTED_FEED)
    places = []
    for _ in range(3):
        session.go("run_to", "loop_1/body/h")
        places.append(session.position)
    assert places == ["loop_1/body[0]/h", "loop_1/body[1]/h", ""]
    with pytest.raises(br.UnknownNameError, match="loop_1/body/h"):
        session.go("run_to", "h")
    with pytest.raises(br.RunError, match="unknown command"):
        session.go("jump")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loop_1/body/loop_0/body/s if max > 10", "loop_1/body[1]/loop_0/body[0]/s"),
        ("loop_1/body/loop_0/body/s if iteration == 2", "loop_1/body[0]/loop_0/body[2]/s"),
        (
            "loop_1/body/loop_0/body/s if iteration(loop_1) == 1",
            "loop_1/body[1]/loop_0/body[0]/s",
        ),
        ("if value == 57", "loop_1/body[1]/loop_0/body[2]/s"),
        ("y", "y"),
    ],
)
def test_conditional_breakpoints(started: Any, text: str, expected: str) -> None:
    session = started(nested(), NESTED_FEED, breakpoints=[text])
    assert session.go("continue").reason == f"breakpoint 1: {text}"
    assert session.position == expected
    assert session.breakpoints.all()[0].hits == 1


def test_a_breakpoint_stops_at_the_first_nan(started: Any) -> None:
    session = started(nan_in_loop(), NAN_FEED, breakpoints="if nan")
    session.go("continue")
    assert session.position == "loop_0/body[2]/logarithm"
    assert session.recording.first_nan_path == session.position


def test_breakpoints_change_during_a_run(started: Any) -> None:
    session = started(nested(), NESTED_FEED)
    added = session.stop_at("loop_1/body/h")
    session.go("continue")
    assert session.position == "loop_1/body[0]/h"
    session.breakpoints.remove(added.number)
    assert session.go("continue").state == "finished"


def test_branches_and_while_loops_are_entered(started: Any) -> None:
    session = started(
        branches(), branches_feed(), breakpoints=["loop_0/body/switch_0/cases[0]/sine"]
    )
    session.go("continue")
    assert session.position == "loop_0/body[0]/switch_0/cases[0]/sine"
    session = started(halving(), {"x": 5.0}, breakpoints=["loop_0/body/half if value < 1"])
    session.go("continue")
    assert session.position == "loop_0/body[2]/half"


def test_a_run_starts_again_with_the_same_inputs(started: Any) -> None:
    session = started(nested(), NESTED_FEED, breakpoints=["loop_1/body/h"])
    session.go("continue")
    first = session.recording
    session.restart()
    assert session.generation == 2
    assert session.recording is not first
    session.go("continue")
    assert session.position == "loop_1/body[0]/h"
    assert session.finish().results["y"] == 57.0


def test_later_edits_of_the_program_do_not_matter(started: Any) -> None:
    prog = nested()
    session = started(prog, NESTED_FEED)
    with prog:
        br.tanh(prog.var("y"), name="later")
    session.restart()
    assert "later" not in session.finish().results


def test_a_paused_run_is_cancelled() -> None:
    session = DebugSession(nested(), None, NESTED_FEED)
    session.controller.wait()
    begin = time.monotonic()
    session.close()
    assert time.monotonic() - begin < 1.5
    assert session.status.state == "ended"
    with pytest.raises(br.RunError, match="the session is closed"):
        session.restart()
    assert not [
        t for t in threading.enumerate() if t.name == "braces-debugger" and t.is_alive()
    ]


def test_a_long_run_is_paused_and_cancelled(started: Any) -> None:
    with br.Program() as prog:
        x = br.data("x", [])
        br.while_loop(lambda v: v < 1e9, lambda v: v + 1.0, x)
    session = started(prog, {"x": 0.0}, paused=False)
    session.controller.pause()
    assert session.controller.wait(20).state == "paused"
    session.go("step")
    session.controller.go("continue")
    assert session.status.state == "running"
    session.close()
    assert session.status.state == "ended"


def test_other_runs_are_possible_while_one_is_paused(started: Any) -> None:
    prog = branches()
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope)
    session = DebugSession(prog, scope, branches_feed())
    session.controller.wait()
    loss = exe.run(prog, scope, branches_feed(), fetch="loss")
    assert np.isfinite(loss)
    assert np.isfinite(session.finish().recording.value("loss"))


def test_random_draws_are_those_of_the_seed(started: Any) -> None:
    with br.Program() as prog:
        br.random.normal([4], name="noise")
    first = started(prog, {}, seed=3, fetch="noise").finish().results["noise"]
    again = started(prog, {}, seed=3, fetch="noise").finish().results["noise"]
    np.testing.assert_array_equal(first, again)


# ---- bad input ----


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"feed": {}}, br.FeedError, "missing feeds: `x`"),
        ({"feed": {"x": np.zeros(3, "float32")}}, br.BracesError, "x"),
        ({"feed": {**NESTED_FEED, "z": 1}}, br.FeedError, "unknown data `z`"),
        ({"feed": NESTED_FEED, "fetch": "nothing"}, br.UnknownNameError, "nothing"),
        ({"feed": NESTED_FEED, "breakpoints": ["nope"]}, br.UnknownNameError, "nope"),
        ({"feed": NESTED_FEED, "breakpoints": ["y if max >"]}, br.ProgramError, "condition"),
    ],
)
def test_bad_input_is_refused_before_the_run(
    arguments: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as caught:
        nested().debug(serve=False, **arguments)
    assert words in str(caught.value)


def test_missing_parameters_are_refused_before_the_run() -> None:
    with pytest.raises(br.UninitializedError, match="w"):
        branches().debug(br.Scope(), branches_feed(), serve=False)
