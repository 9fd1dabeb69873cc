"""Trees, n-grams and gradients in models of ONNX, against ONNX's own reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import braces as br
from braces.errors import ProgramError

pytestmark = pytest.mark.unoptimized

TREES = {
    "nodes_modes": numpy_helper.from_array(np.array([0, 6, 4, 3, 1], np.uint8)),
    "nodes_splits": numpy_helper.from_array(np.array([0.5, 0, 2.0, -1.0, 1.5], "f4")),
    "nodes_featureids": [0, 1, 1, 2, 0],
    "nodes_truenodeids": [1, 0, 1, 4, 4],
    "nodes_trueleafs": [0, 1, 1, 0, 1],
    "nodes_falsenodeids": [2, 2, 3, 5, 6],
    "nodes_falseleafs": [0, 1, 1, 1, 1],
    "leaf_targetids": [0, 1, 2, 0, 2, 1, 0],
    "leaf_weights": numpy_helper.from_array(np.array([1, 2, 4, 8, 16, 32, 64], "f4")),
    "membership_values": numpy_helper.from_array(np.array([1, 3, np.nan], "f4")),
    "tree_roots": [0, 3],
    "n_targets": 4,
}
GRAMS = {
    "ngram_counts": [0, 3],
    "ngram_indexes": [4, 0, 2, 1, 3],
    "pool_int64s": [2, 3, 5, 5, 6, 3, 2],
    "min_gram_length": 1,
    "max_gram_length": 2,
    "max_skip_count": 2,
    "weights": [0.5, 2.0, 3.0, 0.25, 1.0],
}


def model(op_type: str, domain: str, x: Any, **attrs: Any) -> Any:
    """A model of one operator."""
    node = helper.make_node(op_type, ["x"], ["y"], domain=domain, **attrs)
    given = helper.make_tensor_value_info(
        "x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
    )
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [given], [made])
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


def agrees(proto: Any, x: Any, mode: str) -> None:
    """A program gives what ONNX's reference gives."""
    prog, values = br.from_onnx(proto)
    scope = br.Scope()
    scope.update(values)
    found = br.Executor(mode=mode).run(prog, scope, feed={"x": x}, fetch=prog.fetches)
    (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
    np.testing.assert_allclose(found[0], want, 1e-6)


@pytest.mark.parametrize("how", range(4))
def test_rows_reach_the_leaves_of_all_trees(how: int, mode: str) -> None:
    x = np.array([[0, 3, 1], [0, 2, -2], [1, 2, 0], [2, 0, -5], [1.5, 1, -1]], "f4")
    agrees(model("TreeEnsemble", "ai.onnx.ml", x, aggregate_function=how, **TREES), x, mode)


@pytest.mark.parametrize("how", ["TF", "IDF", "TFIDF"])
def test_occurrences_of_n_grams_are_counted_and_weighed(how: str, mode: str) -> None:
    x = np.array([[5, 6, 2, 3, 2, 5], [3, 3, 2, 2, 5, 6]], np.int64)
    agrees(model("TfIdfVectorizer", "", x, mode=how, **GRAMS), x, mode)


def test_trees_that_go_in_circles_and_pictures_are_refused_with_what_to_do() -> None:
    x = np.zeros((2, 3), "f4")
    endless = {
        **TREES,
        "nodes_falseleafs": [0, 1, 0, 1, 1],
        "nodes_falsenodeids": [2, 2, 0, 5, 6],
    }
    with pytest.raises(ProgramError, match="a tree has a cycle"):
        br.from_onnx(model("TreeEnsemble", "ai.onnx.ml", x, **endless))
    with pytest.raises(br.BracesError, match="feed their pixels"):
        br.from_onnx(model("ImageDecoder", "", x.astype(np.uint8)[0]))


def test_a_gradient_is_of_the_values_that_the_graph_has() -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.preview.training": 1]>
    g (float[3] a, float[3] b) => (float[3] da, float[3] none) {
        c = Mul (a, a)
        y = ReduceSum (c)
        da, none = ai.onnx.preview.training.Gradient <xs = ["a", "b"], y = "y"> (%s, b)
    }"""
    prog, _ = br.from_onnx(onnx.parser.parse_model(text % "a"))
    feed = {"a": np.array([1, 2, 3], "f4"), "b": np.ones(3, "f4")}
    found = br.Executor().run(prog, br.Scope(), feed=feed, fetch=prog.fetches)
    np.testing.assert_array_equal(found, [[2, 4, 6], [0, 0, 0]])
    with pytest.raises(br.BracesError, match="inputs other than those of the graph"):
        br.from_onnx(onnx.parser.parse_model(text % "c"))
