"""`br.fit`: history, validation, callbacks, resuming with the same history, and bad input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import (
    BATCH,
    STEPS,
    Task,
    bits,
    fit,
    labelled,
    shared_executor,
)

ROOT = Path(__file__).parents[2]


class At(br.Callback):
    """A callback that acts at a step, an epoch or the end."""

    def __init__(self, act: Any, step: int = 0, epoch: int = 0) -> None:
        self.act, self.step, self.epoch = act, step, epoch

    def on_step(self, run: Any, step: Any) -> None:
        if step.number == self.step:
            self.act()

    def on_epoch(self, run: Any, row: Any) -> None:
        if row["epoch"] == self.epoch:
            self.act()


def fail() -> None:
    """Raise an error of a user."""
    raise RuntimeError("mine")


def interrupt() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


# ---- history ----


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_the_history_has_what_a_loop_by_hand_measures(mode: str) -> None:
    run, task, exe = fit(mode=mode), Task.shared(), shared_executor(mode)
    scope, prog = exe.init(task.prog), task.prog
    (accuracy,) = task.metrics.values()
    valid = br.batches(labelled(18, seed=1), 5, shuffle=False)
    for epoch, row in enumerate(run.history):
        accuracy.reset(scope)
        total, values = 0.0, list[Any]()
        for batch in br.batches(labelled(), BATCH).epoch(epoch):
            values = exe.run(prog, scope, batch, [*prog.fetches, accuracy.value, task.norm])
            total += float(values[0]) * len(batch["x"])
        assert row["epoch"] == epoch + 1
        assert row["step"] == STEPS * (epoch + 1)
        assert row["loss"] == pytest.approx(total / len(labelled()["x"]), rel=1e-12)
        assert row["accuracy"] == float(values[1])
        assert row["norm"] == pytest.approx(float(values[2]))
        assert row["rate"] == 0.01
        accuracy.reset(scope)
        measured = [
            (len(b["x"]), exe.evaluate(prog, scope, b, [*prog.fetches, accuracy.value]))
            for b in valid.epoch(0)
        ]
        assert row["val_loss"] == pytest.approx(sum(n * float(v[0]) for n, v in measured) / 18)
        assert row["val_accuracy"] == float(measured[-1][1][1])
    accuracy.reset(scope)
    assert bits(run.scope) == bits(scope)


def test_a_scheduled_rate_is_that_of_the_last_step_of_the_epoch() -> None:
    with br.Program() as prog:
        loss = br.mean(br.fc(br.data("x", ["n", 4]), 2) ** 2)
        br.optimizer.sgd(br.optimizer.linear_schedule(1.0, 0.0, 8)).minimize(loss)
    data = br.batches({"x": labelled(16)["x"]}, 4)
    run = br.fit(prog, data, epochs=2, log={"rate": "learning_rate"}, quiet=True)
    assert run.history["rate"] == [0.625, 0.125]
    assert run.scope["sgd/learning_rate"] == 0.125


def test_evaluation_equals_validation_and_changes_nothing() -> None:
    run = fit()
    valid = br.batches(labelled(18, seed=1), 7)
    before = bits(run.scope)
    measured = br.evaluate(run.program, valid, run.scope, metrics=Task.shared().metrics)
    assert measured == pytest.approx(run.evaluate(valid))
    assert measured["loss"] == pytest.approx(run.history["val_loss"][-1])
    assert measured["accuracy"] == run.history["val_accuracy"][-1]
    assert bits(run.scope) == before


def test_a_metric_that_was_added_after_training_is_evaluated() -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", 4]), br.data("y", ["n"], dtype="int32")
        logits = br.fc(x, 2, name="fc")
    scope = br.Executor().init(prog)
    with prog:
        accuracy = br.metrics.accuracy(logits, y)
    before, data = bits(scope), br.batches(labelled(), BATCH)
    measured = br.evaluate(prog, data, scope, metrics={"accuracy": accuracy})
    assert bits(scope) == before
    assert 0.0 <= measured["accuracy"] <= 1.0


def test_an_evaluation_in_the_middle_of_an_epoch_does_not_change_the_training() -> None:
    class Evaluating(br.Callback):
        def on_step(self, run: Any, step: Any) -> None:
            run.evaluate(run.validation)

    run, plain = fit(callbacks=[Evaluating()]), fit()
    assert run.history.rows == plain.history.rows
    assert bits(run.scope) == bits(plain.scope)


def test_scalar_variables_are_metrics_and_arrays_are_lists() -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", 4]), br.data("y", ["n"], dtype="int32")
        logits = br.fc(x, 2, name="out")
        br.optimizer.sgd(0.1).minimize(br.mean(br.softmax_cross_entropy(logits, y)))
        counts = br.metrics.confusion_matrix(br.argmax(logits, axis=-1), y, 2)
        first = br.mean(x)
    run = br.fit(
        prog, br.batches(labelled(), BATCH), metrics={"counts": counts, "x": first}, quiet=True
    )
    (row,) = run.history
    assert np.sum(row["counts"]) == len(labelled()["x"])
    assert row["x"] == pytest.approx(labelled()["x"].mean(), abs=1e-6)
    assert run.history.names == ["loss", "x", "counts"]
    assert "polyline" in run.history.svg() or "path" in run.history.svg()


def test_a_short_trial_limits_steps_and_validation() -> None:
    run = fit(steps=2, epochs=1)
    assert run.step == 2
    assert run.history["val_loss"]


# ---- resume ----

KILLED = """
import os, signal, sys
from pathlib import Path
from tests.fitting.nets import fit
from tests.fitting.test_fit import At
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
step, epoch = int(sys.argv[2]), int(sys.argv[3])
fit(Path(sys.argv[1]), callbacks=[At(kill, step, epoch)], save_every=2)
"""


def test_killed_runs_resume_with_the_same_bits_and_history(tmp_path: Path) -> None:
    whole = fit(save_every=None)
    for step, epoch in ((4, 0), (STEPS, 0), (0, 2), (2 * STEPS + 4, 0)):
        arguments = [str(tmp_path), str(step), str(epoch)]
        done = subprocess.run(
            [sys.executable, "-c", KILLED, *arguments],
            cwd=ROOT,
            capture_output=True,
            timeout=200,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    resumed = fit(tmp_path, save_every=2)
    assert resumed.resumed
    assert resumed.history.rows == whole.history.rows
    assert bits(resumed.scope) == bits(whole.scope)


@pytest.mark.parametrize("mode", ["compile", "interpret"])
@pytest.mark.parametrize(
    ("act", "error", "places"),
    [
        (fail, RuntimeError, [(3, 0), (STEPS, 0), (0, 2), (2 * STEPS + 1, 0)]),
        (interrupt, KeyboardInterrupt, [(3, 0), (STEPS, 0), (0, 2), (2 * STEPS + 1, 0)]),
    ],
)
def test_interrupted_runs_resume_with_the_same_bits_and_history(
    tmp_path: Path, act: Any, error: Any, places: list[Any], mode: str
) -> None:
    for step, epoch in places:
        with pytest.raises(error):
            fit(tmp_path, callbacks=[At(act, step, epoch)], mode=mode)
    resumed, whole = fit(tmp_path, mode=mode), fit(mode=mode)
    assert resumed.resumed == 2 * STEPS + 1
    assert resumed.history.rows == whole.history.rows
    assert bits(resumed.scope) == bits(whole.scope)


def test_an_interrupted_validation_is_repeated(tmp_path: Path) -> None:
    valid = list(br.batches(labelled(18, seed=1), 5, shuffle=False).epoch(0))

    class Interrupted(list[Any]):
        def __iter__(self) -> Any:
            yield valid[0]
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fit(tmp_path, validation=Interrupted(valid))
    resumed, whole = fit(tmp_path), fit()
    assert resumed.resumed == STEPS
    assert resumed.history.rows == whole.history.rows
    assert bits(resumed.scope) == bits(whole.scope)


def test_an_infinite_loss_survives_a_resume(tmp_path: Path) -> None:
    class Spoiled(br.Callback):
        def on_epoch(self, run: Any, row: Any) -> None:
            row["loss"], row["val_loss"] = float("nan"), float("inf")

    fit(tmp_path, epochs=1, callbacks=[Spoiled()])
    row = fit(tmp_path, epochs=2).history.rows[0]
    assert np.isnan(row["loss"])
    assert row["val_loss"] == np.inf


def test_a_history_of_several_megabytes_survives_a_resume(tmp_path: Path) -> None:
    class Verbose(br.Callback):
        def on_epoch(self, run: Any, row: Any) -> None:
            row["curve"] = [float(i) / 7 for i in range(50_000)]

    fit(tmp_path, epochs=3, callbacks=[Verbose()])
    (path,) = (p for p in tmp_path.iterdir() if "21" in p.name)
    assert path.stat().st_size > 2 << 20
    run = fit(tmp_path, epochs=4)
    assert run.resumed == 3 * STEPS
    assert len(run.history["curve"][2]) == 50_000
    assert run.history["curve"][2][3] == 3 / 7


def test_a_history_beyond_the_limit_is_an_error_with_the_last_checkpoint_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braces.storage.checkpoint.LARGEST_HISTORY", 2_000_000)

    class Verbose(br.Callback):
        def on_epoch(self, run: Any, row: Any) -> None:
            row["curve"] = [0.5] * 300_000

    with pytest.raises(br.DTypeError, match="expected at most 2000000") as caught:
        fit(tmp_path, epochs=3, callbacks=[Verbose()])
    assert "Measure fewer or smaller arrays" in str(caught.value)
    assert br.Checkpoint(tmp_path).steps == [STEPS]


# ---- callbacks ----


class Recorder:
    """A callback of no class of Braces, which records the calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_start(self, run: Any) -> None:
        self.calls.append(("start", run.step))

    def on_step(self, run: Any, step: Any) -> None:
        self.calls.append(("step", step.number, sorted(step.values)))

    def on_epoch(self, run: Any, row: Any) -> None:
        self.calls.append(("epoch", row["epoch"], row is run.history.rows[-1]))

    def on_end(self, run: Any, error: Any) -> None:
        self.calls.append(("end", type(error).__name__))


def test_callbacks_are_called_in_order() -> None:
    recorder = Recorder()
    fit(epochs=1, steps=2, callbacks=recorder)
    values = ["accuracy", "loss", "norm", "rate"]
    assert recorder.calls == [
        ("start", 0), ("step", 1, values), ("step", 2, values), ("epoch", 1, True),
        ("end", "NoneType"),
    ]  # fmt: skip


@pytest.mark.parametrize(("step", "epoch"), [(5, 0), (0, 1)])
def test_an_error_of_a_callback_is_named_and_the_last_step_is_saved(
    tmp_path: Path, step: int, epoch: int
) -> None:
    recorder = Recorder()
    with pytest.raises(RuntimeError, match="mine") as caught:
        fit(tmp_path, callbacks=[recorder, At(fail, step, epoch)])
    reached = step or STEPS
    method = "on_step" if step else "on_epoch"
    assert caught.value.__notes__ == [f"Raised by the callback At.{method}, step {reached}."]
    assert br.Checkpoint(tmp_path).steps[-1] == reached
    assert recorder.calls[-1] == ("end", "RuntimeError")


def test_early_stopping_counts_epochs_without_improvement_also_after_a_resume(
    tmp_path: Path,
) -> None:
    stopping = br.EarlyStopping("val_loss", patience=2, min_delta=10.0)
    whole = fit(epochs=9, callbacks=[stopping])
    assert len(whole.history) == 3  # the first is an improvement
    assert whole.history.stopped == "val_loss did not improve for 2 epochs (smaller is better)"
    with pytest.raises(RuntimeError):
        fit(tmp_path, epochs=9, callbacks=[At(fail, step=2 * STEPS + 3)])
    for _ in range(2):  # a stopped run stays stopped
        run = fit(tmp_path, epochs=9, callbacks=[stopping])
        assert run.history.rows == whole.history.rows
        assert run.history.stopped == whole.history.stopped
        assert bits(run.scope) == bits(whole.scope)


def test_best_keeps_the_values_of_the_best_epoch(tmp_path: Path) -> None:
    best = br.Best(tmp_path / "best.safetensors", "loss", mode="max")  # the first epoch

    def rising(run: Any) -> list[float]:
        return run.history["loss"]

    run = fit(callbacks=[best])
    kept = int(np.argmax(rising(run))) + 1
    one = fit(epochs=kept)
    best.restore(run)
    assert bits(run.scope) == bits(one.scope)


@pytest.mark.parametrize(
    ("callback", "found"),
    [
        (br.EarlyStopping("val_los"), "monitors `val_los`, which is not measured"),
        (br.Best("x.safetensors", "f1"), "Best monitors `f1`"),
    ],
)
def test_an_unknown_monitor_is_refused_before_the_first_step(
    tmp_path: Path, callback: Any, found: str
) -> None:
    with pytest.raises(br.ProgramError, match=found) as caught:
        fit(tmp_path, callbacks=[callback])
    assert "val_loss" in str(caught.value)
    with pytest.raises(br.ProgramError, match="Pass validation="):
        fit(validation=None, callbacks=[br.EarlyStopping()])


# ---- bad input ----


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"validation": []}, "no batches"),
        ({"validation": 3}, "expected a data set"),
        ({"callbacks": [br.EarlyStopping]}, "expected a callback"),
        ({"callbacks": [print]}, "expected a callback"),
        ({"metrics": [1]}, "expected a dict for `metrics`"),
        ({"metrics": {"a": 1}}, "expected a metric or a scalar variable for `a`"),
        ({"metrics": {"a": "hidden.w"}}, "`a` is an array"),
        ({"log": {"a": "nothing"}}, "unknown variable `nothing`"),
        ({"log_files": ["a.txt"]}, "unknown kind of log file"),
        ({"log_every": 0, "log_files": ["a.csv"]}, "log_every"),
        ({"epochs": 0}, "epochs"),
    ],
)
def test_bad_options_are_refused_before_the_first_step(
    options: dict[str, Any], found: str
) -> None:
    scope = br.Scope()
    with pytest.raises(br.BracesError, match=found):
        fit(scope=scope, **options)
    assert not len(scope)


def test_an_empty_iterator_of_validation_is_named(tmp_path: Path) -> None:
    with pytest.raises(br.FeedError, match="no batches") as caught:
        fit(tmp_path, validation=iter(()))
    assert "validation" in str(caught.value)
    assert br.Checkpoint(tmp_path).steps == [STEPS]


def test_a_bad_batch_of_validation_is_named() -> None:
    bad = [*br.batches(labelled(), 5).epoch(0)][:2]
    bad[1] = {"x": bad[1]["x"][:, :3], "y": bad[1]["y"]}
    with pytest.raises(br.FeedError, match="axis 1 has size 3") as caught:
        fit(validation=bad)
    assert "validation: batch 2" in str(caught.value)


def test_a_bad_validation_is_refused_before_the_first_step(tmp_path: Path) -> None:
    arrays = labelled(18)
    bad = {"x": arrays["x"][:, :3], "y": arrays["y"]}
    data = br.batches(bad, 5)

    class Own:
        def epoch(self, number: int, start: int = 0) -> Any:
            return iter([bad])

    for validation in (data, list(data.epoch(0)), br.batches(list(data.epoch(0))), Own()):
        with pytest.raises(br.FeedError, match="axis 1 has size 3") as caught:
            fit(tmp_path, validation=validation)
        assert "validation: batch 1" in str(caught.value)
        assert br.Checkpoint(tmp_path).steps == []


def test_a_trial_of_validation_uses_up_no_iterator_and_changes_nothing() -> None:
    valid = list(br.batches(labelled(18, seed=1), 5, shuffle=False).epoch(0))
    calls = list[int]()

    def read(epoch: int) -> Any:
        calls.append(epoch)
        return iter(valid)

    run, plain = fit(validation=br.batches(read)), fit()
    assert len(calls) == 3
    assert run.history.rows == plain.history.rows
    assert bits(run.scope) == bits(plain.scope)
    assert fit(validation=iter(valid), epochs=1).history["val_loss"]


def test_an_evaluation_without_measurements_is_refused() -> None:
    with br.Program() as prog:
        br.fc(br.data("x", ["n", 4]), 1)
    with pytest.raises(br.ProgramError, match="no metrics"):
        br.evaluate(prog, [], br.Scope())


# ---- checks of values ----


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_a_nan_of_a_batch_is_found_and_the_steps_before_are_kept(
    mode: str, tmp_path: Path
) -> None:
    with br.Program() as prog:
        logs = br.log(br.data("x", ["n", 2]), name="logs")
        loss = br.mean(br.square(br.fc(logs, 1, name="fc")))
        br.optimizer.sgd(0.1).minimize(loss)
    xs = np.ones((8, 2), np.float32)
    negative = np.where(np.arange(8)[:, None] == 5, -xs, xs)
    good, bad, zero = (
        br.batches({"x": each}, 2, shuffle=False) for each in (xs, negative, 0 * xs)
    )
    exe = br.Executor(mode)
    with pytest.raises(br.NaNError, match="log produced a NaN in `logs`") as caught:
        br.fit(prog, bad, epochs=2, folder=tmp_path, exe=exe, quiet=True, check_nan=True)
    assert "epoch 1, batch 3" in str(caught.value)
    assert "test_fit.py" in str(caught.value)
    steps = br.training(prog, bad, folder=tmp_path, exe=exe, check_nan=True)
    assert steps.resumed == 2
    with pytest.raises(br.NaNError, match="batch 3"):
        list(steps)
    found: list[tuple[br.Batches, dict[str, Any]]]
    found = [(bad, {"check_nan": True}), (zero, {"check_inf": True})]
    for data, checks in found:
        with pytest.raises(ArithmeticError, match="validation: batch"):
            br.fit(prog, good, validation=data, exe=exe, quiet=True, **checks)
        with pytest.raises(ArithmeticError, match="log produced"):
            br.evaluate(prog, data, exe.init(prog), exe=exe, **checks)
