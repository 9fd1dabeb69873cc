"""Sequence models of the gallery at a small size, in both modes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import braces as br
from examples.gallery import crf_tagger

pytestmark = pytest.mark.unoptimized

# ---- tagger ----------------------------------------------------------------------------------

SENTENCES = crf_tagger.look_alike(200, 0)
CONLLU = """\
# sent_id = 1
1\tbil\tbil\tVERB\tVB\t_\t2\tig\t_\tSpaceAfter=No
2\tmek\t_\tNOUN\tVN\t_\t3\tcsubj\t_\t_
3\tgüzel\tgüzel\tADJ\tJJ\t_\t0\troot\t_\t_

"""


@pytest.fixture(scope="module")
def tagger() -> crf_tagger.Trained:
    return crf_tagger.train(crf_tagger.SMALL, SENTENCES, quiet=True)


def test_a_treebank_becomes_labels_of_characters() -> None:
    (sentence,) = crf_tagger.parse(CONLLU)
    text, labels = sentence.characters()
    assert text == "bilmek güzel"
    assert labels[2:8] == ["I-VERB", "B-NOUN", "I-NOUN", "I-NOUN", "O", "B-ADJ"]
    assert crf_tagger.segments(labels) == {(0, 3, "VERB"), (3, 6, "NOUN"), (7, 12, "ADJ")}


def test_segments_may_begin_inside() -> None:
    assert crf_tagger.segments(["I-A", "I-A", "O", "B-B"]) == {(0, 2, "A"), (3, 4, "B")}


def test_the_tagger_learns(tagger: crf_tagger.Trained) -> None:
    scores = crf_tagger.measure(tagger, crf_tagger.look_alike(40, 1))
    assert scores.f1 > 0.9
    assert scores.invalid == 0
    assert "/PUNCT" in crf_tagger.shown(tagger, SENTENCES[0])


def test_the_best_path_has_the_largest_score(tagger: crf_tagger.Trained) -> None:
    """The loss of the predicted labels is less than that of others."""
    columns = tagger.tables.columns(SENTENCES[:1])
    length, net = columns["length"], tagger.net
    feed = {"text": columns["text"][0][None], "length": length}
    scope, exe = tagger.run.scope, tagger.run.exe
    path = exe.evaluate(net.program, scope, feed, net.path)

    def loss(labels: np.ndarray) -> float:
        return float(exe.evaluate(net.program, scope, {**feed, "label": labels}, net.loss))

    rng = np.random.default_rng(0)
    for _ in range(5):
        other = path.copy()
        at = rng.integers(length[0])
        other[0, at] = (other[0, at] + rng.integers(1, 5)) % len(tagger.tables.labels)
        assert loss(path.astype("int32")) < loss(other.astype("int32"))


@pytest.mark.parametrize("crf", [True, False])
def test_both_modes_label_the_same(crf: bool) -> None:
    """The loss and the path of two short sentences."""
    short = sorted(SENTENCES, key=lambda sentence: len(sentence.characters()[0]))[:2]
    tables = crf_tagger.Tables.of(short)
    net = crf_tagger.build(replace(crf_tagger.SMALL, units=4, crf=crf), tables, 9)
    columns = tables.columns(short)
    feed = {**columns, "text": np.stack(columns["text"]), "label": np.stack(columns["label"])}
    scope = br.Executor().init(net.program, seed=0)
    loss, path = zip(
        *(
            br.Executor(mode=mode).evaluate(net.program, scope, feed, [net.loss, net.path])
            for mode in ("compile", "interpret")
        ),
        strict=True,
    )
    np.testing.assert_allclose(*loss, rtol=1e-5)
    np.testing.assert_array_equal(*path)
