"""The number of operators of imported programs against the size of models of ONNX.

Compile time follows from the number of operators, so they are counted, and nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import braces as br
from braces.exchange.onnx.runtime import session
from braces.extend.programs import all_ops

ML = "ai.onnx.ml"
ROWS = np.random.default_rng(0).normal(size=(17, 3)).astype("f4")


def chain(depth: int, trees: int = 1) -> dict[str, Any]:
    """Attributes of trees of this depth; each inner node has a leaf on one side."""
    names = np.arange(2 * depth + 1)
    inner = names < depth
    draws = np.random.default_rng(depth)
    following = np.where(names + 1 < depth, names + 1, 2 * depth)
    splits = np.where(inner, draws.normal(size=len(names)), 0.0)
    once = {
        "nodes_nodeids": names,
        "nodes_featureids": np.where(inner, names % 3, 0),
        "nodes_truenodeids": np.where(inner, depth + names, 0),
        "nodes_falsenodeids": np.where(inner, following, 0),
    }  # fmt: skip
    leaves = names[depth:]
    many = {name: np.tile(each, trees).tolist() for name, each in once.items()}
    return {
        **many,
        "nodes_treeids": np.repeat(np.arange(trees), len(names)).tolist(),
        "nodes_values": np.tile(splits, trees).astype("f4").tolist(),
        "nodes_modes": np.tile(np.where(inner, "BRANCH_LEQ", "LEAF"), trees).tolist(),
        "n_targets": 1,
        "target_ids": [0] * (trees * len(leaves)),
        "target_treeids": np.repeat(np.arange(trees), len(leaves)).tolist(),
        "target_nodeids": np.tile(leaves, trees).tolist(),
        "target_weights": draws.normal(size=trees * len(leaves)).astype("f4").tolist(),
    }


def regressor(reads: str, writes: str, **attrs: Any) -> Any:
    return helper.make_node("TreeEnsembleRegressor", [reads], [writes], domain=ML, **attrs)


def model(nodes: list[Any], x: Any, y: str = "y", **constants: Any) -> Any:
    given = helper.make_tensor_value_info(
        "x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
    )
    made = helper.make_empty_tensor_value_info(y)
    brought = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", [given], [made], brought)
    versions = [helper.make_opsetid("", 18), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def forest(trees: int, columns: Callable[[int], list[int]] = lambda _: [0, 1, 2]) -> Any:
    """A forest as exporters write one: an ensemble and its columns for each tree."""
    nodes, constants = [], {}
    for tree in range(trees):
        constants[f"c{tree}"] = np.array(columns(tree), np.int64)
        nodes.append(helper.make_node("Gather", ["x", f"c{tree}"], [f"x{tree}"], axis=1))
        nodes.append(regressor(f"x{tree}", f"y{tree}", **chain(2 + tree % 3)))
    nodes.append(helper.make_node("Sum", [f"y{tree}" for tree in range(trees)], ["y"]))
    return model(nodes, ROWS, **constants)


def size_of(proto: Any, op_type: str | None = None) -> int:
    """Return the number of operators of the imported program."""
    prog, _ = br.from_onnx(proto)
    return sum(op_type in (None, op.type) for _, op in all_ops(prog.definition.main))


def agrees(proto: Any, x: Any, mode: str) -> None:
    prog, values = br.from_onnx(proto)
    scope = br.Scope()
    scope.update(values)
    found = br.Executor(mode=mode).run(prog, scope, feed={"x": x}, fetch=prog.fetches)
    wanted = session(proto.SerializeToString()).run(None, {"x": x})
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, 1e-5)


GROWING: dict[str, Callable[[int], Any]] = {
    "depth of trees": lambda n: model([regressor("x", "y", **chain(n))], ROWS),
    "trees of an ensemble": lambda n: model([regressor("x", "y", **chain(2, n))], ROWS),
    "labels": lambda n: model(
        [helper.make_node("LabelEncoder", ["x"], ["y"], domain=ML, keys_int64s=list(range(n)),
                          values_floats=[float(i) for i in range(n)])],
        np.arange(5),
    ),
    "categories": lambda n: model(
        [helper.make_node("OneHotEncoder", ["x"], ["y"], domain=ML,
                          cats_int64s=list(range(n)))],
        np.arange(5),
    ),
    "n-grams": lambda n: model(
        [helper.make_node("TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1,
                          max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                          ngram_indexes=list(range(n)), pool_int64s=list(range(n)))],
        np.arange(10).reshape(2, 5),
    ),
    "support vectors": lambda n: model(
        [helper.make_node("SVMRegressor", ["x"], ["y"], domain=ML, kernel_type="RBF",
                          kernel_params=[0.5, 0.0, 3.0], n_supports=n, rho=[0.1],
                          coefficients=[0.5] * n, support_vectors=[0.25] * (3 * n))],
        ROWS,
    ),
    "steps of an LSTM": lambda n: model(
        [helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=2)],
        np.ones((n, 1, 3), "f4"), w=np.ones((1, 8, 3), "f4"), r=np.ones((1, 8, 2), "f4"),
    ),
}  # fmt: skip
"""Models by the size of which the number of operators must not grow."""


@pytest.mark.parametrize("name", GROWING)
def test_operators_do_not_grow_with_the_size_of_a_model(name: str) -> None:
    assert size_of(GROWING[name](4)) == size_of(GROWING[name](40))


@pytest.mark.parametrize("name", GROWING)
def test_models_that_do_not_grow_give_the_values_of_onnx_runtime(name: str, mode: str) -> None:
    proto = GROWING[name](7)
    (given,) = proto.graph.input
    dims = [each.dim_value for each in given.type.tensor_type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
    x = (np.arange(np.prod(dims)) % 9 - (dtype.kind == "f")).reshape(dims).astype(dtype)
    agrees(proto, x, mode)


# ---- forests written as many ensembles -------------------------------------------------------


def test_ensembles_that_read_the_same_columns_share_one_walk(mode: str) -> None:
    proto = forest(6)
    assert size_of(proto, "loop") == 1
    agrees(proto, ROWS, mode)


def test_ensembles_that_read_other_columns_have_a_walk_for_each_choice(mode: str) -> None:
    proto = forest(6, lambda tree: [0, 1, 2] if tree % 2 else [2, 0, 1])
    assert size_of(proto, "loop") == 2
    agrees(proto, ROWS, mode)


def test_an_ensemble_that_is_refused_is_named_and_the_others_are_read() -> None:
    proto = forest(3)
    broken = proto.graph.node[3]
    next(a for a in broken.attribute if a.name == "nodes_featureids").ints[0] = 7
    broken.name = "broken"
    with pytest.raises(
        br.BracesError, match="feature 7 is out of range for 3 features"
    ) as refusal:
        br.from_onnx(proto)
    assert "`broken`" in str(refusal.value)
    assert str(refusal.value).count("is out of range for 3 features") == 1


def test_random_numbers_are_not_taken_for_one_value() -> None:
    nodes = []
    for tree in range(2):
        nodes.append(helper.make_node("RandomNormal", [], [f"x{tree}"], shape=[5, 3]))
        nodes.append(regressor(f"x{tree}", f"y{tree}", **chain(3)))
    nodes.append(helper.make_node("Sub", ["y0", "y1"], ["d"]))
    nodes.append(helper.make_node("Add", ["d", "x"], ["y"]))
    assert size_of(model(nodes, np.zeros((5, 1), "f4")), "loop") == 2
