"""Direct runs: the same results, errors and counts as `Executor.run`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError
from braces.runtime.direct_run import DirectRun


def layer(**options: Any) -> tuple[br.Program, br.Scope, br.Executor, str]:
    with br.Program() as prog:
        y = br.fc(br.data("x", ["n", 3]), 2, name="fc")
    exe = br.Executor(**options)
    return prog, exe.init(prog), exe, y.name


def rows(count: int) -> dict[str, Any]:
    return {"x": np.arange(3.0 * count, dtype=np.float32).reshape(count, 3)}


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_results_are_those_of_a_run(mode: str) -> None:
    prog, scope, exe, y = layer(mode=mode)
    run = DirectRun(exe, prog, scope, {"y": y})
    for count in (1, 2, 1, 0, 2, 1):
        np.testing.assert_array_equal(
            run(rows(count))["y"], exe.run(prog, scope, rows(count), y), strict=True
        )


def test_a_known_run_calls_the_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    prog, scope, exe, y = layer()
    run = DirectRun(exe, prog, scope, {"y": y})
    expected, runs = run(rows(2))["y"], exe.stats.runs
    monkeypatch.setattr(exe, "run", None)
    np.testing.assert_array_equal(run(rows(2))["y"], expected)
    assert exe.stats.runs == runs + 1


def test_new_values_types_and_programs_are_seen() -> None:
    prog, scope, exe, y = layer()
    run = DirectRun(exe, prog, scope, {"y": y})
    before = run(rows(1))["y"]
    scope.var("fc.w").set(np.zeros((3, 2), np.float32))
    scope.var("fc.b").set(np.ones(2, np.float32))
    for _ in range(3):
        np.testing.assert_array_equal(run(rows(1))["y"], np.ones((1, 2)))
    assert not np.array_equal(before, np.ones((1, 2)))
    scope.var("fc.w").set(np.zeros((3, 2), np.float64))
    with pytest.raises(BracesError, match=r"fc\.w"):
        run(rows(1))
    with prog:
        br.exp(br.data("unused", []))
    scope.var("fc.w").set(np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(run(rows(1))["y"], np.ones((1, 2)))
    exe.clear()
    np.testing.assert_array_equal(run(rows(1))["y"], np.ones((1, 2)))


def test_invalid_feeds_are_errors_as_of_a_run() -> None:
    prog, scope, exe, y = layer()
    run = DirectRun(exe, prog, scope, {"y": y})
    run(rows(1))
    feeds: list[Any] = [
        {},
        {"z": rows(1)["x"]},
        rows(1) | {"z": 1.0},
        {"x": "text"},
        {"x": [1.0]},
    ]
    for feed in feeds:
        with pytest.raises(BracesError) as expected:
            exe.run(prog, scope, feed, y)
        with pytest.raises(type(expected.value)) as caught:
            run(feed)
        assert str(caught.value).partition("\n")[0] == str(expected.value).partition("\n")[0]
    lists = run({"x": [[1.0, 2.0, 3.0]]})["y"]
    np.testing.assert_array_equal(lists, run({"x": np.float32([[1, 2, 3]])})["y"])


def test_checks_updates_and_random_numbers_are_kept() -> None:
    with br.Program() as prog:
        index = br.data("index", ["n"], dtype="int32")
        picked = br.take(br.constant(np.arange(4.0, dtype="float32")), index)
        noise = picked + br.random.normal([4])[:1]
    exe = br.Executor()
    scope = exe.init(prog)
    run = DirectRun(exe, prog, scope, {"picked": picked.name})
    for _ in range(3):
        assert run({"index": np.int32([3])})["picked"].tolist() == [3.0]
        with pytest.raises(br.IndexRangeError):
            run({"index": np.int32([7])})
    draw = DirectRun(exe, prog, scope, {"noise": noise.name})
    assert len({float(draw({"index": np.int32([3])})["noise"][0]) for _ in range(4)}) == 4


def test_a_missing_value_is_an_error() -> None:
    prog, _, exe, y = layer()
    with pytest.raises(br.UninitializedError):
        DirectRun(exe, prog, br.Scope(), {"y": y})(rows(1))
