"""Models that learn from tables, trees foremost, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import braces as br
from braces.errors import ProgramError
from braces.exchange.onnx.runtime import session
from onnx_tables import LABELS, NUMBERS, X, forest, model, node

pytestmark = pytest.mark.unoptimized

WHOLE = np.array([[1, 2, 0], [3, 1, 7], [7, 7, -1]], np.int64)


def found(proto: Any, x: Any) -> list[Any]:
    """Return the results of a program."""
    prog, values = br.from_onnx(proto)
    scope = br.Scope()
    scope.update(values)
    feed = {next(iter(prog.feeds)): x}
    return br.Executor().run(prog, scope, feed=feed, fetch=prog.fetches)


def agrees(proto: Any, *xs: Any) -> None:
    """A program gives what ONNX Runtime does."""
    theirs = session(proto.SerializeToString())
    for x in xs:
        for got, want in zip(found(proto, x), theirs.run(None, {"x": x}), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def with_gaps(x: Any) -> Any:
    gaps = x.copy()
    gaps[[0, 1, 3], [0, 2, 1]] = np.nan
    return gaps


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_of_numbers_agree_with_onnx_runtime(how: str) -> None:
    for seed, targets in enumerate((1, 3)):
        attrs = forest(seed, "target", targets, per_leaf=targets - (targets > 1))
        base = [0.5] * targets
        attrs |= {"n_targets": targets, "aggregate_function": how, "base_values": base}
        agrees(model(node("TreeEnsembleRegressor", **attrs), x=X), X, with_gaps(X))


def test_each_tree_adds_to_a_target_of_its_own_and_runs_no_checks() -> None:
    """Boosted trees of several classes: tree t has the scores of class t modulo the classes."""
    attrs = forest(11, "target", 1) | {"n_targets": 3, "base_values": [0.5, 0.0, -0.5]}
    attrs["target_ids"] = [tree // 3 % 3 for tree in attrs["target_treeids"]]
    proto = model(node("TreeEnsembleRegressor", **attrs), x=X)
    agrees(proto, X, with_gaps(X))
    text = str(br.from_onnx(proto)[0])
    assert "= matmul(" in text
    assert not any(f"= {checked}(" in text for checked in ("put_along_axis_add", "take"))
    many = {**attrs, "n_targets": 40}
    del many["base_values"]
    agrees(model(node("TreeEnsembleRegressor", **many), x=X), X)


def test_trees_in_double_precision_agree_with_onnx_runtime() -> None:
    attrs = forest(7, "target", 2, per_leaf=2) | {"n_targets": 2, "base_values": [1.0, 0.0]}
    for name in ("nodes_values", "target_weights", "base_values"):
        attrs[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attrs.pop(name)))
    wide = X.astype("f8") + 1e-9
    agrees(model(node("TreeEnsembleRegressor", **attrs), x=wide), wide, with_gaps(wide))


@pytest.mark.parametrize("way", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_trees_of_classes_agree_with_onnx_runtime(way: str) -> None:
    several = forest(3, "class", 4, per_leaf=3) | {"base_values": [0.1, 0.2, 0.3, 0.4]}
    one = forest(4, "class", 1)
    positive = one | {"class_weights": [abs(w) / 4 for w in one["class_weights"]]}
    second = one | {"class_ids": [1] * len(one["class_ids"])}
    based = one | {"base_values": [0.25]}
    two = (one, positive, second, based) if way == "NONE" else (one, positive)
    for attrs, labels in ((several, [3, 1, -2, 9]), *((given, [5, 7]) for given in two)):
        attrs |= {"classlabels_int64s": labels, "post_transform": way}
        made = node("TreeEnsembleClassifier", gives=LABELS, **attrs)
        agrees(model(made, x=X, gives=LABELS, version=1), X, with_gaps(X))


def test_two_classes_that_both_have_weights_are_told_apart_by_the_larger_score() -> None:
    attrs = forest(5, "class", 2, per_leaf=2) | {"classlabels_int64s": [5, 7]}
    made = node("TreeEnsembleClassifier", gives=LABELS, **attrs)
    proto = model(made, x=X, gives=LABELS)
    labels, scores = found(proto, X)
    theirs = session(proto.SerializeToString())
    np.testing.assert_allclose(scores, theirs.run(["scores"], {"x": X})[0], 1e-5, 1e-5)
    np.testing.assert_array_equal(labels, np.array([5, 7])[scores.argmax(axis=1)])


def test_a_tree_that_is_one_leaf_and_a_leaf_that_speaks_twice_are_read() -> None:
    attrs: dict[str, Any] = {f"nodes_{name}ids": [0] for name in (
        "tree", "node", "feature", "truenode", "falsenode")}  # fmt: skip
    attrs |= {"nodes_modes": ["LEAF"], "nodes_values": [0.0], "n_targets": 2,
              "target_treeids": [0] * 3, "target_nodeids": [0] * 3, "target_ids": [1, 0, 1],
              "target_weights": [1.0, 2.0, 4.0]}  # fmt: skip
    agrees(model(node("TreeEnsembleRegressor", **attrs), x=X), X)


LINEAR = {"coefficients": [0.1, 0.2, 0.3, -0.1, -0.2, 0.3], "intercepts": [0.1, 0.2]}
VECTORS = {
    "kernel_params": [0.5, 0.1, 2.0], "support_vectors": [1.0, 0, 0, 0, 1, 1],
    "coefficients": [0.5, -0.25], "rho": [0.3], "n_supports": 2,
}  # fmt: skip


def test_linear_models_and_support_vectors_agree_with_onnx_runtime() -> None:
    for way in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        attrs = {**LINEAR, "post_transform": way}
        agrees(model(node("LinearRegressor", targets=2, **attrs), x=X, version=1), X)
        alone = {"coefficients": [0.1, 0.2, 0.3], "intercepts": [0.1], "post_transform": way}
        for given in (attrs, alone):
            made = node("LinearClassifier", gives=LABELS, classlabels_ints=[5, 7], **given)
            agrees(model(made, x=X, gives=LABELS, version=1), X)
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        made = node("SVMRegressor", kernel_type=kernel, one_class=kernel == "RBF", **VECTORS)
        agrees(model(made, x=X, version=1), X)


def machine(classes: int, **attrs: Any) -> dict[str, Any]:
    rng = np.random.default_rng(classes)
    counts = [1 + at % 2 for at in range(classes)]
    sizes = {"support_vectors": sum(counts) * 3, "coefficients": sum(counts) * (classes - 1),
             "rho": classes * (classes - 1) // 2}  # fmt: skip
    drawn = {name: rng.normal(size=size).tolist() for name, size in sizes.items()}
    labels = list(range(5, 5 + classes))
    kernel = {"kernel_params": [0.5, 0.1, 2.0], "kernel_type": "RBF"}
    return {**drawn, **kernel, "classlabels_ints": labels, "vectors_per_class": counts, **attrs}


def test_probabilities_of_support_vector_machines_agree_with_onnx_runtime() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 3)).astype("float32") * 2
    for classes, way in ((2, "NONE"), (3, "NONE"), (5, "NONE"), (3, "SOFTMAX")):
        pairs = classes * (classes - 1) // 2
        sigmoids = {
            "prob_a": (-3 * rng.random(pairs)).tolist(),
            "prob_b": rng.normal(size=pairs).tolist(),
        }
        attrs = machine(classes, post_transform=way, **sigmoids)
        agrees(
            model(node("SVMClassifier", gives=LABELS, **attrs), x=x, gives=LABELS, version=1), x
        )


def test_classes_that_win_duels_of_support_vectors_agree_with_onnx_runtime() -> None:
    x = np.random.default_rng(1).normal(size=(8, 3)).astype("float32") * 2
    for classes, kernel, way in (
        (2, "LINEAR", "NONE"), (2, "RBF", "LOGISTIC"), (2, "POLY", "SOFTMAX"),
        (3, "SIGMOID", "NONE"), (4, "RBF", "LOGISTIC"), (4, "RBF", "SOFTMAX"),
    ):  # fmt: skip
        attrs = machine(classes, kernel_type=kernel, post_transform=way)
        agrees(
            model(node("SVMClassifier", gives=LABELS, **attrs), x=x, gives=LABELS, version=1), x
        )
    names = machine(2, classlabels_strings=["a", "b"])
    del names["classlabels_ints"]
    linear = machine(2)
    del linear["vectors_per_class"]
    for said, attrs in (
        ("unsupported string labels", names),
        ("expected `prob_a` and `prob_b` of 3 pairs", machine(3, prob_a=[1.0], prob_b=[0.0])),
        ("unsupported linear mode", linear),
        ("rho or support vectors do not match 3 classes", machine(3, rho=[1.0])),
    ):
        assert said in refusal("SVMClassifier", version=1, gives=LABELS, **attrs)


def test_features_are_prepared_as_by_onnx_runtime() -> None:
    gaps = with_gaps(X)
    for made, x in (
        *((node("Normalizer", norm=norm), X) for norm in ("MAX", "L1", "L2")),
        (node("Scaler", offset=[1.0, 2, 3], scale=[2.0, 0.5, 1]), X),
        (node("Scaler", offset=[1.0], scale=[0.5]), WHOLE),
        (node("Imputer", imputed_value_floats=[7.0, 8, 9], replaced_value_float=np.nan), gaps),
        (node("Imputer", imputed_value_floats=[7.0], replaced_value_float=3.0), gaps),
        (node("OneHotEncoder", cats_int64s=[1, 2, 7], zeros=1), WHOLE),
        (node("Binarizer", threshold=0.3), X),
        (node("FeatureVectorizer", inputdimensions=[3]), X),
        (node("LabelEncoder", keys_int64s=[1, 2, 1], values_floats=[0.5, 0.25, 9],
              default_float=-3.0), WHOLE),
    ):  # fmt: skip
        agrees(model(made, x=x, version=2 if made.op_type == "LabelEncoder" else 1), x)
    whole = [("y", TensorProto.INT64)]
    made = node("Imputer", imputed_value_int64s=[9], replaced_value_int64=7)
    agrees(model(made, x=WHOLE, gives=whole, version=1), WHOLE)
    made = node("LabelEncoder", keys_floats=[1.0, np.nan, 0.5], values_int64s=[4, 6, 8])
    agrees(model(made, x=gaps, gives=whole, version=2), X)


def test_a_category_that_is_none_is_an_error_where_the_model_asks_for_it() -> None:
    proto = model(node("OneHotEncoder", cats_int64s=[1, 2, 7], zeros=0), x=WHOLE, version=1)
    known = np.array([[1, 2, 7]], np.int64)
    np.testing.assert_array_equal(found(proto, known)[0], np.eye(3)[None])
    with pytest.raises(br.BracesError, match="out of range"):
        found(proto, WHOLE)


def refusal(op_type: str, version: int = 3, gives: Any = NUMBERS, **attrs: Any) -> str:
    made = node(op_type, gives=gives, **attrs)
    with pytest.raises(ProgramError) as caught:
        br.from_onnx(model(made, x=X, gives=gives, version=version))
    return str(caught.value)


def test_trees_that_make_no_sense_are_refused_by_what_is_wrong() -> None:
    good = forest(1, "target", 2, per_leaf=2) | {"n_targets": 2}

    def refused(**changed: Any) -> str:
        return refusal("TreeEnsembleRegressor", **(good | changed))

    names, modes = good["nodes_nodeids"], good["nodes_modes"]
    inner = [at for at, mode in enumerate(modes) if mode != "LEAF"]
    assert "length mismatch of the attributes `nodes_...`" in refused(nodes_values=[1.0])
    assert "length mismatch of the attributes `target_...`" in refused(target_weights=[1.0])
    assert "`BRANCH_MAYBE`" in refused(nodes_modes=["BRANCH_MAYBE", *modes[1:]])
    assert "a tree has a cycle" in refused(nodes_truenodeids=names)
    assert "unknown node id" in refused(nodes_falsenodeids=[-(2**62)] * len(names))
    assert "unknown node id" in refused(target_nodeids=[2**62] * len(good["target_nodeids"]))
    assert "duplicate node id" in refused(nodes_nodeids=[1] * len(names))
    assert "2 scores" in refused(target_ids=[2**62] * len(good["target_ids"]))
    features = [3 if at == inner[0] else 0 for at in range(len(names))]
    assert "feature 3 is out of range for 3 features" in refused(nodes_featureids=features)
    assert "base values" in refused(base_values=[1.0, 2.0, 3.0])
    assert "weight index" in refused(
        n_targets=2**62, target_ids=[2**61] * len(good["target_ids"])
    )


def test_texts_and_maps_are_refused_with_what_to_do() -> None:
    attrs = forest(2, "class", 2) | {"classlabels_strings": ["a", "b"]}
    assert "integer labels" in refusal("TreeEnsembleClassifier", gives=LABELS, **attrs)
    given = {**LINEAR, "classlabels_strings": ["a", "b"]}
    assert "integer labels" in refusal("LinearClassifier", 1, LABELS, **given)
    assert "numbers before the model" in refusal("OneHotEncoder", 1, cats_strings=["a"])
    texts = {"keys_strings": ["a"], "values_int64s": [1]}
    assert "numbers before the model" in refusal("LabelEncoder", 2, **texts)


def test_the_values_of_maps_are_an_array_with_a_column_per_label() -> None:
    proto = model(node("ZipMap", classlabels_int64s=[3, 7, 1]), x=X, version=1)
    (got,) = found(proto, X)
    np.testing.assert_array_equal(got, X)
    (maps,) = session(with_maps(proto).SerializeToString()).run(None, {"x": X})
    rows = [[row[label] for label in (3, 7, 1)] for row in maps]
    np.testing.assert_array_equal(got, np.asarray(rows, "float32"))
    named = model(node("ZipMap", classlabels_strings=["a", "b", "c"]), x=X[0], version=1)
    np.testing.assert_array_equal(found(named, X[0])[0], X[:1])
    assert "duplicate labels" in refusal("ZipMap", 1, classlabels_int64s=[1, 1, 2])
    assert "2 labels do not match" in refusal("ZipMap", 1, classlabels_int64s=[1, 2])


def with_maps(proto: Any) -> Any:
    """The model with the type of its output, which ONNX Runtime checks."""
    changed = type(proto)()
    changed.CopyFrom(proto)
    element = helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    changed.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(element))
    return changed
