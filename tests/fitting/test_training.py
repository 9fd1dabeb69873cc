"""`br.training`: steps, resuming with the same bits, data of all kinds, and bad input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import (
    STEPS,
    arrays,
    bits,
    data,
    net,
    shared_executor,
    shared_net,
    walk,
)
from tests.support.ctrl_c import interrupted

ROOT = Path(__file__).parents[2]


# ---- steps ----


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_the_steps_compute_what_the_loop_by_hand_computes(mode: str, ahead: int) -> None:
    prog, loss = shared_net()
    exe = shared_executor(mode)
    steps = br.training(
        prog,
        data=data(),
        fetch=loss,
        epochs=2,
        exe=exe,
        seed=5,
        ahead=ahead,
    )
    values = [float(step.values) for step in steps]
    scope, expected = exe.init(prog, seed=5), list[float]()
    for epoch in range(2):
        for batch in data().epoch(epoch):
            expected.append(float(exe.run(prog, scope, batch, loss)))
    assert values == expected
    assert bits(steps.scope) == bits(scope)


def test_steps_count_from_one_and_mark_the_end_of_an_epoch() -> None:
    prog, _ = shared_net()
    seen = [
        (s.number, s.epoch, s.in_epoch, s.last)
        for s in br.training(prog, exe=shared_executor(), data=data(), epochs=2)
    ]
    assert seen[0] == (1, 1, 1, False)
    assert seen[STEPS - 1 : STEPS + 1] == [(STEPS, 1, STEPS, True), (STEPS + 1, 2, 1, False)]
    assert seen[-1] == (2 * STEPS, 2, STEPS, True)


def test_the_values_have_the_structure_of_the_fetches() -> None:
    prog, loss = shared_net()
    (step,) = br.training(
        prog,
        exe=shared_executor(),
        data=[arrays()],
        fetch={"loss": loss, "rate": "adam/learning_rate"},
    )
    assert set(step.values) == {"loss", "rate"}
    assert step.values["rate"] == np.float32(1e-2)
    (default,) = br.training(prog, exe=shared_executor(), data=[arrays()])
    assert [float(v) for v in default.values] == [float(step.values["loss"])]


def test_a_short_trial_takes_some_steps_of_each_epoch() -> None:
    prog, _ = shared_net()
    steps = list(br.training(prog, exe=shared_executor(), data=data(), epochs=2, steps=2))
    assert [(s.epoch, s.in_epoch, s.last) for s in steps] == [
        (1, 1, False), (1, 2, True), (2, 1, False), (2, 2, True),
    ]  # fmt: skip


def test_a_second_loop_continues_after_the_first() -> None:
    prog, loss = shared_net()
    whole = br.training(prog, exe=shared_executor(), data=data(), fetch=loss, epochs=2)
    for _ in whole:
        pass
    parts = br.training(prog, exe=shared_executor(), data=data(), fetch=loss, epochs=2)
    first = next(iter(parts))
    numbers = [step.number for step in parts]
    assert first.number == 1
    assert numbers == list(range(2, 2 * STEPS + 1))
    assert bits(parts.scope) == bits(whole.scope)


# ---- data ----


class Loader:
    """A loader without a length, which yields tuples and refills its arrays."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        buffers: dict[str, Any] = {}
        for batch in data().epoch(0):
            for name, part in batch.items():
                buffers.setdefault(name, np.zeros_like(part))
                buffers[name] = buffers[name][: len(part)]
                buffers[name][...] = part
            yield buffers["x"], buffers["y"]


@pytest.mark.parametrize(
    "source",
    [
        list(data().epoch(0)),
        [(b["x"], b["y"]) for b in data().epoch(0)],
        [[b["x"].tolist(), b["y"].tolist()] for b in data().epoch(0)],
        Loader(),
    ],
)
def test_lists_tuples_and_loaders_are_data(source: Any) -> None:
    prog, loss = shared_net()
    given = br.training(prog, exe=shared_executor(), data=source, fetch=loss, epochs=1)
    wanted = br.training(prog, exe=shared_executor(), data=data(), fetch=loss, epochs=1)
    assert [s.last for s in given] == [s.last for s in wanted]
    assert bits(given.scope) == bits(wanted.scope)


def test_a_generator_is_data_for_one_epoch() -> None:
    prog, _ = shared_net()
    assert len(list(br.training(prog, exe=shared_executor(), data=data().epoch(0)))) == STEPS
    steps = br.training(prog, exe=shared_executor(), data=data().epoch(0), epochs=2)
    with pytest.raises(br.FeedError, match="iterator, which ended in epoch 1"):
        list(steps)
    assert steps.position.step == STEPS


# ---- resume ----


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_a_break_at_any_step_resumes_with_the_same_bits(tmp_path: Path, mode: str) -> None:
    for stop in (1, STEPS - 1, STEPS, STEPS + 1, 2 * STEPS, 2 * STEPS + 3):
        assert walk(tmp_path, stop=stop, mode=mode).position.step == stop
    resumed = walk(tmp_path, mode=mode)
    assert resumed.resumed == 2 * STEPS + 3
    assert bits(resumed.scope) == bits(walk(None, mode=mode).scope)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.fitting.nets import data, net
import braces as br
prog, loss = net()
for step in br.training(prog, data(), fetch=loss, epochs=3, folder=sys.argv[1], save_every=2):
    if step.number == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def run_script(script: str, *arguments: str) -> int:
    """Run a script in a process of its own; return its status."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=ROOT, capture_output=True, timeout=120
    )
    return done.returncode


def test_a_killed_process_resumes_with_the_same_bits(tmp_path: Path) -> None:
    for kill in (5, STEPS + 1, 2 * STEPS + 2):
        assert run_script(KILLED, str(tmp_path), str(kill)) == -signal.SIGKILL
        saved = br.Checkpoint(tmp_path).steps[-1]
        assert kill - 4 <= saved < kill
    assert bits(walk(tmp_path).scope) == bits(walk(None).scope)


def test_ctrl_c_saves_the_last_whole_step(tmp_path: Path) -> None:
    prog, loss = shared_net()
    exe = shared_executor()
    steps = br.training(prog, data(), exe=exe, fetch=loss, epochs=3, folder=tmp_path)

    def go() -> None:
        for step in steps:
            if step.number == 9:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        go()
    assert br.Checkpoint(tmp_path).steps[-1] == steps.position.step
    assert bits(walk(tmp_path).scope) == bits(walk(None).scope)


def test_ctrl_c_during_steps_never_saves_a_wrong_position(tmp_path: Path) -> None:
    for attempt in range(3):
        prog, loss = shared_net()
        timer = threading.Timer(0.01 + 0.004 * attempt, os.kill, (os.getpid(), signal.SIGINT))
        try:
            for step in br.training(
                prog, data(), fetch=loss, epochs=200, folder=tmp_path, fresh=not attempt
            ):
                if step.number == 10 * attempt + 2:
                    timer.start()
        except KeyboardInterrupt:
            pass
        timer.join()
    prog, loss = shared_net()
    resumed = br.training(
        prog, exe=shared_executor(), data=data(), fetch=loss, epochs=200, folder=tmp_path
    )
    reached = resumed.position.step
    assert reached
    again = br.training(prog, exe=shared_executor(), data=data(), fetch=loss, epochs=200)
    for step in again:
        if step.number == reached:
            break
    assert bits(resumed.scope) == bits(again.scope)


@pytest.mark.parametrize("count", range(1, 12))
def test_ctrl_c_at_each_line_of_a_step_leaves_a_right_checkpoint(
    tmp_path: Path, count: int
) -> None:
    prog, loss = shared_net()
    exe = shared_executor()
    steps = br.training(prog, data(), exe=exe, fetch=loss, epochs=1, folder=tmp_path)
    code: Any = type(steps)
    places = (code._counted.__code__, code._run_step.__code__)

    def go() -> None:
        for _ in steps:
            pass

    interrupted(go, 2 + count, *places)
    resumed = br.training(
        prog, exe=shared_executor(), data=data(), fetch=loss, epochs=1, folder=tmp_path
    )
    for _ in resumed:
        pass
    plain = br.training(prog, exe=shared_executor(), data=data(), fetch=loss, epochs=1)
    for _ in plain:
        pass
    assert bits(resumed.scope) == bits(plain.scope)


def test_an_error_of_the_loop_saves_the_last_step(tmp_path: Path) -> None:
    prog, loss = shared_net()

    def go() -> None:
        for step in br.training(
            prog, exe=shared_executor(), data=data(), fetch=loss, epochs=3, folder=tmp_path
        ):
            if step.number == 4:
                raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        go()
    assert br.Checkpoint(tmp_path).steps[-1] == 4
    assert bits(walk(tmp_path).scope) == bits(walk(None).scope)


def test_more_epochs_continue_a_finished_training(tmp_path: Path) -> None:
    prog, loss = shared_net()
    for epochs in (1, 3):
        steps = br.training(
            prog, exe=shared_executor(), data=data(), fetch=loss, epochs=epochs, folder=tmp_path
        )
        assert [s.number for s in steps][-1] == epochs * STEPS
    assert (
        list(
            br.training(
                prog, exe=shared_executor(), data=data(), fetch=loss, epochs=3, folder=tmp_path
            )
        )
        == []
    )
    assert bits(steps.scope) == bits(walk(None).scope)


# ---- folders of other runs ----


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"data": data(rows=30)}, "data.rows was 26, is 30"),
        ({"data": data(batch=5)}, "data.batch_size was 4, is 5"),
        ({"data": data(seed=1)}, "data.seed was 0, is 1"),
        ({"seed": 3}, "seed was 0, is 3"),
        (
            {"program": net(width=5)[0]},
            r"`hidden.w` is f32\[4,3\] in the checkpoint, f32\[4,5\]",
        ),
    ],
)
def test_the_folder_of_another_run_is_refused(
    tmp_path: Path, change: dict[str, Any], found: str
) -> None:
    walk(tmp_path, stop=2)
    given: dict[str, Any] = {"program": net()[0], "data": data(), "folder": tmp_path}
    scope = br.Scope()
    with pytest.raises(br.ProgramError, match=found) as caught:
        br.training(**(given | change), scope=scope)
    assert "fresh=True" in str(caught.value)
    assert not len(scope)
    steps = br.training(**(given | change), fresh=True)
    assert steps.resumed is None
    assert br.Checkpoint(tmp_path).steps == []


def test_a_damaged_checkpoint_names_itself_and_the_intact_one(tmp_path: Path) -> None:
    walk(tmp_path)
    newest, before = sorted(tmp_path.glob("step-*"))[:-3:-1]
    newest.write_bytes(b"\0" + newest.read_bytes()[1:])
    with pytest.raises(br.FileFormatError, match="damaged") as caught:
        walk(tmp_path)
    step = int(before.stem.partition("-")[2])
    assert str(caught.value).endswith(
        f"Remove {newest.name} from the folder to continue from step {step}."
    )
    newest.unlink()
    assert walk(tmp_path).resumed == step


@pytest.mark.parametrize("changed", ["rate", "dropout"])
def test_another_program_with_the_same_variables_resumes_with_a_warning(
    tmp_path: Path, changed: str
) -> None:
    options: dict[str, Any] = {"folder": tmp_path, "quiet": True, "exe": shared_executor()}
    br.fit(net()[0], data(), epochs=1, **options)
    assert br.fit(net()[0], data(), epochs=1, **options).resumed == STEPS
    other, _ = net(rate=0.5) if changed == "rate" else net(dropped=0.5)
    with pytest.warns(br.BracesWarning, match=rf"of the checkpoint of step {STEPS}\b"):
        run = br.fit(other, data(), epochs=2, **options)
    assert run.resumed == STEPS
    assert br.fit(other, data(), epochs=2, **options).resumed == 2 * STEPS


def test_a_checkpoint_of_a_loop_by_hand_is_refused(tmp_path: Path) -> None:
    prog, _ = shared_net()
    scope = br.Executor().init(prog)
    br.save_checkpoint(scope, tmp_path, 3, {"mine": 1})
    with pytest.raises(br.ProgramError, match="not written by"):
        br.training(prog, exe=shared_executor(), data=data(), folder=tmp_path)


# ---- bad input ----


def bad(batch: Any) -> list[Any]:
    """A list of batches whose third is bad."""
    good = [(b["x"], b["y"]) for b in data().epoch(0)]
    return [*good[:2], batch, *good[2:]]


X, Y = np.zeros((4, 4), np.float32), np.zeros((4, 1), np.float32)


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize(
    ("batch", "found"),
    [
        ({"x": X}, "got `x`"),
        ({"x": X, "y": Y, "z": Y}, "got `x`, `y`, `z`"),
        ((X,), "got 1 arrays"),
        (7, "got a value of type int"),
        ({"x": X[:, :3], "y": Y}, "`x`: axis 1 has size 3"),
        ({"x": X.astype("U1"), "y": Y}, "x"),
    ],
)
def test_a_bad_batch_is_named_and_the_steps_before_it_are_saved(
    tmp_path: Path, batch: Any, found: str, ahead: int
) -> None:
    prog, loss = shared_net()
    steps = br.training(
        prog, bad(batch), fetch=loss, folder=tmp_path, exe=shared_executor(), ahead=ahead
    )
    with pytest.raises(br.BracesError, match=found) as caught:
        list(steps)
    assert "epoch 1, batch 3" in str(caught.value)
    assert br.Checkpoint(tmp_path).steps == [2]


@pytest.mark.parametrize("batch", [{"x": X}, (X,), (X, np.zeros((2, 3), np.float32))])
def test_batches_may_lack_data_that_training_does_not_need(batch: Any) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        y = br.fc(x, 3)
        sampled = br.fc(br.data("code", ["m", 3]), 2)
        loss = br.mean(y)
        br.optimizer.sgd(0.1).minimize(loss)
    steps = br.training(prog, [batch], fetch=loss)
    assert [step.number for step in steps] == [1]
    assert br.fit(prog, [batch], validation=[batch], quiet=True).history.names[:1] == ["loss"]
    with pytest.raises(br.FeedError, match="declares `x`, `code`, and needs `x`"):
        list(br.training(prog, [{"code": Y}]))
    with pytest.raises(br.FeedError, match="got `x`"):
        list(br.training(prog, [{"x": X}], fetch=sampled))


def test_an_error_of_the_data_names_the_batch() -> None:
    def batches() -> Iterator[Any]:
        yield X, Y
        raise OSError("disk")

    prog, _ = shared_net()
    with pytest.raises(OSError, match="disk") as caught:
        list(br.training(prog, exe=shared_executor(), data=batches()))
    assert caught.value.__notes__ == ["Raised by the data at epoch 1, batch 2."]


class Short(list[Any]):
    """Data that claims more batches than it has."""

    def __len__(self) -> int:
        return 5


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"x": X, "y": Y}, "got a dict of 'x', 'y'"),
        ((X, Y), "got a value of type tuple"),
        (X, "ndarray"),
        (3, "int"),
    ],
)
def test_arrays_in_place_of_batches_are_refused(source: Any, found: str) -> None:
    with pytest.raises(br.FeedError, match=found) as caught:
        br.training(net()[0], source)
    assert "br.batches" in str(caught.value)


def test_data_without_batches_and_with_a_wrong_length_are_refused() -> None:
    with pytest.raises(br.FeedError, match="no batches"):
        list(br.training(net()[0], []))
    with pytest.raises(br.FeedError, match="ended after 2 of 5"):
        list(br.training(net()[0], Short([(X, Y), (X, Y)])))


@pytest.mark.parametrize(
    "options",
    [{"epochs": 0}, {"epochs": None}, {"save_every": 0}, {"save_every": 3}, {"ahead": -1},
     {"steps": 0}],
)  # fmt: skip
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(br.ProgramError):
        br.training(net()[0], data(), **options)


def test_programs_without_updates_are_refused() -> None:
    with br.Program() as prog:
        br.data("x", ["n", 4])
    with pytest.raises(br.ProgramError, match="nothing to train"):
        br.training(prog, exe=shared_executor(), data=data())
    with pytest.raises(br.ProgramError, match="expected a program"):
        br.training("prog", data())  # pyright: ignore[reportArgumentType]


def test_a_full_disk_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk(tmp_path, stop=3)
    prog, loss = shared_net()
    exe = shared_executor()
    steps = br.training(prog, data(), exe=exe, fetch=loss, epochs=3, folder=tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("braces.storage.checkpoint.write_tensors", full)
    with pytest.raises(br.BracesError, match="checkpoint could not be written") as caught:
        list(steps)
    assert isinstance(caught.value, OSError)
    assert "No space left" in str(caught.value)
    monkeypatch.undo()
    assert br.Checkpoint(tmp_path).steps == [3]
    assert bits(walk(tmp_path).scope) == bits(walk(None).scope)
