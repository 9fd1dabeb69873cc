"""`pad_to=` of `br.fit`, `br.training` and `br.evaluate`: few sizes, the same measurements."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import bits


@cache
def net() -> tuple[br.Program, br.Var]:
    """Return a program over rows and steps of any number, with a masked loss."""
    with br.Program() as prog:
        x, mask = br.data("x", ["n", "t", 2]), br.data("mask", ["n", "t"], dtype="bool")
        y = br.data("y", ["n"])
        weight = br.data("real", ["n"])
        hidden = br.where(mask[:, :, None], br.fc(x, 3, act="tanh", name="hidden"), 0.0)
        out = br.fc(br.sum(hidden, axis=1), 1, name="out")[:, 0]
        loss = br.sum(weight * (out - y) ** 2) / br.sum(weight)
        br.optimizer.adam(1e-2).minimize(loss)
    return prog, loss


@cache
def executor(mode: str) -> br.Executor:
    """An executor that the tests share."""
    return br.Executor(mode=mode)


def batches() -> list[dict[str, Any]]:
    """Batches of different rows and steps."""
    rng, made = np.random.default_rng(0), list[dict[str, Any]]()
    for rows, steps in ((3, 5), (4, 2), (2, 7), (4, 8)):
        x = rng.normal(size=(rows, steps, 2)).astype("float32")
        y = x.sum(axis=(1, 2))
        made.append({"x": x, "mask": np.ones((rows, steps), bool), "y": y, "real": 0 * y + 1})
    return made


def fit(**options: Any) -> Any:
    given: dict[str, Any] = {"epochs": 2, "quiet": True} | options
    return br.fit(net()[0], batches(), **given)


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_padded_batches_train_as_the_original_ones(mode: str, ahead: int) -> None:
    given = {"exe": executor(mode), "ahead": ahead, "validation": batches()}
    plain, padded = fit(**given), fit(pad_to={"n": 4, "t": 8}, **given)
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(padded.history[name], plain.history[name], rtol=1e-4)
    np.testing.assert_allclose(padded.scope["out.w"], plain.scope["out.w"], rtol=1e-3)


def test_padded_batches_compile_once_for_training_and_once_for_evaluation() -> None:
    exe = br.Executor()
    run = fit(exe=exe, pad_to={"n": 4, "t": 8}, validation=batches())
    after_init = [one for one in exe.stats.listed if "`x`" in one.change]
    assert len(after_init) == 2
    before = exe.stats.compilations
    run.evaluate(batches())
    br.evaluate(net()[0], batches(), run.scope, exe=exe, pad_to={"n": 4, "t": 8})
    assert exe.stats.compilations == before


def test_the_weights_of_batches_exclude_rows_of_padding() -> None:
    with br.Program() as prog:
        value: Any = br.sum(br.data("x", ["n"]))
    data = [{"x": np.array([1, 2, 3], np.float32)}, {"x": np.array([4], np.float32)}]
    row = br.evaluate(prog, data, br.Scope(), metrics={"sum": value}, pad_to={"n": 8})
    assert row["sum"] == (6 * 3 + 4 * 1) / 4


@pytest.mark.parametrize("stop", [1, 3, 4, 6])
def test_a_padded_training_resumes_with_the_same_bits(stop: int, tmp_path: Path) -> None:
    prog, loss = net()

    def walk(folder: Path, stop: int = 0) -> tuple[list[float], str]:
        values = list[float]()
        steps = br.training(
            prog,
            batches(),
            fetch=loss,
            epochs=2,
            folder=folder,
            exe=executor("compile"),
            pad_to={"n": 4, "t": 8},
        )
        for step in steps:
            values.append(float(step.values))
            if step.number == stop:
                break
        return values, bits(steps.scope)

    expected = walk(tmp_path / "whole")
    first, _ = walk(tmp_path / "parts", stop)
    rest, last = walk(tmp_path / "parts")
    assert ([*first, *rest], last) == expected


def test_a_resume_with_another_padding_is_refused(tmp_path: Path) -> None:
    given: dict[str, Any] = {"folder": tmp_path, "exe": executor("compile")}
    fit(pad_to={"n": 4, "t": 8}, epochs=1, **given)
    with pytest.raises(br.ProgramError, match="belongs to another run") as caught:
        fit(pad_to={"n": 4, "t": 16}, **given)
    assert "pad_to.t was 8, is 16" in str(caught.value)
    with pytest.raises(br.ProgramError, match="pad_to was"):
        fit(**given)


def test_invalid_paddings_are_refused_before_anything_changes(tmp_path: Path) -> None:
    given: dict[str, Any] = {"folder": tmp_path, "exe": executor("compile")}
    fit(epochs=1, **given)
    files = sorted(path.name for path in tmp_path.iterdir())
    scope, wrong = br.Scope(), dict[str, Any](fresh=True, **given)
    steps: Any = partial(br.training, net()[0], batches(), scope=scope)
    cases: list[tuple[Any, Any, str]] = [
        ({"t": 0}, br.ProgramError, r"invalid multiple in pad_to=\{'t': 0\}"),
        ({"t": 2.5}, br.ProgramError, "invalid multiple"),
        (16, br.ProgramError, "expected a dict for pad_to, got 16"),
        ({"steps": 8}, br.UnknownNameError, "unknown dimension `steps` in pad_to"),
    ]
    for pad_to, error, words in cases:
        for call in (fit, steps):
            with pytest.raises(error, match=words):
                call(pad_to=pad_to, **wrong)
        with pytest.raises(error, match=words):
            br.evaluate(net()[0], batches(), scope, pad_to=pad_to)
    assert not list(scope.names())
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_errors_of_padded_batches_name_the_batch() -> None:
    good, bad = batches()[0], batches()[1]
    for change, words in (
        ({"x": bad["x"][:, :, :1]}, "shape mismatch of the feed `x`"),
        ({"mask": bad["mask"][:, :1]}, "shape mismatch of the feed `mask`"),
        ({"x": bad["x"].astype("complex64")}, "cannot convert the feed `x`"),
    ):
        for ahead in (0, 2):
            with pytest.raises(br.FeedError, match=words) as caught:
                fit_of([good, bad | change], ahead=ahead)
            assert caught.value.at == "epoch 1, batch 2"
        with pytest.raises(br.FeedError, match=words) as caught:
            br.evaluate(
                net()[0],
                [good, bad | change],
                br.Executor().init(net()[0]),
                pad_to={"t": 8},
            )
        assert caught.value.at == "evaluation: epoch 1, batch 2"


def fit_of(data: Any, **options: Any) -> Any:
    return br.fit(
        net()[0], data, pad_to={"t": 8}, quiet=True, exe=executor("compile"), **options
    )


def test_a_generator_of_padded_batches_restarts_in_each_epoch() -> None:
    def rows(epoch: int) -> Iterator[dict[str, Any]]:
        yield from batches()[epoch:]

    data = br.batches(rows, varying=True)
    run = br.fit(
        net()[0],
        data,
        epochs=2,
        pad_to={"n": 4, "t": 8},
        exe=executor("compile"),
        quiet=True,
    )
    assert run.step == 4 + 3


def test_the_keyword_pad_is_answered_with_pad_to() -> None:
    with pytest.raises(TypeError, match="Use pad_to="):
        fit(pad={"t": 8})
