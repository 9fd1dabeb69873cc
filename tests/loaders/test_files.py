"""Data sets in files."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

X = np.random.default_rng(0).random((50, 4), np.float32)
Y = np.arange(50)
WANTED = [(b["x"].tolist(), b["y"].tolist()) for b in br.batches({"x": X, "y": Y}, 8)]


def contents(data: br.Batches) -> list[Any]:
    return [(batch["x"].tolist(), batch["y"].tolist()) for batch in data]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    np.savez(tmp_path / "stored.npz", x=X, y=Y)
    np.savez_compressed(tmp_path / "packed.npz", x=X, y=Y)
    np.savez(tmp_path / "fortran.npz", x=np.asfortranarray(X), y=Y)
    scope = br.Scope()
    scope.var("x").set(X)
    scope.var("y").set(Y)
    br.save_parameters(scope, tmp_path / "own.safetensors")
    return tmp_path


@pytest.mark.parametrize("name", ["stored.npz", "packed.npz", "fortran.npz", "own.safetensors"])
@pytest.mark.parametrize("kind", [str, Path])
def test_files_of_arrays_give_the_batches_of_their_arrays(
    folder: Path, name: str, kind: type
) -> None:
    data = br.batches(kind(folder / name), 8)
    assert contents(data) == WANTED
    assert br.batches(folder / name, 8, names=["y"]).names == ("y",)


def test_columns_may_be_paths_of_arrays(folder: Path) -> None:
    assert contents(br.batches({"x": folder / "x.npy", "y": Y}, 8)) == WANTED
    paths = (str(folder / "x.npy"), str(folder / "y.npy"))
    assert contents(br.batches(paths, 8, names=("x", "y"))) == WANTED


def test_an_array_has_the_name_of_its_file_or_a_given_one(folder: Path) -> None:
    assert br.batches(folder / "x.npy", 8).names == ("x",)
    assert br.batches(folder / "x.npy", 8, names=["image"]).names == ("image",)


@pytest.mark.parametrize("name", ["large.npy", "large.npz"])
def test_memory_maps_are_not_read_as_a_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    large = np.zeros((4000, 1000), np.float32)  # 16 MB
    np.save(path, large) if name.endswith("npy") else np.savez(path, large=large)
    tracemalloc.start()
    data = br.batches(path, 10, names=["large"])
    for _, batch in zip(range(5), data, strict=False):
        assert batch["large"].shape == (10, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("a.csv", b"", br.FeedError, "unknown suffix '.csv'"),
        ("a.npy", b"nonsense", br.FileFormatError, "cannot read"),
        ("a.npz", b"nonsense", br.FileFormatError, "cannot read"),
        ("a.safetensors", b"nonsense", br.FileFormatError, "safetensors"),
    ],
)
def test_damaged_files_are_refused(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=words):
        br.batches(tmp_path / name)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    objects = np.array([{}, []], dtype=object)
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "a.npz", x=objects)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(br.FileFormatError, match="cannot read"):
            br.batches(tmp_path / name)


def test_missing_files_and_columns_are_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        br.batches(folder / "nowhere.npy")
    with pytest.raises(br.UnknownNameError, match="unknown column `z`"):
        br.batches(folder / "stored.npz", names=["x", "z"])


def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from braces.loaders.files import arrow_files

    absent = type(arrow_files.pyarrow)("pyarrow_absent", extra="parquet", package="pyarrow")
    monkeypatch.setattr(arrow_files, "pyarrow_parquet", absent)
    (tmp_path / "a.parquet").write_bytes(b"")
    with pytest.raises(br.MissingPackageError, match=r"braces\[parquet\]"):
        br.batches(tmp_path / "a.parquet")


# ---- Arrow and Parquet -----------------------------------------------------------------------


@pytest.fixture
def table() -> Any:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    flat = pa.array(X.ravel())
    words = [list(range(i % 5 + 1)) for i in range(50)]
    return pa.table({"x": pa.FixedSizeListArray.from_arrays(flat, 4), "y": Y, "word": words})


def write(table: Any, path: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=12)
        return path
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=12):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("name", ["a.arrow", "a.parquet"])
def test_rows_of_arrow_are_complete_and_resume(table: Any, tmp_path: Path, name: str) -> None:
    data = br.batches(write(table, tmp_path / name), 8, names=["y", "x"])
    whole = list(data.epoch(1))
    rows = np.concatenate([batch["y"] for batch in whole])
    assert sorted(rows) == list(range(50)) != rows.tolist()
    np.testing.assert_array_equal(np.concatenate([b["x"] for b in whole]), X[rows])
    for start in range(len(data) + 1):
        assert contents(data.epoch(1, start)) == contents(whole[start:])
    if name == "a.arrow":
        assert contents(data) == WANTED


def test_parquet_is_read_by_row_groups(table: Any, tmp_path: Path) -> None:
    data = br.batches(write(table, tmp_path / "a.parquet"), 12, names=["y"])
    groups = [set(batch["y"] // 12) for batch in data]
    assert max(map(len, groups)) <= 2
    assert data.fingerprint()["groups"] == 5
    paths = [tmp_path / "a.parquet"] * 2
    assert br.batches(paths, 10, names=["y"]).rows == 100


@pytest.mark.parametrize("name", ["a.arrow", "a.parquet"])
def test_lists_of_arrow_are_sequences(table: Any, tmp_path: Path, name: str) -> None:
    data = br.batches(write(table, tmp_path / name), 8, bucket_by="word", sizes=(2, 5), pad=-1)
    for batch in data:
        for row, number in zip(batch["word"], batch["y"], strict=True):
            assert [v for v in row.tolist() if v >= 0] == list(range(number % 5 + 1))


def test_nulls_and_texts_of_arrow_are_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    for values, words in (([1, None], "1 nulls"), (["a", "b"], "expected numbers for `v`")):
        path = write(pa.table({"v": values}), tmp_path / "a.parquet")
        with pytest.raises(br.BracesError, match=words):
            br.batches(path)
    (tmp_path / "b.parquet").write_bytes(b"nonsense")
    with pytest.raises(br.FileFormatError, match="cannot read"):
        br.batches(tmp_path / "b.parquet")
