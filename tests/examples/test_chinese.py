"""The example of Chinese words, on small models of the same form."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from examples.chinese import fetch
from examples.chinese.__main__ import main
from examples.chinese.lac import Lac, Net, Tables, joined, weights
from paddle_writing import Written

pytestmark = pytest.mark.unoptimized

WIDE = "\N{FULLWIDTH LATIN SMALL LETTER A}"
VOCABULARY = ("OOV", "北京", "在", "我", "a")
LABELS = {"lac": ("LOC-B", "LOC-I", "v-B", "v-I"), "seg": ("-B", "-I", "-E", "-S")}


def model(kind: str) -> Written:
    """A table of what speaks for each label, and the likeliest ones in a row."""
    p = Written()
    words = p.feed("words", -1, 1, dtype="int64", level=1)
    table = np.eye(5, 4, dtype=np.float32)
    p.op(
        "lookup_table", {"W": p.weight("w", table), "Ids": words}, {"Out": "x"}, padding_idx=-1
    )
    if kind == "rank":
        p.feed("entity", -1, 1, dtype="int64", level=1)
        p.op("cast", {"X": "entity"}, {"Out": "said"}, out_dtype=5)
        p.op("elementwise_add", {"X": "x", "Y": "said"}, {"Out": "both"}, axis=0)
        p.op("arg_max", {"X": "both"}, {"Out": "label"}, axis=-1, dtype=3)
    else:
        given = {"Emission": "x", "Transition": p.weight("t", np.zeros((6, 4), np.float32))}
        p.op("crf_decoding", given, {"ViterbiPath": "label"})
    p.fetch("label")
    return p


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The models in an archive, as the package has them, and unpacked from it."""
    for kind in fetch.KINDS:
        model(kind).save(tmp_path / f"LAC-1/LAC/{kind}_model/model", "alone")
        place = tmp_path / f"LAC-1/LAC/{kind}_model/conf"
        place.mkdir()
        labels = enumerate(LABELS.get(kind, LABELS["lac"]))
        (place / "tag.dic").write_text("".join(f"{n}\t{label}\n" for n, label in labels))
        words = "".join(f"{n}\t{word}\n" for n, word in enumerate(VOCABULARY))
        (place / "word.dic").write_text(words, encoding="utf-8")
        (place / "q2b.dic").write_text(f"{WIDE}\ta\n", encoding="utf-8")
        (place / "small_seg.dic").write_text("北京 7\n北京人 1\n我 9\n", encoding="utf-8")
    with tarfile.open(tmp_path / f"LAC-{fetch.VERSION}.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "LAC-1", "LAC-1")
        for name in ("LAC-1/LAC/../lac_model/evil", "LAC-1/setup.py"):
            packed.addfile(tarfile.TarInfo(name), io.BytesIO())
    fetch.fetch(tmp_path)
    assert sorted(path.name for path in (tmp_path / fetch.PACKAGE).iterdir()) == [
        "lac_model", "rank_model", "seg_model",
    ]  # fmt: skip
    assert not list(tmp_path.rglob("evil"))
    return tmp_path


def test_sentences_become_pieces_of_the_dictionary(folder: Path) -> None:
    tables = Tables.read(fetch.get("lac", folder) / "conf", whole=True)
    assert tables.cut("我在北京abc") == ["我", "在", "北京", "abc"]
    assert tables.cut("北京人") == ["北京人"]
    assert tables.split("北京人在") == ["北", "京", "人", "在"]  # the net has no such number
    assert [tables.number(text) for text in ("北京", WIDE, "a", "Ω")] == [1, 4, 4, 0]


def test_labels_say_where_words_begin() -> None:
    labels = ["LOC-B", "LOC-I", "v-B", "n-B"]
    assert joined("北京在人", labels) == [("北京", "LOC"), ("在", "v"), ("人", "n")]


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_sentences_of_any_length_are_cut_tagged_and_weighed(mode: str, folder: Path) -> None:
    texts = ["我北京", "在", "北京在在我"]
    lac = Lac.read("lac", folder, mode)
    assert lac.words(texts) == [
        [("我北京", "LOC")],  # a label that goes on, though none began
        [("在", "v")],
        [("北京", "LOC"), ("在", "v"), ("在我", "v")],
    ]
    cut = Lac.read("seg", folder, mode).words(texts)
    assert cut[0] == [("我", ""), ("北", ""), ("京", "")]  # by characters
    rank = Net.read(fetch.get("rank", folder) / "model", mode)
    assert weights(lac, rank, texts[:2]) == [[("我北京", 3)], [("在", 2)]]


def test_the_command_prints_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tag", "我在", "--folder", str(folder)])
    assert capsys.readouterr().out == "我/v 在/v\n"
    with pytest.raises(fetch.NotThereError, match=r"examples\.chinese fetch"):
        main(["cut", "--folder", str(folder / "nowhere")])
