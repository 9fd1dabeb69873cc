"""A program with loops and branches to profile, and the rules of trace files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import braces as br

TRIPS, STEPS, ROWS, WIDTH = 3, 5, 16, 64


def nested() -> tuple[br.Program, br.Var, dict[str, Any]]:
    """An RNN with a row-wise branch in a while, a plain block, and an optimizer."""
    with br.Program() as prog:
        given = br.data("x", ["t", "b", WIDTH])
        mask = br.data("mask", ["b"], dtype="bool")
        w = br.parameter("w", [WIDTH, WIDTH])
        loop = br.create_while()
        with loop.block() as outer:
            i = outer.add_memory(init=br.constant(0, dtype="int32"))
            carried = outer.add_memory(init=br.zeros([mask.shape[0], WIDTH]))
            outer.set_condition(i < TRIPS)
            rnn = br.create_rnn()
            with rnn.stepnet() as step:
                x = step.add_input(given)
                memory = step.add_memory(init=carried)
                branch = br.create_if_else(mask)
                with branch.true_block() as yes:
                    yes.add_output(br.tanh(yes.add_input(x), name="squash"))
                with branch.false_block() as no:
                    no.add_output(no.add_input(x) * 0.5)
                mixed = br.matmul(memory, w, name="mix")
                memory.update(br.sin(mixed + branch(), name="wave"))
            carried.update(rnn.final(memory))
            i.update(i + 1)
        with br.block("head"):
            out = br.fc(loop.final(carried), 4, name="q")
        loss = br.mean(out * out, name="loss")
        br.optimizer.sgd(learning_rate=0.01).minimize(loss, parameters=["head/q.w"])
    random = np.random.default_rng(0)
    feed = {
        "x": random.normal(size=(STEPS, ROWS, WIDTH)).astype("f4"),
        "mask": np.arange(ROWS) % 2 == 0,
    }
    return prog, loss, feed


def check_trace(trace: Any) -> None:
    """The rules of Chrome's trace events, as far as they are used, and that spans nest."""
    assert set(trace) == {"traceEvents", "displayTimeUnit"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events = trace["traceEvents"]
    for event in events:
        assert isinstance(event["name"], str)
        assert event["ph"] in ("X", "M", "C")
        assert type(event["pid"]) is int
        assert isinstance(event["args"], dict)
        if event["ph"] in "XC":
            assert isinstance(event["ts"], int | float)
            assert event["ts"] >= 0
    for event in complete(events):
        assert type(event["tid"]) is int
        assert event["dur"] >= 0
    _check_names(events)
    _check_nesting(events)


def complete(events: Any) -> Iterator[Any]:
    """The events that have a duration."""
    return (event for event in events if event["ph"] == "X")


def tracks(events: Any) -> dict[str, list[Any]]:
    """The events that have a duration, by the name of their track."""
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return {
        name: [event for event in complete(events) if event["tid"] == number]
        for number, name in names.items()
    }


def _check_names(events: Any) -> None:
    told = [event for event in events if event["ph"] == "M"]
    assert [event["name"] for event in told].count("process_name") == 1
    named = {event["tid"] for event in told if event["name"] == "thread_name"}
    assert {event["tid"] for event in complete(events)} == named
    assert {e["args"].keys() == {"bytes"} for e in events if e["ph"] == "C"} <= {True}


def _check_nesting(events: Any) -> None:
    """On one track, each span lies beside another or within it; a nanosecond is rounded."""
    for several in tracks(events).values():
        ends = list[float]()
        for event in sorted(several, key=lambda one: (one["ts"], -one["dur"])):
            end = event["ts"] + event["dur"]
            while ends and ends[-1] <= event["ts"] + 0.002:
                ends.pop()
            assert not ends or end <= ends[-1] + 0.002, event
            ends.append(end)
