"""The open inference protocol: addresses, metadata, JSON, binary tensors, arrays as bodies."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import braces as br
from braces.serving.http.application import InferenceApp
from tests.serving.asgi import ask, binary_body, binary_outputs, body, entry, values

X = np.arange(6, dtype=np.float32).reshape(2, 3)
INFER = "/v2/models/double/infer"


def test_server_metadata_names_the_extensions(shared: InferenceApp) -> None:
    answer = ask(shared, "GET", "/v2").json
    assert answer["name"] == "braces"
    assert "binary_tensor_data" in answer["extensions"]


def test_health_answers(shared: InferenceApp) -> None:
    assert ask(shared, "GET", "/v2/health/live").status == 200
    assert ask(shared, "GET", "/v2/health/ready").status == 200
    assert ask(shared, "GET", "/v2/models/double/ready").status == 200
    assert ask(shared, "GET", "/v2/models/versions/versions/2/ready").status == 200


def test_model_metadata_has_minus_one_for_symbolic_sizes(shared: InferenceApp) -> None:
    assert ask(shared, "GET", "/v2/models/double").json == {
        "name": "double",
        "versions": ["1"],
        "platform": "braces_model",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
    }


def test_json_request_is_answered_in_json(shared: InferenceApp) -> None:
    answer = ask(shared, "POST", INFER, body(entry("x", X), id="a1"))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["id"] == "a1"
    assert answer.json["model_name"] == "double"
    assert answer.json["model_version"] == "1"
    np.testing.assert_array_equal(values(answer, (2, 3)), 2 * X)


def test_nested_lists_are_accepted(shared: InferenceApp) -> None:
    answer = ask(shared, "POST", INFER, body(entry("x", X, data=X.tolist())))
    np.testing.assert_array_equal(values(answer, (2, 3)), 2 * X)


def test_binary_tensors_go_both_ways(shared: InferenceApp) -> None:
    sent, headers = binary_body({"x": X}, parameters={"binary_data_output": True})
    answer = ask(shared, "POST", INFER, sent, headers)
    np.testing.assert_array_equal(binary_outputs(answer)["y"], 2 * X)


def test_each_output_may_choose_its_form(shared: InferenceApp) -> None:
    index, table = np.array([3, 0], np.int32), np.arange(4, dtype=np.float32)
    outputs = [{"name": "y", "parameters": {"binary_data": True}}]
    sent, headers = binary_body({"index": index, "table": table}, outputs=outputs)
    answer = ask(shared, "POST", "/v2/models/picked/infer", sent, headers)
    assert [*binary_outputs(answer)] == ["y"]
    np.testing.assert_array_equal(binary_outputs(answer)["y"], [3.0, 0.0])


def test_outputs_that_are_not_wanted_are_left_out(shared: InferenceApp) -> None:
    index, table = np.array([3], np.int32), np.arange(4, dtype=np.float32)
    sent = body(entry("index", index), entry("table", table), outputs=[{"name": "sum"}])
    answer = ask(shared, "POST", "/v2/models/picked/infer", sent)
    assert [(o["name"], o["data"]) for o in answer.json["outputs"]] == [("sum", [6.0])]


def test_numbers_that_are_not_finite_are_strings(shared: InferenceApp) -> None:
    data: list[Any] = [1.0, "NaN", "Infinity", 0, "-Infinity", 2]
    answer = ask(shared, "POST", INFER, body(entry("x", X, data=data)))
    assert answer.json["outputs"][0]["data"] == [2.0, "NaN", "Infinity", 0.0, "-Infinity", 4.0]


def test_the_newest_version_answers_by_default(shared: InferenceApp) -> None:
    answer = ask(shared, "POST", "/v2/models/versions/infer", body(entry("x", X)))
    assert answer.json["model_version"] == "10"
    np.testing.assert_array_equal(values(answer, (2, 3)), 10 * X)
    older = ask(shared, "POST", "/v2/models/versions/versions/2/infer", body(entry("x", X)))
    np.testing.assert_array_equal(values(older, (2, 3)), 2 * X)


def npy(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("array", [X, np.asfortranarray(X), X.astype(">f4")])
def test_npy_body_is_answered_as_npy(shared: InferenceApp, array: Any) -> None:
    headers = {"Content-Type": "application/x-npy"}
    answer = ask(shared, "POST", INFER, npy(array), headers)
    assert answer.headers["content-type"] == "application/x-npy"
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.body)), 2 * X)


def test_npz_body_is_answered_as_npz(shared: InferenceApp) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, index=np.array([1, 2], np.int32), table=np.float32([4, 5, 6, 7]))
    headers = {"Content-Type": "application/x-npz"}
    answer = ask(shared, "POST", "/v2/models/picked/infer", file.getvalue(), headers)
    with np.load(io.BytesIO(answer.body)) as arrays:
        np.testing.assert_array_equal(arrays["y"], [5.0, 6.0])
        assert arrays["sum"] == 22.0


def test_safetensors_body_is_answered_as_safetensors(shared: InferenceApp) -> None:
    headers = {"Content-Type": "application/vnd.safetensors"}
    answer = ask(shared, "POST", INFER, safetensors.numpy.save({"x": X}), headers)
    np.testing.assert_array_equal(safetensors.numpy.load(answer.body)["y"], 2 * X)


def test_accept_chooses_the_format_of_the_answer(shared: InferenceApp) -> None:
    headers = {"Accept": "application/x-npy"}
    answer = ask(shared, "POST", INFER, body(entry("x", X)), headers)
    np.testing.assert_array_equal(np.load(io.BytesIO(answer.body)), 2 * X)


def test_an_array_without_name_needs_a_model_with_one_input(shared: InferenceApp) -> None:
    headers = {"Content-Type": "application/x-npy"}
    answer = ask(shared, "POST", "/v2/models/picked/infer", npy(X), headers)
    assert answer.status == 415
    assert "2 inputs" in answer.error


def test_several_outputs_are_not_one_npy_array(shared: InferenceApp) -> None:
    index, table = np.array([3], np.int32), np.arange(4, dtype=np.float32)
    sent = body(entry("index", index), entry("table", table))
    headers = {"Accept": "application/x-npy"}
    assert ask(shared, "POST", "/v2/models/picked/infer", sent, headers).status == 406


def test_metadata_of_a_model_are_parameters_of_its_description(tmp_path: Path) -> None:
    with br.Program() as prog:
        y = br.data("x", ["n", 2]) * 2.0
    notes = {"classes": ["a", "ü"], "license": "MIT"}
    br.save_model(tmp_path / "m.model", prog, br.Scope(), ["x"], {"y": y}, metadata=notes)
    br.to_onnx(br.load_model(tmp_path / "m.model"), tmp_path / "n.onnx")
    app = br.create_inference_app([tmp_path / "m.model", tmp_path / "n.onnx"])
    for name in ("m", "n"):
        assert ask(app, "GET", f"/v2/models/{name}").json["parameters"] == notes
    app.close()
