"""Check that the real data has the form of the synthetic data of the tests.

pip install braces[examples] && python -m pytest examples/check_data.py
"""

from __future__ import annotations

import numpy as np
import pytest

from examples import speakers
from examples.gallery import chorales, crf_tagger
from examples.spelling import data as words


@pytest.mark.filterwarnings("ignore")
def test_the_recordings_have_the_form_of_the_made_up_ones() -> None:
    """Utterances, speakers and lengths of the recordings."""
    found = {split: speakers.recorded(split) for split in ("train", "test")}
    assert {split: len(one) for split, one in found.items()} == {"train": 270, "test": 370}
    for one in (*found.values(), speakers.look_alike(90, 0)):
        assert one.frames.shape[1:] == (speakers.LONGEST, speakers.CHANNELS)
        assert one.lengths.min() == 7
        assert set(one.speakers) == set(range(speakers.SPEAKERS))
        np.testing.assert_array_equal((~np.isnan(one.frames[..., 0])).sum(1), one.lengths)


@pytest.mark.filterwarnings("ignore")
def test_the_dictionary_has_the_form_of_the_made_up_words() -> None:
    """Spellings and phonemes of the dictionary."""
    entries = words.dictionary()
    assert len(entries) > 100_000
    encoded = words.encoded(entries[::100])
    assert words.spoken(encoded.phonemes) == [phonemes for _, phonemes in entries[::100]]


def test_the_chorales_have_the_form_of_the_made_up_cadences() -> None:
    """Needs `pip install --no-deps music21`."""
    pieces = chorales.corpus()
    assert len(pieces) > 300
    for piece in (*pieces, *chorales.look_alike(20, 0)):
        assert piece.dtype == np.int32
        assert piece.shape[1] == len(chorales.VOICES)
        assert piece.min() >= 0
        assert piece.max() < chorales.KEYS
        assert len(piece) <= chorales.SIZES[-1]


def test_the_treebank_has_the_form_of_the_made_up_sentences() -> None:
    """Needs `pip install turkish-treebanks`."""
    sentences = crf_tagger.treebank()
    assert len(sentences) > 4000
    for sentence in (*sentences, *crf_tagger.look_alike(20, 0)):
        text, labels = sentence.characters()
        assert len(text) == len(labels) <= crf_tagger.LONGEST
        assert all((c == " ") == (label == "O") for c, label in zip(text, labels, strict=True))
