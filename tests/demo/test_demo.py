"""The demo: short runs in tests; its accuracy is checked once, in full."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

import braces as br
from braces import load_model
from braces.cli.main import main
from braces.demo import run
from braces.demo.digits import Images, load_images
from braces.demo.model import Settings, build
from braces.demo.progress import show_progress
from braces.demo.train import train
from braces.lazy import sklearn_datasets


def quiet(epoch: int, loss: float, accuracy: float) -> None:
    del epoch, loss, accuracy


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path, str]:
    """The demo as users run it: status, folder, and what it said."""
    out, said = tmp_path_factory.mktemp("demo") / "new" / "folder", io.StringIO()
    status = run.run_demo(out, None, said)
    return status, out, said.getvalue()


# ---- data ------------------------------------------------------------------------------------


def test_no_test_image_is_learned_from() -> None:
    training, test = load_images()
    assert (len(training), len(test)) == (1347, 450)
    learned = {image.tobytes() for image in training.pixels}
    assert not any(image.tobytes() in learned for image in test.pixels)
    assert set(test.digits) == set(range(10))


def test_batches_take_each_image_at_most_once() -> None:
    images = Images(
        np.arange(10 * 64, dtype=np.float32).reshape(10, 8, 8), np.arange(10, dtype=np.int32)
    )
    batches = list(images.batches(4, 0.0, np.random.default_rng(0)))
    seen = np.concatenate([batch.digits for batch in batches])
    assert [len(batch) for batch in batches] == [4, 4]
    assert len(set(seen)) == 8
    for batch in batches:
        np.testing.assert_array_equal(batch.pixels, images.pixels[batch.digits])


def test_without_scikit_learn_the_way_out_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.delitem(vars(sklearn_datasets), "load_digits", raising=False)
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 1
    assert 'pip install "braces[demo]"' in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


# ---- the whole -------------------------------------------------------------------------------


def test_the_net_reads_digits_that_it_never_saw(whole: tuple[int, Path, str]) -> None:
    status, out, said = whole
    assert status == 0
    assert "bitwise equal" in said
    _, test = load_images()
    logits = load_model(out / run.MODEL_FILE).run(image=test.pixels)["logits"]
    assert np.mean(logits.argmax(-1) == test.digits) >= 0.97


def test_it_prints_the_program_and_plain_lines(whole: tuple[int, Path, str]) -> None:
    _, _, said = whole
    assert "loop(init=" in said
    assert f"epoch {Settings().epochs}/{Settings().epochs}  loss" in said
    assert "\033" not in said
    assert "\r" not in said


def test_it_writes_a_model_and_a_page_with_the_curve(whole: tuple[int, Path, str]) -> None:
    _, out, _ = whole
    assert {path.name for path in out.iterdir()} == {run.MODEL_FILE, run.PAGE_FILE}
    page = (out / run.PAGE_FILE).read_text(encoding="utf-8")
    assert page.count("<circle") == 2 * Settings().epochs
    assert "://" not in page
    assert "demo/model.py:" in page


def test_the_model_can_be_trained_further(whole: tuple[int, Path, str]) -> None:
    _, out, _ = whole
    model = load_model(out / run.MODEL_FILE)
    assert {"predict", "train"} <= set(model.programs)
    before = model.scope.var("digit_logits.b").value
    training, _ = load_images()
    model.scope.var("adam/count").set(np.int32(0))
    model.run_program("train", image=training.pixels[:32], digit=training.digits[:32])
    assert not np.array_equal(before, model.scope.var("digit_logits.b").value)


def test_other_predictions_end_with_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        run,
        "predict_in_subprocess",
        lambda path, pixels: np.zeros((len(pixels), 10), np.float32),
    )
    said = io.StringIO()
    assert run.run_demo(tmp_path, 1, said) == 1
    assert "DIFFER" in said.getvalue()


def test_a_fresh_process_that_fails_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert main(["demo", "--out", str(tmp_path), "--epochs", "1"]) == 1
    assert "RunError: the new process ended with status 1." in capsys.readouterr().err


def test_the_same_seed_gives_the_same_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(units=8, epochs=1)
    training, test = load_images()
    found = [
        train(build(settings, 42), training, settings, quiet).predict(test.pixels) for _ in "ab"
    ]
    np.testing.assert_array_equal(*found)


def test_both_modes_agree_on_the_net(mode: str) -> None:
    net = build(Settings(units=8), 10)
    scope, executor = br.Scope(), br.Executor(mode=mode)
    executor.init(net.program, scope, seed=1)
    feed = {"image": np.ones((3, 8, 8), np.float32), "digit": np.zeros(3, np.int32)}
    loss, logits = executor.run(net.program, scope, feed, [net.loss, net.logits])
    shifted = logits - logits.max(-1, keepdims=True)
    want = np.mean(np.log(np.exp(shifted).sum(-1)) - shifted[:, 0])
    np.testing.assert_allclose(loss, want, rtol=1e-5)


# ---- progress --------------------------------------------------------------------------------


def test_a_terminal_gets_a_bar() -> None:
    screen = Screen()
    with show_progress(screen, 2) as report:
        report(1, 0.5, 0.75)
        report(2, 0.25, 0.875)
    assert "2/2" in screen.getvalue()
    assert "loss 0.2500" in screen.getvalue()
    assert "87.5%" in screen.getvalue()


def test_elsewhere_first_and_last_epoch_have_a_line() -> None:
    said = io.StringIO()
    with show_progress(said, 100) as report:
        for epoch in range(1, 101):
            report(epoch, 1 / epoch, 0.5)
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("epoch   1/100  loss 1.0000  accuracy 50.0%")
    assert lines[-1].startswith("epoch 100/100")
    assert len(lines) < 12
