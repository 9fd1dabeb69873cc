"""Invalid requests: each is refused with its status and a message, and the server goes on."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from braces.serving.http.application import InferenceApp
from tests.serving.asgi import ask, binary_body, body, entry, values

X = np.arange(6, dtype=np.float32).reshape(2, 3)
INFER = "/v2/models/double/infer"


def deep(levels: int) -> bytes:
    return b'{"inputs": ' + b"[" * levels + b"]" * levels + b"}"


BAD_JSON: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not JSON"),
    "half": (body(entry("x", X))[:40], "not JSON"),
    "not utf-8": (b'{"inputs": "\xff\xfe"}', "not UTF-8"),
    "nul": (b"\x00" * 50, "not JSON"),
    "list": (b"[1, 2]", "expected a JSON object, got list"),
    "bare NaN": (body(entry("x", X)).replace(b"0.0", b"NaN"), "NaN is not JSON"),
    "bare Infinity": (body(entry("x", X)).replace(b"0.0", b"Infinity"), "Infinity is not"),
    "deep": (deep(100_000), "nested too deeply"),
    "deep data": (body(entry("x", X, data=json.loads("[" * 90 + "]" * 90))), "`x`"),
    "long integer": (b'{"inputs": ' + b"9" * 5000 + b"}", "not JSON"),
    "no inputs": (b"{}", 'no `inputs`; expected {"inputs": [{"name": "x"'),
    "instances": (b'{"instances": [[1, 2, 3]]}', "the request has no `inputs`"),
    "inputs by name": (b'{"inputs": {"x": [1]}}', 'objects; expected {"inputs": [{"name"'),
    "npz": (b"PK\x03\x04\xff", "add the header Content-Type: application/x-npz"),
    "inputs of numbers": (b'{"inputs": [1]}', "`inputs` is not a list of objects"),
    "no name": (body(entry("x", X, name=None)), "no valid `name`"),
    "empty name": (body(entry("x", X, name="")), "no valid `name`"),
    "name is a number": (body(entry("x", X, name=3)), "no valid `name`"),
    "duplicate input": (body(entry("x", X), entry("x", X)), "duplicate input `x`"),
    "missing input": (body(), "missing input `x`"),
    "unknown input": (body(entry("x", X), entry("z", X)), "unknown input `z`"),
    "unknown datatype": (body(entry("x", X, datatype="FP8")), "unknown datatype 'FP8'"),
    "datatype of texts": (body(entry("x", X, datatype="BYTES")), "unknown datatype 'BYTES'"),
    "datatype is a list": (body(entry("x", X, datatype=[1])), "unknown datatype"),
    "other datatype": (body(entry("x", X, datatype="FP64")), "expected FP32"),
    "no shape": (body(entry("x", X, shape=None)), "`shape` of `x` is not a list"),
    "shape of booleans": (body(entry("x", X, shape=[True, 6])), "`shape` of `x`"),
    "negative shape": (body(entry("x", X, shape=[-2, -3])), "out of range"),
    "huge shape": (body(entry("x", X, shape=[2**62, 3])), "expected shape"),
    "huge size": (body(entry("x", X, shape=[2**64, 3])), "out of range"),
    "product that overflows": (body(entry("x", X, shape=[2**32, 2**32])), "expected shape"),
    "rank of 1000": (body(entry("x", X, shape=[1] * 1000)), "out of range"),
    "other shape": (body(entry("x", X, shape=[3, 2])), "expected FP32[n,3]"),
    "other rank": (body(entry("x", X, shape=[6])), "expected FP32[n,3]"),
    "few values": (body(entry("x", X, data=[1.0])), "1 values; expected shape [2, 3]"),
    "ragged data": (body(entry("x", X, data=[[1.0], [2.0, 3.0]])), "different lengths"),
    "data of texts": (body(entry("x", X, data=["1"] * 6)), "`data` of `x` has a string"),
    "no datatype": (body(entry("x", X, datatype=None)), "missing `datatype` of `x`"),
    "data of null": (body(entry("x", X, data=[None] * 6)), "not FP32"),
    "data of objects": (body(entry("x", X, data=[{}] * 6)), "not FP32"),
    "data of booleans": (body(entry("x", X, data=[True] * 6)), "not FP32"),
    "data is a number": (body(entry("x", X, data=1.5)), "not a list"),
    "no data": (body(entry("x", X, data=None)), "not a list"),
    "too large": (body(entry("x", X, data=[1e300] * 6)), "out of range of FP32"),
    "unknown output": (body(entry("x", X), outputs=[{"name": "q"}]), "unknown output `q`"),
    "duplicate output": (
        body(entry("x", X), outputs=[{"name": "y"}] * 2),
        "duplicate output `y`",
    ),
    "outputs is a text": (body(entry("x", X), outputs="y"), "`outputs` is not a list"),
    "parameters is a list": (body(entry("x", X), parameters=[]), "`parameters` is not"),
    "binary output is a text": (
        body(entry("x", X), parameters={"binary_data_output": "yes"}),
        "neither true nor false",
    ),
    "id is a number": (body(entry("x", X), id=3), "`id` is not a text"),
    "binary size without bytes": (
        body(entry("x", X, data=None, parameters={"binary_data_size": 24})),
        "0 are left",
    ),
}


@pytest.mark.parametrize("case", BAD_JSON)
def test_invalid_json_request_is_refused(shared: InferenceApp, case: str) -> None:
    sent, text = BAD_JSON[case]
    answer = ask(shared, "POST", INFER, sent)
    assert answer.status == 400, answer.body
    assert text in answer.error
    assert len(answer.error) < 1000
    good = ask(shared, "POST", INFER, body(entry("x", X)))
    np.testing.assert_array_equal(values(good, (2, 3)), 2 * X)


def test_integers_are_checked(shared: InferenceApp) -> None:
    table = np.arange(4, dtype=np.float32)
    for data, text in (
        ([1.0], "values that are not INT32"),
        ([2**31], "out of range of INT32"),
        ([2**80], "values that are not INT32"),
        (["1"], "values that are not INT32"),
    ):
        index = entry("index", np.zeros(1, np.int32), data=data)
        sent = body(index, entry("table", table))
        answer = ask(shared, "POST", "/v2/models/picked/infer", sent)
        assert answer.status == 400
        assert text in answer.error


def test_index_out_of_range_is_an_error_of_the_client(shared: InferenceApp) -> None:
    index, table = np.array([7], np.int32), np.arange(4, dtype=np.float32)
    sent = body(entry("index", index), entry("table", table))
    answer = ask(shared, "POST", "/v2/models/picked/infer", sent)
    assert answer.status == 400
    assert "7" in answer.error


BINARY = binary_body({"x": X})


@pytest.mark.parametrize(
    ("sent", "length", "text"),
    [
        (BINARY[0][:-1], None, "23 are left"),
        (BINARY[0] + b"\0", None, "1 bytes follow the last"),
        (BINARY[0], "5", "not JSON"),
        (BINARY[0], str(len(BINARY[0]) + 1), "the body has"),
        (BINARY[0], "-1", "not a number"),
        (BINARY[0], "x", "not a number"),
        (BINARY[0], "9" * 30, "not a number"),
    ],
)
def test_binary_tensors_of_another_length_are_refused(
    shared: InferenceApp, sent: bytes, length: str | None, text: str
) -> None:
    headers = {**BINARY[1], **({"Inference-Header-Content-Length": length} if length else {})}
    answer = ask(shared, "POST", INFER, sent, headers)
    assert answer.status == 400
    assert text in answer.error


@pytest.mark.parametrize("size", [-24, 25, 2**70, True, "24", 24.0, [24]])
def test_declared_binary_size_must_be_that_of_the_shape(
    shared: InferenceApp, size: Any
) -> None:
    head = body(entry("x", X, data=None, parameters={"binary_data_size": size}))
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = ask(shared, "POST", INFER, head + X.tobytes(), headers)
    assert answer.status == 400
    assert "expected 24 bytes for `x`" in answer.error


def with_header(text: str) -> bytes:
    """Return a .npy array with this header."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + X.tobytes()


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members.items():
            opened.writestr(f"{name}.npy", data)
    return file.getvalue()


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n"
BAD_NPY = {
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "version 9": b"\x93NUMPY\x09\x00",
    "no dict": with_header("[1]\n"),
    "code": with_header("__import__('os').system('false')\n"),
    "short": with_header(GOOD)[:-1],
    "long": with_header(GOOD) + b"\0",
    "huge": with_header(GOOD.replace("2, 3", "9999999999, 9999999999")),
    "negative": with_header(GOOD.replace("2, 3", "-2, -3")),
    "objects": with_header(GOOD.replace("<f4", "|O")),
    "texts": with_header(GOOD.replace("<f4", "<U6").replace("2, 3", "1,")),
    "records": with_header(GOOD.replace("'<f4'", "[('a', '<f4')]")),
    "half": np.zeros(3).tobytes(),
}


@pytest.mark.parametrize("case", BAD_NPY)
def test_invalid_npy_body_is_refused(shared: InferenceApp, case: str) -> None:
    headers = {"Content-Type": "application/x-npy"}
    answer = ask(shared, "POST", INFER, BAD_NPY[case], headers)
    assert answer.status == 400, answer.body
    assert "npy" in answer.error


def test_invalid_npz_body_is_refused(shared: InferenceApp) -> None:
    good = archive(x=with_header(GOOD))
    headers = {"Content-Type": "application/x-npz"}
    assert ask(shared, "POST", INFER, good, headers).status == 200
    for sent in (
        b"",
        b"PK\x03\x04",
        good[:60],
        good[:-30],
        good[:50] + b"\xff" * 40 + good[90:],
    ):
        answer = ask(shared, "POST", INFER, sent, headers)
        assert answer.status == 400, answer.body
    assert ask(shared, "POST", INFER, archive(x=b"no"), headers).status == 400


def test_npz_archive_that_expands_too_much_is_refused(make: Any) -> None:
    app = make("double", max_body_bytes=10_000)
    sent = archive(x=with_header(GOOD) + b"\0" * 5_000_000)
    assert len(sent) < 10_000
    answer = ask(app, "POST", INFER, sent, {"Content-Type": "application/x-npz"})
    assert answer.status == 413


def test_invalid_safetensors_body_is_refused(shared: InferenceApp) -> None:
    good = safetensors.numpy.save({"x": X})
    huge = struct.pack("<Q", 2**60) + good[8:]
    lies = good.replace(b"[2,3]", b"[9,9]")
    headers = {"Content-Type": "application/vnd.safetensors"}
    for sent in (b"", good[:7], good[:-1], good + b"\0", huge, lies, b"\xff" * 100):
        answer = ask(shared, "POST", INFER, sent, headers)
        assert answer.status == 400, answer.body
        assert "safetensors" in answer.error


def test_other_content_types_and_encodings_are_refused(shared: InferenceApp) -> None:
    sent = body(entry("x", X))
    assert ask(shared, "POST", INFER, sent, {"Content-Type": "text/plain"}).status == 415
    assert ask(shared, "POST", INFER, sent, {"Content-Encoding": "gzip"}).status == 415


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/double/versions/2", 404),
        ("GET", "/v2/models/double/versions/x", 404),
        ("POST", "/v2/models/none/infer", 404),
        ("POST", "/v2/models/" + "a" * 2000 + "/infer", 404),
        ("POST", "/v2/models/..%2f..%2fetc/infer", 404),
        ("GET", "/v2/models/double/infer", 405),
        ("DELETE", "/v2/models/double", 405),
        ("GET", "/v3", 404),
    ],
)
def test_wrong_addresses_are_answered_in_json(
    shared: InferenceApp, method: str, path: str, status: int
) -> None:
    answer = ask(shared, method, path)
    assert answer.status == status
    assert len(answer.error) < 500
    if path == "/v2/models/double/infer":
        assert answer.error == "the method GET is not allowed here; use POST."
    if path == "/v3":
        assert "/v2/models/NAME/infer" in answer.error
