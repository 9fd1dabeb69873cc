"""Small classical models: random trees, linear models, and their features."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

X = np.array([[1, -2, 0.5], [0, 0, 0], [3, 4, -5], [-1, -2, -0.5], [0.25, 1, 2]], "f4")
MODES = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]
LABELS = [("label", TensorProto.INT64), ("scores", TensorProto.FLOAT)]
NUMBERS = [("y", TensorProto.FLOAT)]


def model(*nodes: Any, x: Any, gives: Any = NUMBERS, version: int = 3) -> Any:
    """A model of some nodes, with a named first axis."""
    shape = ["n", *x.shape[1:]]
    given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), shape)
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in gives]
    graph = helper.make_graph(nodes, "g", [given], made)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def node(op_type: str, gives: Any = NUMBERS, **attrs: Any) -> Any:
    """A node of the input of the model."""
    names = [name for name, _ in gives]
    return helper.make_node(op_type, ["x"], names, domain="ai.onnx.ml", **attrs)


def forest(seed: int, what: str, targets: int, trees: int = 4, per_leaf: int = 1) -> Any:
    """The attributes of random trees, with trees in no order of their numbers."""
    rng = np.random.default_rng(seed)
    nodes, said = list[tuple[Any, ...]](), list[tuple[Any, ...]]()

    def grow(tree: int, depth: int) -> int:
        at = len(nodes)
        nodes.append(())
        if depth == 0 or rng.random() < 0.1:
            nodes[at] = (tree, at, 0, "LEAF", 0.0, 0, 0, 0)
            chosen = rng.choice(targets, per_leaf, replace=False)
            said.extend((tree, at, int(c), float(rng.normal())) for c in chosen)
            return at
        asked, value = rng.choice(MODES), float(rng.choice(X.ravel()))
        after = [grow(tree, depth - 1) for _ in range(2)]
        feature, tracks = int(rng.integers(3)), int(rng.integers(2))
        nodes[at] = (tree, at, feature, f"BRANCH_{asked}", value, *after, tracks)
        return at

    for tree in rng.permutation(trees):
        grow(int(tree) * 3, 2)
    names = (
        "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
        "missing_value_tracks_true",
    )  # fmt: skip
    kinds = ("treeids", "nodeids", "ids", "weights")
    wanted = [*(f"nodes_{name}" for name in names), *(f"{what}_{kind}" for kind in kinds)]
    lists = [*zip(*nodes, strict=True), *zip(*said, strict=True)]
    return dict(zip(wanted, map(list, lists), strict=True))


def table_models() -> list[Any]:
    """One model of each kind."""
    numbers = forest(0, "target", 2, per_leaf=2) | {"n_targets": 2, "base_values": [1.0, 2.0]}
    classes = forest(1, "class", 3, per_leaf=2) | {"classlabels_int64s": [3, 1, 2]}
    two = forest(2, "class", 1) | {"classlabels_int64s": [5, 7], "post_transform": "LOGISTIC"}
    line = {"coefficients": [0.1, 0.2, 0.3, -0.1, -0.2, 0.3], "intercepts": [0.1, 0.2],
            "classlabels_ints": [5, 7]}  # fmt: skip
    return [
        model(node("TreeEnsembleRegressor", **numbers), x=X),
        model(node("TreeEnsembleClassifier", LABELS, **classes), x=X, gives=LABELS),
        model(node("TreeEnsembleClassifier", LABELS, **two), x=X, gives=LABELS, version=1),
        model(node("LinearClassifier", LABELS, **line), x=X, gives=LABELS),
        model(node("SVMRegressor", kernel_type="RBF", n_supports=2, rho=[0.3],
                   kernel_params=[0.5, 0.1, 2.0], support_vectors=[1.0, 0, 0, 0, 1, 1],
                   coefficients=[0.5, -0.25]), x=X),
        model(node("Scaler", offset=[1.0, 2, 3], scale=[2.0, 0.5, 1]), x=X),
        model(node("OneHotEncoder", cats_int64s=[1, 2, 7], zeros=0), x=X),
        model(node("Imputer", imputed_value_floats=[7.0, 8, 9]), x=X),
        model(node("LabelEncoder", keys_floats=[1.0, 2.0], values_floats=[0.5, 9.0]), x=X),
    ]  # fmt: skip
