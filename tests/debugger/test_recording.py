"""Recordings: measures per iteration and branch, order of time, bounds of memory."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.debugger.recorded.measures import Measure, histogram, measure, portable
from tests.debugger.programs import (
    NAN_FEED,
    NESTED_FEED,
    branches,
    branches_feed,
    halving,
    nan_in_loop,
    nested,
    run,
)


def test_every_iteration_of_nested_loops_has_a_value_in_order_of_time() -> None:
    recording = run(nested(), NESTED_FEED).recording
    measures = recording.measures("loop_1/body/loop_0/body/s")
    assert [path for path, _ in measures] == [
        f"loop_1/body[{i}]/loop_0/body[{j}]/s" for i in range(2) for j in range(3)
    ]
    assert [one.mean for _, one in measures] == [0.0, 1.0, 4.0, 11.0, 26.0, 57.0]
    assert recording.value("loop_1/body/h", 0) == 4.0
    assert recording.value("y") == 57.0
    times = recording.series(recording.sites.variable("loop_1/body/loop_0/body/s")).times
    assert list(times) == sorted(times)


def test_a_recording_agrees_with_kept_scopes() -> None:
    prog, feed = branches(), branches_feed()
    recording = run(prog, feed).recording
    exe = br.Executor(mode="interpret", passes=())
    exe.run(prog, exe.init(prog), feed, keep_scopes=True)
    compared = 0
    for variable in recording.variables:
        for at in recording.series(variable).runs:
            scope = exe.step_scopes[recording.path(at)]
            kept = recording.kept_value(variable, at)
            if kept is not None and recording.path(at):
                np.testing.assert_array_equal(kept, scope[variable.name])
                compared += 1
    assert compared > 50


def test_cases_of_a_row_wise_branch_know_their_batch_elements() -> None:
    recording = run(branches(), branches_feed()).recording
    rows = {recording.path(at): list(found) for at, found in recording.rows.items()}
    case = "loop_0/body[{}]/partition_0/cases[{}]"
    assert rows[case.format(0, 0)] == [1]
    assert rows[case.format(0, 1)] == [0, 2]
    assert rows[case.format(1, 0)] == [0, 1, 2]
    assert case.format(1, 1) not in rows  # it did not run
    warm = recording.measures("loop_0/body/partition_0/cases[1]/warm")
    assert [(path, one.size) for path, one in warm] == [(case.format(0, 1) + "/warm", 4)]


def test_a_case_that_never_runs_has_no_values() -> None:
    recording = run(branches(), {**branches_feed(), "which": 1}).recording
    assert recording.measures("loop_0/body/switch_0/cases[0]/sine") == []


def test_gradients_of_a_training_step_are_recorded_and_the_scope_stays() -> None:
    prog = branches()
    scope = br.Executor().init(prog, br.Scope())
    before = np.array(scope["w"])
    session = run(prog, branches_feed())
    assert session.status.state == "finished"
    assert any("grad" in session.recording.path(0, v.name) for v in session.recording.variables)
    with prog.debug(scope, branches_feed(), serve=False, paused=False) as kept:
        kept.finish()
    np.testing.assert_array_equal(scope["w"], before)
    with prog.debug(
        scope, branches_feed(), serve=False, paused=False, commit=True
    ) as committed:
        committed.finish()
    assert not np.array_equal(scope["w"], before)


def test_conditions_and_iterations_of_a_while_loop_are_recorded() -> None:
    recording = run(halving(), {"x": 5.0}).recording
    assert [one.mean for _, one in recording.measures("loop_0/body/half")] == [2.5, 1.25, 0.625]
    conditions = [place for place in recording.sites.places if place.label == "cond"]
    runs = [r for r in recording.runs if recording.sites.places[r.block] is conditions[0]]
    assert [r.iteration for r in runs] == [0, 1, 2, 3]


def test_the_first_nan_is_found_at_its_iteration() -> None:
    recording = run(nan_in_loop(), NAN_FEED).recording
    assert recording.first_nan_path == "loop_0/body[2]/logarithm"
    assert [one.nans for _, one in recording.measures("loop_0/body/sum")] == [0, 0, 1, 1]


def test_the_oldest_values_are_dropped_and_their_measures_stay() -> None:
    session = run(nested(), NESTED_FEED, memory_bytes=40)
    recording = session.recording
    assert sum(array.nbytes for _, _, array in recording.latest_kept()) <= 40
    assert len(recording.measures("loop_1/body/loop_0/body/s")) == 6
    with pytest.raises(br.UnknownNameError, match="memory_bytes"):
        recording.value("loop_1/body/loop_0/body/s", 0)
    dropped = recording.sites.variable("x")
    assert recording.histogram(dropped, 0).sum() == 6
    assert recording.value("y") == 57.0


def test_no_memory_keeps_measures_only() -> None:
    recording = run(nested(), NESTED_FEED, memory_bytes=0).recording
    assert recording.latest_kept() == []
    assert [one.mean for _, one in recording.measures("y")] == [57.0]


@pytest.mark.parametrize("memory_bytes", [-1, 1.5, True, "1 GB"])
def test_an_invalid_bound_of_memory_is_refused(memory_bytes: object) -> None:
    with pytest.raises(br.ProgramError, match="memory_bytes"):
        run(nested(), NESTED_FEED, memory_bytes=memory_bytes)


def test_values_beyond_the_limit_are_counted_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braces.debugger.recorded.recording.MOST_VALUES", 10)
    session = run(nested(), NESTED_FEED)
    assert session.recording.is_full
    assert session.status.state == "finished"
    assert session.results["y"] == 57.0


def test_an_imported_program_is_recorded() -> None:
    import jax.numpy as jnp

    prog, values = br.from_jax(lambda x: jnp.cumsum(jnp.tanh(x)), np.ones(3, "float32"))
    scope = br.Scope()
    scope.update(values)
    feed = {prog.feeds[0]: np.ones(3, "float32")}
    with prog.debug(scope, feed, serve=False, paused=False) as session:
        assert session.finish().status.state == "finished"
        assert len(session.recording.event_runs) > 1


def test_an_error_of_the_program_leaves_the_values_before_it() -> None:
    with br.Program() as prog:
        x, index = br.data("x", [3]), br.data("index", [], "int32")
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            number = net.add_input(x)
            h = net.add_memory(shape=[])
            chosen = br.switch(index, [lambda: number * 1.0, lambda: number * 2.0])
            h.update(br.add(h.pre(1), chosen, name="sum"))
    session = run(prog, {"x": np.ones(3, "float32"), "index": 7}, fetch=["loop_0.final"])
    assert session.status.state == "failed"
    assert "NoMatchError" in session.error
    assert session.position == "loop_0/body[0]/case_of_0"
    assert session.recording.value("x").tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(br.RunError, match="not finished"):
        _ = session.results


# ---- measures ----


def test_measures_of_all_kinds_of_numbers() -> None:
    assert measure(np.array([True, False])) == Measure(0.0, 1.0, 0.5, 0.5, 0, 0, 2)
    assert measure(np.array([3 + 4j])) == Measure(5.0, 5.0, 5.0, 0.0, 0, 0, 1)
    found = measure(np.array([np.nan, np.inf, 2.0]))
    assert (found.min, found.max, found.nans, found.infs, found.size) == (2.0, 2.0, 1, 1, 3)
    large = measure(np.array([1e308, 1e308]))
    assert large.max == 1e308
    assert large.nans == large.infs == 0
    empty = measure(np.zeros(0))
    assert np.isnan(empty.mean)
    assert empty.size == 0


def test_histograms_count_finite_numbers() -> None:
    assert histogram(np.array([np.nan, 1.0, 2.0])).sum() == 2
    assert histogram(np.zeros(0)).sum() == 0
    assert histogram(np.array([1e308, -1e308])).sum() == 2


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.array([1, 2], "int64"), "i8"),
        (np.array([1, 2], "uint8"), "u1"),
        (np.array([1.5], ">f4"), "f4"),
        (np.array([1.5], "float16"), "f4"),
        (np.array([1.5], br.dtypes.parse_type("bf16[1]").dtype), "f4"),
        (np.array([True]), "b1"),
        (np.array([1j], "complex128"), "f8c"),
    ],
)
def test_numbers_for_the_page_are_little_endian(array: np.ndarray, code: str) -> None:
    found, numbers = portable(array)
    assert found == code
    assert numbers.dtype.newbyteorder("<") == numbers.dtype
    if array.dtype.kind not in "cb":
        np.testing.assert_array_equal(numbers.astype("f8"), array.astype("f8"))
