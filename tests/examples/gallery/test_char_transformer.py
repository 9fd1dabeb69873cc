"""The character transformer at a small size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import braces as br
from braces import layers
from examples.gallery.char_transformer import __main__ as comparison, model, training
from examples.gallery.char_transformer.model import CHARACTERS, SMALL
from tests.examples.gallery.scopes import copy_of

pytestmark = pytest.mark.unoptimized


@pytest.fixture(scope="module")
def trained() -> training.Trained:
    return training.train(SMALL)


def test_the_loss_falls(trained: training.Trained) -> None:
    assert len(trained.losses) == SMALL.steps
    assert np.mean(trained.losses[-5:]) < 0.8 * trained.losses[0]
    assert trained.test < trained.losses[0]


def test_texts_are_encoded_and_decoded() -> None:
    text = "def f():\n    return 'x'\0"
    assert training.decode(training.encode(text)) == text
    assert training.decode(training.encode("naïve→")) == "na?ve?"
    rows = training.rows_of("abcdefg", 3)
    assert [training.decode(row) for row in rows] == ["abcd", "defg"]


def test_the_text_to_test_has_other_modules() -> None:
    train, test = training.read_library(30_000)
    assert len(train) == 30_000
    assert len(test) == 3_000
    assert test not in train


def test_a_cache_of_keys_and_values_gives_the_logits_of_the_whole_row() -> None:
    with br.Program() as prog:
        start = br.data("start", ["n", "before"], dtype="int32")
        rest = br.data("rest", ["n", "after"], dtype="int32")
        empty = layers.attention_cache(start.shape[0], SMALL.length, SMALL.heads, 16)
        first, caches = model.transform(SMALL, start, [empty])
        second, _ = model.transform(SMALL, rest, caches)
    with br.Program() as whole:
        ids = br.data("ids", ["n", "length"], dtype="int32")
        logits, _ = model.transform(SMALL, ids, [None])
    exe = br.Executor(mode="interpret")
    scope = exe.init(prog)
    rows = np.random.default_rng(0).integers(0, len(CHARACTERS), (2, 9))
    parts = exe.run(prog, scope, {"start": rows[:, :5], "rest": rows[:, 5:]}, [first, second])
    want = exe.run(whole, scope, {"ids": rows}, logits)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), want, atol=1e-4)


def test_both_modes_write_the_same_text(trained: training.Trained) -> None:
    texts = [
        training.write(replace(trained, scope=copy_of(trained.scope)), "def ", 0.8, mode)[0]
        for mode in ("compile", "interpret")
    ]
    assert texts[0] == texts[1]
    assert texts[0].startswith("def ")


def test_pytorch_computes_the_same_losses(trained: training.Trained) -> None:
    pytest.importorskip("torch")
    from examples.gallery.char_transformer import pytorch

    few = 5
    stored = {
        **trained.first,
        "batches": trained.batches[:few],
        "rates": comparison.rates_of(SMALL)[:few],
        "heads": SMALL.heads,
    }
    losses, _ = pytorch.train(stored)
    np.testing.assert_allclose(losses, trained.losses[:few], rtol=1e-4)
