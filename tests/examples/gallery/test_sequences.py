"""Sequence models of the gallery at a small size, in both modes."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import braces as br
from examples.gallery import chorales, crf_tagger

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


# ---- chorales --------------------------------------------------------------------------------

PIECES = chorales.look_alike(24, 0)
NOTE = "<note><pitch><step>{}</step><alter>1</alter><octave>4</octave></pitch>{}</note>"


@dataclass(frozen=True)
class Run:
    """Another executor for the values of a training."""

    exe: br.Executor
    scope: br.Scope


@pytest.fixture(scope="module")
def composer() -> chorales.Trained:
    return chorales.train(chorales.SMALL, PIECES[8:], PIECES[:8], quiet=True)


def score(folder: Path, parts: list[str]) -> Path:
    measures = "".join(
        f"<part><measure><attributes><divisions>2</divisions></attributes>{notes}</measure></part>"
        for notes in parts
    )
    with zipfile.ZipFile(folder / "score.mxl", "w") as archive:
        archive.writestr("META-INF/container.xml", "<container/>")
        archive.writestr("score.xml", f"<score-partwise>{measures}</score-partwise>")
    return folder / "score.mxl"


def test_a_score_becomes_chords_on_quarter_notes(tmp_path: Path) -> None:
    long, short = "<duration>4</duration>", "<duration>1</duration>"
    moving = NOTE.format("C", short) * 2 + "<note><rest/><duration>2</duration></note>"
    parts = [NOTE.format("G", long)] * 3 + [moving]
    found = chorales.chords(score(tmp_path, parts))
    assert found is not None
    assert found.tolist() == [[68 - 27] * 3 + [61 - 27], [68 - 27] * 3 + [0]]
    assert chorales.chords(score(tmp_path, parts[:3])) is None
    assert chorales.chords(score(tmp_path, [*parts[:3], moving + "<backup/>"])) is None


def test_a_midi_file_has_the_notes_of_the_chorale() -> None:
    song = np.array([[33, 30, 20, 10], [33, 31, 20, 0], [33, 31, 21, 12]])
    content = chorales.midi(song)
    assert content[:14] == b"MThd\0\0\0\6\0\1\0\5\0\1"
    assert content.count(b"MTrk") == content.count(b"\0\xff\x2f\0") == 5
    soprano, bass = (chorales.events(song[:, voice], voice) for voice in (0, 3))
    assert soprano == bytes([0, 0x90, 60, 80, 3, 0x80, 60, 0])
    assert bass == bytes([0, 0x93, 37, 80, 1, 0x83, 37, 0, 1, 0x93, 39, 80, 1, 0x83, 39, 0])


def test_transposed_chorales_keep_their_intervals() -> None:
    batch = chorales.columns(PIECES[:1])
    feed = {name: column[0][None] for name, column in batch.items()}
    moved = chorales.transpose(feed, np.random.default_rng(3))["chords"][0]
    assert not moved[0].any()
    assert len({*(moved[1:] - PIECES[0]).ravel().tolist()}) == 1


def test_the_composer_learns_and_stays_in_range(composer: chorales.Trained) -> None:
    losses = composer.run.history["val_loss"]
    assert losses[-1] < losses[0]
    songs = composer.compose(3, temperature=1.0)
    assert songs.shape == (3, chorales.SMALL.steps, 4)
    assert songs.min() >= 0
    assert songs.max() < chorales.KEYS
    assert not np.array_equal(songs, composer.compose(3, temperature=1.0))
    assert chorales.draw(songs[0] + 1).endswith("</svg>\n")


def test_what_is_sampled_is_likeliest_to_the_trainer(
    composer: chorales.Trained, mode: str
) -> None:
    """At a low temperature each key is that of the largest logit in the training program."""
    exe, net = br.Executor(mode=mode), composer.net
    trained = replace(composer, run=Run(exe, composer.run.scope))
    songs = trained.compose(2, temperature=1e-6)
    feed = {"chords": np.pad(songs, [(0, 0), (1, 0), (0, 0)])}
    names = [f"{voice}/key" for voice in chorales.VOICES]
    logits = exe.evaluate(net.trainer, composer.run.scope, feed, names)
    np.testing.assert_array_equal(np.stack(logits, axis=2).argmax(-1), songs)
