"""The examples at a small size: synthetic data of the same form, a few steps, invariants."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from braces.viewer.payload import payload
from examples import early_exit, hares_and_lynxes, sorting, speakers
from examples.spelling import data as words, train as spelling
from examples.spelling.model import Settings as SpellingSettings, build as build_speller

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.unoptimized

# ---- speakers --------------------------------------------------------------------------------

FEW_UNITS = speakers.Settings(units=8, epochs=12, batch=9)


@pytest.fixture(scope="module")
def listener() -> speakers.Trained:
    return speakers.train(FEW_UNITS, speakers.look_alike(90, 1))


def heard(trained: speakers.Trained, utterances: speakers.Utterances, mode: str) -> np.ndarray:
    test = br.prune(trained.net.program.for_test(), [trained.net.logits])
    feed = {"frames": utterances.frames, "lengths": utterances.lengths}
    return br.Executor(mode=mode).run(test, trained.scope, feed, trained.net.logits)


def test_speakers_are_told_apart(listener: speakers.Trained) -> None:
    assert listener.losses[-1] < 0.7 * listener.losses[0]
    assert listener.accuracy(speakers.look_alike(90, 2)) > 0.6


def test_what_lies_in_the_padding_is_never_heard(listener: speakers.Trained, mode: str) -> None:
    utterances = speakers.look_alike(9, 3)
    assert np.isnan(utterances.frames).any()
    logits = heard(listener, utterances, mode)
    assert np.isfinite(logits).all()
    other = replace(utterances, frames=np.nan_to_num(utterances.frames, nan=7.0))
    np.testing.assert_array_equal(heard(listener, other, mode), logits)


def test_the_saved_listener_hears_the_same(listener: speakers.Trained, tmp_path: Path) -> None:
    net, utterances = listener.net, speakers.look_alike(9, 4)
    file = tmp_path / "speakers.model"
    br.save_model(
        file, net.program, listener.scope, feeds=["frames", "lengths"], fetches=[net.logits]
    )
    found = br.load_model(file).run(frames=utterances.frames, lengths=utterances.lengths)
    np.testing.assert_array_equal(found, heard(listener, utterances, "compile"))


# ---- hares and lynxes ------------------------------------------------------------------------

RATES = np.array(list(hares_and_lynxes.FIRST.values()))
THREE_YEARS = hares_and_lynxes.FURS[:4]


def slope(y: np.ndarray) -> np.ndarray:
    a, b, c, d = RATES
    return np.array([(a - b * y[1]) * y[0], (d * y[0] - c) * y[1]])


def small_steps(y: np.ndarray, years: int, steps: int = 1000) -> np.ndarray:
    """The classic formula of order 4 with a fixed step."""
    found, h = [y], 1.0 / steps
    for _ in range(years):
        for _ in range(steps):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + h * k3))
        found.append(y)
    return np.array(found)


def solved(tolerance: float, mode: str = "compile") -> tuple[np.ndarray, np.ndarray]:
    settings = hares_and_lynxes.Settings(tolerance=tolerance)
    fit = hares_and_lynxes.build(settings, THREE_YEARS)
    scope, executor = br.Scope(), br.Executor(mode=mode)
    executor.init(fit.program, scope)
    test = br.prune(fit.program.for_test(), [fit.solution, fit.taken])
    return executor.run(test, scope, fetch=[fit.solution, fit.taken])


def test_the_solver_is_as_exact_as_it_says(mode: str) -> None:
    want = small_steps(THREE_YEARS[0], 3)
    rough, few = solved(1e-3, mode)
    fine, many = solved(1e-6, mode)
    assert np.abs(rough / want - 1).max() < 0.05
    assert np.abs(fine / want - 1).max() < 5e-5
    assert many.sum() > 3 * few.sum()


def test_the_gradient_through_the_solver_is_that_of_differences() -> None:
    settings = hares_and_lynxes.Settings(tolerance=1e-3)
    fit = hares_and_lynxes.build(settings, THREE_YEARS)
    with fit.program:
        log_rate = br.get_variable("b")
        (gradient,) = br.gradients([fit.loss], [log_rate])
    scope, executor = br.Scope(), br.Executor()
    executor.init(fit.program, scope)
    test, at = fit.program.for_test(), scope.var("b").value
    found, taken = executor.run(test, scope, fetch=[gradient, fit.taken])
    losses = []
    for shift in (-1e-6, 1e-6):
        scope.var("b").set(at + shift)
        loss, same = executor.run(test, scope, fetch=[fit.loss, fit.taken])
        np.testing.assert_array_equal(same, taken)
        losses.append(loss)
    np.testing.assert_allclose(found, (losses[1] - losses[0]) / 2e-6, rtol=1e-5)


def test_fitting_brings_the_solution_to_the_furs() -> None:
    found = hares_and_lynxes.fit(
        hares_and_lynxes.Settings(tolerance=1e-3, steps=25), THREE_YEARS
    )
    assert found.losses[-1] < 0.5 * found.losses[0]
    assert len(set(found.taken)) > 1
    assert found.solution.shape == THREE_YEARS.shape


# ---- early exit ------------------------------------------------------------------------------

SMALL = early_exit.Settings(glance=16, units=32, layers=2, epochs=12, learning_rate=1e-2)


@pytest.fixture(scope="module")
def reader() -> early_exit.Trained:
    return early_exit.train(SMALL, early_exit.look_alike(320, 1))


def digits_of(trained: early_exit.Trained, images: early_exit.Images, mode: str) -> list:
    feed = {"image": images.pixels, "digit": images.digits}
    fetches = [trained.net.logits, trained.net.hard]
    test = trained.net.program.for_test()
    return br.Executor(mode=mode).run(test, trained.scope, feed, fetches)


def test_the_threshold_says_how_many_rows_are_studied(reader: early_exit.Trained) -> None:
    images = early_exit.look_alike(100, 2)
    assert reader.losses[-1] < 0.7 * reader.losses[0]
    found = [reader.measure(images, at) for at in (0.0, 0.6, 0.95, early_exit.ALL_ROWS)]
    shares = [one.studied for one in found]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert found[-1].accuracy > 0.5
    assert reader.choose(images).accuracy >= found[-1].accuracy


def test_only_hard_rows_meet_the_expensive_net(reader: early_exit.Trained, mode: str) -> None:
    images, weights = early_exit.look_alike(40, 3), reader.scope.var("study_0.w")
    kept, sure = weights.value, 0.6
    reader.at(sure)
    logits, hard = digits_of(reader, images, mode)
    assert 0 < hard.sum() < len(images)
    weights.set(np.full_like(kept, np.nan))
    try:
        broken, _ = digits_of(reader, images, mode)
    finally:
        weights.set(kept)
    np.testing.assert_array_equal(np.isnan(broken).all(-1), hard)
    np.testing.assert_array_equal(broken[~hard], logits[~hard])


def test_digits_have_the_form_of_the_made_up_ones() -> None:
    parts = early_exit.handwritten()
    assert [len(part) for part in parts] == [1097, 250, 450]
    seen = {image.tobytes() for image in parts[0].pixels}
    assert not any(image.tobytes() in seen for part in parts[1:] for image in part.pixels)
    for one in (*parts, early_exit.look_alike(50, 0)):
        assert one.pixels.dtype == np.float32
        assert one.pixels.shape[1:] == (early_exit.SIDE, early_exit.SIDE)
        assert 0.0 <= one.pixels.min() <= one.pixels.max() <= 1.0


# ---- spelling --------------------------------------------------------------------------------

ENTRIES = words.look_alike(600, 0)
SPEAKER = SpellingSettings(units=24, width=12, batch=32, steps=150, learning_rate=1e-2)


def quiet(step: int, loss: float) -> None:
    del step, loss


@pytest.fixture(scope="module")
def speaker() -> spelling.Trained:
    return spelling.train(SPEAKER, words.encoded(ENTRIES), quiet)


@pytest.fixture(scope="module")
def speaker_file(speaker: spelling.Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("spelling") / "spelling.model"
    speaker.save(str(file))
    return file


def test_words_come_back_from_numbers() -> None:
    encoded = words.encoded(ENTRIES)
    assert words.spoken(encoded.phonemes) == [phonemes for _, phonemes in ENTRIES]
    batches = list(encoded.batches(32, np.random.default_rng(0)))
    assert all(batch.letters.shape[1] in words.BUCKETS for batch in batches)
    assert all((batch.letters != 0).sum() == batch.n.sum() for batch in batches)


def test_no_held_out_word_is_learned_from() -> None:
    training, held_out = words.divided(ENTRIES)
    assert held_out
    assert sorted(training + held_out) == ENTRIES


@pytest.mark.parametrize(
    ("a", "b", "edits"),
    [("", "K AE", 2), ("K AE T", "K AE T", 0), ("K AE T", "AE T S", 2), ("K", "S", 1)],
)
def test_the_distance_counts_edits(a: str, b: str, edits: int) -> None:
    assert words.distance(a.split(), b.split()) == edits
    assert words.distance(b.split(), a.split()) == edits


def test_the_speaker_learns(speaker: spelling.Trained, speaker_file: Path) -> None:
    assert np.isfinite(speaker.losses).all()
    assert np.mean(speaker.losses[-10:]) < 0.4 * np.mean(speaker.losses[:10])
    errors, _ = spelling.measure(br.load_model(speaker_file), ENTRIES)
    assert errors < 0.5


def test_the_saved_decoder_is_a_loop_that_ends_with_the_last_word(
    speaker: spelling.Trained, speaker_file: Path, mode: str
) -> None:
    model = br.load_model(speaker_file, mode=mode)
    assert "phonemes" not in model.feeds
    assert "cond=" in str(model.program())
    letters, n = words.spelled([word for word, _ in ENTRIES[:8]])
    found = model.run(letters=letters, n=n)
    ends = [len(row) + 1 for row in words.spoken(found["phonemes"])]
    assert found["trips"] == min(max(ends), words.LONGEST)
    here = br.Executor().run(
        speaker.net.program.for_test(),
        speaker.scope,
        {"letters": letters, "n": n},
        speaker.net.spoken,
    )
    np.testing.assert_array_equal(found["phonemes"], here)


def test_a_word_is_said_the_same_in_any_company(speaker_file: Path) -> None:
    model, chosen = br.load_model(speaker_file), [word for word, _ in ENTRIES[:12]]
    together = spelling.pronounce(model, chosen)
    assert together == [spelling.pronounce(model, [word])[0] for word in chosen]


def test_a_fresh_process_says_the_same(speaker_file: Path) -> None:
    chosen = [word for word, _ in ENTRIES[:3]]
    command = [sys.executable, "-m", "examples.spelling", "say", str(speaker_file), *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    said = spelling.pronounce(br.load_model(speaker_file), chosen)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines == [[word, *phonemes] for word, phonemes in zip(chosen, said, strict=True)]


def test_every_gradient_of_the_speaker_is_finite() -> None:
    net = build_speller(SpellingSettings(units=6, width=4))
    with net.program:
        weights = [br.get_variable(info.name) for info in net.program.parameters]
        gradients = br.gradients([net.loss], weights)
    assert all(gradient is not None for gradient in gradients)
    scope, executor = br.Scope(), br.Executor()
    executor.init(net.program, scope)
    feed = words.encoded(ENTRIES[:5]).feed()
    for found in executor.run(net.program.for_test(), scope, feed, gradients):
        assert np.isfinite(found).all()
        assert found.any()


# ---- sorting ---------------------------------------------------------------------------------

SHORT = sorting.Settings(layers=2, width=16, heads=2, length=4, batch=32, steps=60)


def test_a_transformer_of_twelve_layers_is_a_list_of_twelve_boxes() -> None:
    net = sorting.build(sorting.Settings())
    main = net.program.block(0)
    forward = [op for op in main.ops if op.type == "block" and "_grad" not in op.name]
    layers = [f"layer_{i}" for i in range(12)]
    assert [op.name for op in forward] == [*layers, "head", "adam"]
    assert len(main.ops) < 40
    assert sum(1 for _ in all_ops(net.program.definition.main)) > 4000
    backward = [
        op.name for op in main.ops if op.type == "block" and op.name.startswith("layer")
    ]
    assert len(backward) == 24
    assert "layer_11/forward/down.b" in {p.name for p in net.program.parameters}
    predict = br.prune(net.program.for_test(), [net.logits])
    text = str(predict).splitlines()
    assert sum(line.startswith("  layer_") and "block()" in line for line in text) == 12
    assert len(predict.blocks) == 1 + 12 * 3 + 1
    drawn = payload(predict, "")
    outermost = drawn["blocks"][drawn["programs"][0]["block"]]
    assert [op["t"] for op in outermost["ops"]].count("block") == 13


def test_layers_that_run_again_learn_the_same() -> None:
    runs = [sorting.train(replace(SHORT, recompute=again)) for again in (False, True)]
    (net, scope, losses), (_, _, other) = runs
    np.testing.assert_allclose(losses, other, rtol=0.05, atol=0.05)
    assert losses[-1] < 0.9 * losses[0]
    digits = np.random.default_rng(1).integers(0, 10, (50, 4), np.int32)
    assert 0.1 < sorting.accuracy(net, scope, digits) <= 1.0
