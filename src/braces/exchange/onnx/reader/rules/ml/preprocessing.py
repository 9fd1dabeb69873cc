"""Rules of feature preprocessing for classical machine learning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from braces.exchange.common.rules.elementwise import cast_to_dtype, number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import ML_DOMAIN, OnnxNode, Rule
from braces.exchange.onnx.reader.rules.ml.linear_svm import batched_features
from braces.extend import functions as ops
from braces.extend.building import Var
from braces.extend.types import FLOAT32, INT64, is_float

TEXTS = "Convert strings to numbers before the model."


def array_feature_extractor(node: OnnxNode) -> Var:
    """Entries of the last axis, by index."""
    return ops.take(batched_features(node), ops.reshape(node.var(1), (-1,)), axis=-1)


def binarizer(node: OnnxNode) -> Var:
    """1 above a threshold, else 0."""
    x = node.var(0)
    return ops.cast(x > number(node.attr("threshold", 0.0), x.dtype), x.dtype)


def scaler(node: OnnxNode) -> Var:
    """Features shifted and scaled, per feature or by common numbers."""
    x = cast_to_dtype(node.var(0), FLOAT32)
    offset, scale = (
        _check_per_feature(node, x, node.floats(name), name) for name in ("offset", "scale")
    )
    return (x - offset) * scale


def _check_per_feature(node: OnnxNode, x: Var, numbers: Array, what: str) -> Array:
    """Check that there is a number for each feature, or one for all."""
    if len(numbers) != 1 and (not len(numbers) or x.shape[-1] != len(numbers)):
        node.refuse(f"expected {x.shape[-1]} entries in `{what}`, got {len(numbers)}")
    return numbers


def normalizer(node: OnnxNode) -> Var:
    """Rows divided by their maximum, L1 norm or L2 norm."""
    x, kind = cast_to_dtype(node.var(0), FLOAT32), str(node.attr("norm", "MAX"))
    if kind == "MAX":
        size = ops.max(x, axis=-1, keepdims=True)
    elif kind == "L1":
        size = ops.sum(ops.abs(x), axis=-1, keepdims=True)
    elif kind == "L2":
        size = ops.norm(x, axis=-1, keepdims=True)
    else:
        node.refuse(f"unknown norm `{kind:.80}`")
    return x / ops.where(ops.equal(size, 0.0), ops.ones_like(size), size)


def imputer(node: OnnxNode) -> Var:
    """Replace the number that marks missing values."""
    x = node.var(0)
    kinds = ("float", "floats") if is_float(x.dtype) else ("int64", "int64s")
    name, marker = f"imputed_value_{kinds[1]}", node.attr(f"replaced_value_{kinds[0]}", 0)
    replacements = _check_per_feature(node, x, np.asarray(node.attr(name) or (), x.dtype), name)
    missing = ops.isnan(x) if np.isnan(marker) else ops.equal(x, number(marker, x.dtype))
    return ops.where(missing, replacements, x)


def one_hot(node: OnnxNode) -> Var:
    """One-hot encoding; an unknown category gives a row of zeros, or an error."""
    if node.attr("cats_strings"):
        node.refuse("unsupported string categories", TEXTS)
    categories = np.asarray(node.attr("cats_int64s") or (), np.int64)
    matches = ops.equal(ops.expand_dims(cast_to_dtype(node.var(0), INT64), axis=-1), categories)
    if node.flag("zeros", default=True):
        return ops.cast(matches, FLOAT32)
    return ops.one_hot(
        _first_true(matches, len(categories)), num_classes=len(categories), dtype=FLOAT32
    )


def _first_true(matches: Var, otherwise: int) -> Var:
    """Return the index of the first true element of a row, or a default."""
    at = ops.argmax(ops.cast(matches, "int32"), axis=-1)
    return ops.where(
        ops.any(matches, axis=-1), cast_to_dtype(at, INT64), number(otherwise, INT64)
    )


def label_encoder(node: OnnxNode) -> Var:
    """Map keys to values, and other numbers to a default value."""
    keys, values = _numbers_of(node, "keys"), _numbers_of(node, "values")
    if keys is None or values is None:
        node.refuse("unsupported string labels", TEXTS)
    if len(keys) != len(values):
        node.refuse(f"{len(keys)} keys do not match {len(values)} values")
    x, default = node.var(0), _default(node, values)
    if is_dense(keys) and not is_float(x.dtype):
        return _look_up(x, keys, values, default)
    x = ops.expand_dims(x, axis=-1)
    matches = ops.equal(x, keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        matches = matches | (ops.isnan(x) & np.isnan(keys))
    return ops.take(np.append(values, default), _first_true(matches, len(values)))


def is_dense(keys: Array) -> bool:
    """Return whether a lookup table over the range of integer keys is compact."""
    if keys.dtype.kind not in "iu" or not len(keys):
        return False
    return int(keys.max()) - int(keys.min()) < 4 * len(keys) + 64


def _look_up(x: Var, keys: Array, values: Array, otherwise: Array) -> Var:
    """Read the values of integer keys from a lookup table over the range of all keys."""
    first, last = int(keys.min()), int(keys.max())
    table = np.full(last - first + 2, otherwise[0], values.dtype)
    table[keys[::-1] - first] = values[::-1]  # the first of equal keys wins
    in_range = (x >= number(first, x.dtype)) & (x <= number(last, x.dtype))
    index = ops.where(in_range, x - number(first, x.dtype), number(last - first + 1, x.dtype))
    return ops.take(table, index)


def _numbers_of(node: OnnxNode, name: str) -> Array | None:
    """Return keys or values; `None` if they are strings."""
    tensor_value = node.tensor(f"{name}_tensor")
    if tensor_value is not None:
        return tensor_value.numbers().ravel()
    for kind, dtype in (("int64s", INT64), ("floats", FLOAT32)):
        attribute = node.attr(f"{name}_{kind}")
        if attribute:
            return np.asarray(attribute, dtype)
    return None


def _default(node: OnnxNode, values: Array) -> Array:
    tensor_value = node.tensor("default_tensor")
    if tensor_value is not None:
        return tensor_value.numbers().ravel()[:1].astype(values.dtype)
    is_integer_ = values.dtype.kind != "f"
    value = node.attr("default_int64", -1) if is_integer_ else node.attr("default_float", -0.0)
    return np.asarray([value]).astype(values.dtype)


def feature_vectorizer(node: OnnxNode) -> Var:
    """Concatenate all features."""
    xs = [cast_to_dtype(x, FLOAT32) for x in node.vars()]
    own_sizes = [x.shape[-1] for x in xs]
    declared_sizes = list(node.attr("inputdimensions") or own_sizes)
    if own_sizes != declared_sizes:
        node.refuse(
            f"size mismatch of {len(xs)} arrays: expected {declared_sizes}, got {own_sizes}"
        )
    return ops.concat(xs, axis=-1)


def zip_map(node: OnnxNode) -> Var:
    """The values of maps, one row per map, and one column per label in the order of the node.

    A program has no maps: `[{3: 0.2, 5: 0.8}]` with `classlabels_int64s=[3, 5]` is
    `[[0.2, 0.8]]`.
    """
    x = batched_features(node)
    labels = [*(node.attr("classlabels_int64s") or node.attr("classlabels_strings") or ())]
    if len(set(labels)) != len(labels):
        node.refuse("duplicate labels")
    if x.ndim != 2 or (isinstance(x.shape[1], int) and x.shape[1] != len(labels)):
        node.refuse(f"{len(labels)} labels do not match an array of shape {list(x.shape)}")
    return ops.ensure_shape(x, (x.shape[0], len(labels)))


FEATURES: Mapping[str, Rule] = {
    f"{ML_DOMAIN}.ArrayFeatureExtractor": array_feature_extractor,
    f"{ML_DOMAIN}.Binarizer": binarizer,
    f"{ML_DOMAIN}.FeatureVectorizer": feature_vectorizer,
    f"{ML_DOMAIN}.Imputer": imputer,
    f"{ML_DOMAIN}.LabelEncoder": label_encoder,
    f"{ML_DOMAIN}.Normalizer": normalizer,
    f"{ML_DOMAIN}.OneHotEncoder": one_hot,
    f"{ML_DOMAIN}.Scaler": scaler,
    f"{ML_DOMAIN}.ZipMap": zip_map,
}
