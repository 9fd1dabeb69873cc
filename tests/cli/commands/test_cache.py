"""`braces cache`."""

from __future__ import annotations

from pathlib import Path

import pytest

from braces.cli.main import main
from braces.lower.cache.cache_directory import (
    JAX_VARIABLE,
    MARKER,
    VARIABLE,
    list_entries,
    prepare_cache,
    processor_name,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled code, which is not there yet."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "named"))
    monkeypatch.delenv(JAX_VARIABLE, raising=False)
    return tmp_path / "named" / "xla"


def fill(folder: Path) -> None:
    """Two files, one of them in a folder of its own as XLA has them for a GPU."""
    assert prepare_cache(folder)
    tuning = folder / processor_name() / "xla_gpu_per_fusion_autotune_cache_dir"
    tuning.mkdir()
    (tuning / f"{'x' * 43}.textproto").write_bytes(bytes(500))
    (folder / processor_name() / f"two-{'0' * 64}-cache").write_bytes(bytes(1000))


def test_the_folder_and_its_size_are_printed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{folder}\n0 files, 0 B of at most 1.1 GB\n"
    assert not folder.exists()
    fill(folder)
    assert main(["cache"]) == 0
    assert capsys.readouterr().out == f"{folder}\n2 files, 1.5 kB of at most 1.1 GB\n"


def test_clear_removes_its_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(folder)
    (folder.parent / "beside").write_bytes(b"1")
    assert main(["cache", "--clear"]) == 0
    assert capsys.readouterr().out == f"{folder}\n2 files removed, 1.5 kB\n"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [MARKER]
    assert (folder.parent / "beside").exists()


def test_a_folder_of_jax_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(JAX_VARIABLE, str(folder.parent / "other"))
    assert main(["cache"]) == 0
    assert JAX_VARIABLE in capsys.readouterr().out


def test_where_nothing_is_kept_the_answer_is_no(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert main(["cache"]) == 1
    assert VARIABLE in capsys.readouterr().out


def test_a_folder_of_others_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(folder)
    folder.chmod(0o777)
    assert main(["cache", "--clear"]) == 1
    assert "not used" in capsys.readouterr().out
    folder.chmod(0o700)
    assert len(list_entries(folder)) == 2
