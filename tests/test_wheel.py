"""The wheel and the source archive: complete, and described as pyproject.toml says."""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import braces as br
import check_wheel

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return check_wheel.build(tmp_path_factory.mktemp("dist"))


def rewritten(
    wheel: Path, folder: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]
) -> Path:
    """A copy of a wheel in which files are changed, or left out."""
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            if (changed := change(name, old.read(name))) is not None:
                new.writestr(*changed)
    return copy


def test_the_wheel_has_every_file_of_the_package_and_the_declared_metadata(
    built: tuple[Path, Path],
) -> None:
    assert check_wheel.wheel_problems(built[0]) == []


def test_the_source_archive_can_be_built_and_tested(built: tuple[Path, Path]) -> None:
    assert check_wheel.source_problems(built[1]) == []


def test_a_missing_typed_marker_is_reported(built: tuple[Path, Path], tmp_path: Path) -> None:
    def without(name: str, data: bytes) -> tuple[str, bytes] | None:
        return None if name == "braces/py.typed" else (name, data)

    wheel = rewritten(built[0], tmp_path, without)
    assert check_wheel.wheel_problems(wheel) == ["missing: braces/py.typed"]


def test_a_foreign_file_is_reported(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel = tmp_path / built[0].name
    shutil.copy(built[0], wheel)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tests/conftest.py", "")
    assert check_wheel.wheel_problems(wheel) == ["unexpected: tests/conftest.py"]


@pytest.mark.parametrize(
    ("line", "other", "problem"),
    [
        ("License-Expression: Apache-2.0", "License-Expression: MIT", "License-Expression"),
        ("Requires-Python: >=3.11", "Requires-Python: >=3.8", "Requires-Python"),
        ("Requires-Dist: rich>=15", "Requires-Dist: rich", "dependencies"),
        ("Provides-Extra: ray\n", "", "extras"),
        ("Classifier: Typing :: Typed\n", "", "classifiers"),
    ],
)
def test_wrong_metadata_is_reported(
    built: tuple[Path, Path], tmp_path: Path, line: str, other: str, problem: str
) -> None:
    def change(name: str, data: bytes) -> tuple[str, bytes]:
        metadata = name.endswith("/METADATA")
        return name, data.replace(line.encode(), other.encode()) if metadata else data

    (found,) = check_wheel.wheel_problems(rewritten(built[0], tmp_path, change))
    assert problem in found


def test_a_tag_of_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["check_wheel.py", "--tag", "v0.0.9"])
    assert check_wheel.main() == 1
    assert br.__version__ in capsys.readouterr().err


def test_the_citation_names_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [br.__version__]
