"""The file format: writing, reading, and errors."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as arrays_of

from braces.dtypes import COMPUTED
from braces.errors import FileFormatError, UnknownNameError
from braces.extend.types import SHORT_NAMES, STORED
from braces.storage import tensor_file
from braces.storage.tensor_file import Array, open_tensors, write_tensors

SHAPES = [(), (1,), (3,), (2, 3), (0,), (4, 0, 2), (2, 1, 1, 3)]


def bits(array: Array) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.name, array.shape, array.tobytes()


def sample(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int = 0) -> Array:
    """Every bit pattern is possible, NaNs with payloads too."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape)) * dtype.itemsize
    data = rng.integers(0, 2 if dtype.kind == "b" else 256, size, np.uint8)
    return data.view(dtype).reshape(shape)


def read_all(path: Path) -> dict[str, Array]:
    with open_tensors(path) as file:
        return {name: file.read(name) for name in file.types}


def forged(header: Any, data: bytes = b"") -> bytes:
    """A file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: Any = "F32", shape: Any = (2,), place: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


def refused(path: Path, content: bytes) -> FileFormatError:
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        read_all(path)
    assert caught.value.at == str(path)
    return caught.value


# ---- round trips -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SHORT_NAMES.values(), ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_bit_comes_back(
    dtype: np.dtype[Any], shape: tuple[int, ...], tmp_path: Path
) -> None:
    array = sample(dtype, shape)
    write_tensors(tmp_path / "f", {"a": array}, "braces.test")
    assert bits(read_all(tmp_path / "f")["a"]) == bits(array)


def test_many_arrays_come_back(tmp_path: Path) -> None:
    wanted = {
        f"{short}/{i}": sample(dtype, shape)
        for short, dtype in SHORT_NAMES.items()
        for i, shape in enumerate(SHAPES)
    }
    write_tensors(tmp_path / "f", wanted, "braces.test", more=[1, {"a": None}])
    with open_tensors(tmp_path / "f") as file:
        assert file.types.keys() == wanted.keys()
        assert file.record["more"] == [1, {"a": None}]
        for name in file.types:
            assert bits(file.read(name)) == bits(wanted[name])


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z][\w.@/-]{0,20}", fullmatch=True),
        arrays_of.arrays(
            st.sampled_from([np.float32, np.int64, np.bool_, np.complex128]),
            arrays_of.array_shapes(min_dims=0, min_side=0),
        ),
        max_size=5,
    )
)
def test_any_names_and_shapes_come_back(tmp_path: Path, wanted: dict[str, Array]) -> None:
    write_tensors(tmp_path / "f", wanted, "braces.test")
    found = read_all(tmp_path / "f")
    assert {n: bits(a) for n, a in found.items()} == {n: bits(a) for n, a in wanted.items()}


def test_an_array_with_gaps_in_memory_is_written_in_order(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.int32).reshape(4, 6)[::2, ::-1].T
    write_tensors(tmp_path / "f", {"a": array}, "braces.test")
    np.testing.assert_array_equal(read_all(tmp_path / "f")["a"], array)


def test_what_was_read_can_be_changed(tmp_path: Path) -> None:
    write_tensors(tmp_path / "f", {"a": np.zeros(3)}, "braces.test")
    read_all(tmp_path / "f")["a"][0] = 1.0


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    wanted = {"b": np.zeros(3, np.float32), "a": np.ones(2), "c": np.ones((), np.int8)}
    write_tensors(tmp_path / "f", wanted, "braces.test")
    write_tensors(tmp_path / "g", dict(reversed(wanted.items())), "braces.test")
    assert (tmp_path / "f").read_bytes() == (tmp_path / "g").read_bytes()


def test_names_in_other_scripts_come_back(tmp_path: Path) -> None:
    write_tensors(tmp_path / "f", {"größe/β": np.zeros(1)}, "braces.test")
    assert list(read_all(tmp_path / "f")) == ["größe/β"]


# ---- the library of the format ---------------------------------------------------------------


def test_the_bytes_are_those_that_the_library_writes(tmp_path: Path) -> None:
    record = {"é": 'a "b" \\ /\n\x01', "list": [1, {"a": None}]}
    whole = json.dumps({"format": "braces.test", "version": 1, **record})
    plain = {short: dtype for short, dtype in COMPUTED.items() if short != "c128"}
    wanted = {
        f"{shape}/{short}": sample(dtype, shape)
        for short, dtype in plain.items()
        for shape in SHAPES
    }
    wanted |= {"größe/β": np.zeros(3), "z": np.zeros((), np.bool_), "Z": np.zeros(1, np.int8)}
    for some in ({}, {"z": wanted["z"]}, wanted):
        write_tensors(tmp_path / "f", some, "braces.test", **record)
        specs = {
            name: safetensors.TensorSpec(
                dtype=array.dtype.name,
                shape=array.shape,
                data_ptr=array.ctypes.data,
                data_len=array.nbytes,
            )
            for name, array in some.items()
        }
        library = safetensors.serialize(specs, {"braces": whole})
        assert (tmp_path / "f").read_bytes() == library


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    dtypes = {short: dtype for short, dtype in COMPUTED.items() if short != "c128"}
    wanted = {short: sample(dtype, (2, 3)) for short, dtype in dtypes.items()}
    write_tensors(tmp_path / "f", wanted, "braces.test")
    found = dict(safetensors.deserialize((tmp_path / "f").read_bytes()))
    assert found.keys() == wanted.keys()
    for short, array in wanted.items():
        assert found[short]["dtype"] == short.upper()
        assert found[short]["shape"] == [2, 3]
        assert bytes(found[short]["data"]) == array.tobytes()


@pytest.mark.parametrize("short", STORED)
def test_what_is_only_stored_reads_as_bytes_elsewhere(short: str, tmp_path: Path) -> None:
    array = np.array([1, 2, 0.5]).astype(STORED[short])
    write_tensors(tmp_path / "f", {"x": array}, "braces.test")
    found = safetensors.numpy.load_file(tmp_path / "f")
    np.testing.assert_array_equal(found["x"], array.view("u1"))


@pytest.mark.parametrize("stored", [{"x": "f32"}, {"y": "f8e5m2"}, {"x": 3}, ["x"], "x"])
def test_a_record_of_what_is_only_stored_is_checked(stored: Any, tmp_path: Path) -> None:
    arrays = {"x": np.zeros(3, "u1"), "z": np.zeros(3)}
    write_tensors(tmp_path / "f", arrays, "braces.test", stored=stored)
    with pytest.raises(FileFormatError, match="expected an array of bytes"):
        read_all(tmp_path / "f")


def test_complex128_reads_as_pairs_elsewhere(tmp_path: Path) -> None:
    write_tensors(tmp_path / "f", {"z": np.array([1 + 2j, 3 - 4j])}, "braces.test")
    found = safetensors.numpy.load_file(tmp_path / "f")
    np.testing.assert_array_equal(found["z"], [[1, 2], [3, -4]])


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    wanted = {
        "half": np.arange(3).astype(ml_dtypes.bfloat16),
        "layer.0.weight": np.eye(3, dtype=np.float16),
        "count": np.array(7, np.uint64),
        "empty": np.zeros((0, 5), np.complex64),
    }
    safetensors.numpy.save_file(wanted, tmp_path / "f", {"format": "np"})
    found = read_all(tmp_path / "f")
    assert {n: bits(a) for n, a in found.items()} == {n: bits(a) for n, a in wanted.items()}


# ---- files from strangers --------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"\0" * 7,
        b"\0" * 8,
        b"\xff" * 8,
        b"\xff" * 64,
        struct.pack("<Q", 1 << 62) + b"{}",
        struct.pack("<Q", 3) + b"{}",
        b"\x0a\x0ebraces.program\x10\x01",
        b"PK\x03\x04" + b"\0" * 100,
        forged(b""),
        forged(b"[]"),
        forged(b"null"),
        forged(b"{"),
        forged(b"\xff\xfe{}"),
        forged("{}".encode("utf-16")),
        forged(b'{"a":' * 5000 + b"1" + b"}" * 5000),
        forged(b"[" * 100_000),
        forged(b'{"a": NaN}'),
        forged(b'{"a":' + b"1" * 10_000 + b"}"),
    ],
)
def test_what_is_no_such_file_is_refused(content: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "f", content)


@pytest.mark.parametrize(
    "declared",
    [
        None,
        [],
        7,
        {},
        entry("F33"),
        entry("F8_E4M3"),
        entry(None),
        entry(["F32"]),
        entry(shape=None),
        entry(shape=2),
        entry(shape=[3]),
        entry(shape=[-2]),
        entry(shape=[2.0]),
        entry(shape=[True, 2]),
        entry(shape=["2"]),
        entry(shape=[1] * 33 + [2]),
        entry(shape=[2**62, 2**62]),
        entry(shape=[0, 2**62, 2**62], place=[0, 0]),
        entry(shape=[10**100]),
        entry(place=None),
        entry(place=[]),
        entry(place=[0]),
        entry(place=[0, 4, 8]),
        entry(place=[8, 0]),
        entry(place=[-8, 0]),
        entry(place=[0, 8.0]),
        entry(place=[4, 12]),
        entry(shape=[10**9], place=[0, 4 * 10**9]),
    ],
    ids=lambda one: json.dumps(one)[:60],
)
def test_an_array_that_cannot_be_is_refused(declared: Any, tmp_path: Path) -> None:
    refused(tmp_path / "f", forged({"a": declared}, b"\0" * 8))


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ({"a": entry(), "b": entry()}, 8),
        ({"a": entry(), "b": entry(place=[4, 12])}, 12),
        ({"a": entry(), "b": entry(place=[9, 17])}, 17),
        ({"a": entry(place=[1, 9])}, 9),
        ({"a": entry()}, 9),
        ({"a": entry()}, 7),
        ({}, 1),
    ],
)
def test_arrays_must_fill_the_data(header: Any, size: int, tmp_path: Path) -> None:
    error = refused(tmp_path / "f", forged(header, b"\0" * size))
    assert "damaged" in error.what
    assert error.given


@pytest.mark.parametrize(
    "name", ["", "../up", "/etc/passwd", "..", ".hidden", "C:\\x", "a b", "a\nb"]
)
def test_a_name_that_no_variable_has_is_refused(name: str, tmp_path: Path) -> None:
    error = refused(tmp_path / "f", forged({name: entry()}, b"\0" * 8))
    assert "invalid name" in error.what


def test_a_name_that_comes_twice_is_one_array(tmp_path: Path) -> None:
    one = json.dumps(entry()).encode()
    (tmp_path / "f").write_bytes(forged(b'{"a":' + one + b',"a":' + one + b"}", b"\0" * 8))
    assert list(read_all(tmp_path / "f")) == ["a"]


@pytest.mark.parametrize(
    "metadata",
    [
        7,
        [],
        {"braces": 7},
        {"braces": "{"},
        {"braces": "[]"},
        {"braces": "{}"},
        {"braces": '{"format": "braces.test"}'},
        {"braces": '{"format": 7, "version": 1}'},
        {"braces": '{"format": "braces.test", "version": true}'},
        {"braces": '{"format": "braces.test", "version": 0}'},
        {"braces": '{"format": "braces.test", "version": 1, "complex128": ["b"]}'},
        {"braces": '{"format": "braces.test", "version": 1, "complex128": ["a"]}'},
        {"braces": '{"format": "braces.test", "version": 1, "complex128": 7}'},
        {"braces": '{"format": "braces.test", "version": 1, "complex128": [["a"]]}'},
    ],
    ids=json.dumps,
)
def test_a_record_that_is_not_well_formed_is_refused(metadata: Any, tmp_path: Path) -> None:
    refused(tmp_path / "f", forged({"__metadata__": metadata, "a": entry()}, b"\0" * 8))


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    record = json.dumps({"format": "braces.test", "version": 2})
    error = refused(tmp_path / "f", forged({"__metadata__": {"braces": record}}))
    assert str(error) == (
        "this file was written by a newer Braces: format 2, this one reads 1.\n"
        f"  at: {tmp_path / 'f'}\n"
        "  Update Braces, or save the file with an older one."
    )


def test_metadata_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(forged({"__metadata__": {"format": "pt", "n": "1"}}))
    with open_tensors(tmp_path / "f") as file:
        assert not file.record


def test_bools_are_zero_or_one(tmp_path: Path) -> None:
    header = {"a": entry("BOOL", place=[0, 2])}
    assert "invalid bools in `a`" in refused(tmp_path / "f", forged(header, b"\1\2")).what


def test_a_huge_header_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "f", "wb") as file:
        file.write(struct.pack("<Q", 1 << 40))
        file.truncate((1 << 40) + 8)  # a file with a hole: it takes no room on the disk
    with pytest.raises(FileFormatError, match="invalid or damaged safetensors file"):
        read_all(tmp_path / "f")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="not a regular file"):
        read_all(tmp_path)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_all(tmp_path / "f")


def test_an_unknown_array_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "f", {"weight": np.zeros(1)}, "braces.test")
    with (
        open_tensors(tmp_path / "f") as file,
        pytest.raises(UnknownNameError, match="Did you mean `weight`"),
    ):
        file.read("wieght")


def test_an_array_that_cannot_be_written_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tensors(tmp_path / "f", {"a": np.zeros(3)}, "braces.test")

    def fail(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(tensor_file, "_in_order", fail)
    with pytest.raises(OSError, match="no space left"):
        write_tensors(tmp_path / "f", {"a": np.ones(3)}, "braces.test")
    assert os.listdir(tmp_path) == ["f"]
    np.testing.assert_array_equal(read_all(tmp_path / "f")["a"], np.zeros(3))


# ---- damage ----------------------------------------------------------------------------------


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    wanted = {"w": sample(np.dtype("f4"), (5, 3)), "z": np.zeros(2, np.complex128)}
    wanted |= {"mask": np.array([True, False]), "s": np.array(3)}
    write_tensors(tmp_path / "whole", wanted, "braces.test", step=3)
    return (tmp_path / "whole").read_bytes()


def test_a_file_cut_anywhere_is_refused(whole: bytes, tmp_path: Path) -> None:
    for length in range(len(whole)):
        refused(tmp_path / "f", whole[:length])


def test_a_file_that_goes_on_is_refused(whole: bytes, tmp_path: Path) -> None:
    for more in (b"\0", whole):
        assert "not fully covered" in str(refused(tmp_path / "f", whole + more))


def test_random_damage_is_refused_or_harmless(whole: bytes, tmp_path: Path) -> None:
    rng, path, refusals = random.Random(0), tmp_path / "f", 0
    for _ in range(1500):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 1, 1, 4])):
            at = rng.randrange(len(content))
            if rng.random() < 0.3:
                del content[at : at + rng.randrange(1, 9)]
            content[at:at] = rng.randbytes(1) if rng.random() < 0.3 else b""
            content[at % len(content)] = rng.randrange(256)
        path.write_bytes(content)
        try:
            found = read_all(path)
        except FileFormatError:
            refusals += 1
        else:
            assert sum(array.nbytes for array in found.values()) <= len(content)
    assert 1000 < refusals < 1500
