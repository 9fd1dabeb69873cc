"""Rules of what prepares features for models that learn from tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NoReturn

import numpy as np

from braces.builder.var import Var
from braces.dtypes import FLOAT32, INT64, is_float
from braces.exchange.common.rules.elementwise import in_dtype, number
from braces.exchange.common.values.constants import Array
from braces.exchange.onnx.reader.graph.node import LEARNED, Node, Rule
from braces.exchange.onnx.reader.rules.ml.linear_svm import examples
from braces.frontend.core import functions as ops

TEXTS = "Turn texts into numbers before the model."


def extracted(node: Node) -> Var:
    """Entries of the last axis, by their numbers."""
    return ops.take(examples(node), ops.reshape(node.var(1), (-1,)), axis=-1)


def binarizer(node: Node) -> Var:
    """1 above a threshold, else 0."""
    x = node.var(0)
    return ops.cast(x > number(node.attr("threshold", 0.0), x.dtype), x.dtype)


def scaler(node: Node) -> Var:
    """Features moved and stretched, each by numbers of its own or all by the same."""
    x = in_dtype(node.var(0), FLOAT32)
    offset, scale = (_each(node, x, node.floats(name), name) for name in ("offset", "scale"))
    return (x - offset) * scale


def _each(node: Node, x: Var, numbers: Array, what: str) -> Array:
    """Numbers for each feature, or one for all."""
    if len(numbers) != 1 and (not len(numbers) or x.shape[-1] != len(numbers)):
        node.refuse(f"has {len(numbers)} numbers as `{what}` for {x.shape[-1]} features")
    return numbers


def normalizer(node: Node) -> Var:
    """Rows by their largest number, the sum of sizes, or the root of the sum of squares."""
    x, kind = in_dtype(node.var(0), FLOAT32), str(node.attr("norm", "MAX"))
    if kind == "MAX":
        size = ops.max(x, axis=-1, keepdims=True)
    elif kind == "L1":
        size = ops.sum(ops.abs(x), axis=-1, keepdims=True)
    elif kind == "L2":
        size = ops.norm(x, axis=-1, keepdims=True)
    else:
        node.refuse(f"has the norm `{kind:.80}`")
    return x / ops.where(ops.equal(size, 0.0), ops.ones_like(size), size)


def imputer(node: Node) -> Var:
    """Features, others in the place of a number that stands for what is missing."""
    x = node.var(0)
    kinds = ("float", "floats") if is_float(x.dtype) else ("int64", "int64s")
    name, gone = f"imputed_value_{kinds[1]}", node.attr(f"replaced_value_{kinds[0]}", 0)
    others = _each(node, x, np.asarray(node.attr(name) or (), x.dtype), name)
    missing = ops.isnan(x) if np.isnan(gone) else ops.equal(x, number(gone, x.dtype))
    return ops.where(missing, others, x)


def one_hot(node: Node) -> Var:
    """A one in the place of each category; a row of zeros, or an error, where it is none."""
    if node.attr("cats_strings"):
        node.refuse("has texts as categories", TEXTS)
    kinds = np.asarray(node.attr("cats_int64s") or (), np.int64)
    found = ops.equal(ops.expand_dims(in_dtype(node.var(0), INT64), axis=-1), kinds)
    if node.flag("zeros", default=True):
        return ops.cast(found, FLOAT32)
    return ops.one_hot(_place(found, len(kinds)), num_classes=len(kinds), dtype=FLOAT32)


def _place(found: Var, otherwise: int) -> Var:
    """Where the first one of a row is true, or a number where none is."""
    at = ops.argmax(ops.cast(found, "int32"), axis=-1)
    return ops.where(ops.any(found, axis=-1), in_dtype(at, INT64), number(otherwise, INT64))


def label_encoder(node: Node) -> Var:
    """Other numbers in the place of those that are keys, and one in the place of the rest."""
    keys, values = _side(node, "keys"), _side(node, "values")
    if keys is None or values is None:
        node.refuse("encodes texts", TEXTS)
    if len(keys) != len(values):
        node.refuse(f"has {len(keys)} keys for {len(values)} values")
    x, otherwise = node.var(0), _default(node, values)
    if is_dense(keys) and not is_float(x.dtype):
        return _look_up(x, keys, values, otherwise)
    x = ops.expand_dims(x, axis=-1)
    found = ops.equal(x, keys)
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        found = found | (ops.isnan(x) & np.isnan(keys))
    return ops.take(np.append(values, otherwise), _place(found, len(values)))


def is_dense(keys: Array) -> bool:
    """Whether an array over the range of integer keys is not much larger than the keys."""
    if keys.dtype.kind not in "iu" or not len(keys):
        return False
    return int(keys.max()) - int(keys.min()) < 4 * len(keys) + 64


def _look_up(x: Var, keys: Array, values: Array, otherwise: Array) -> Var:
    """The values of integer keys, read from an array over the range of all keys."""
    first, last = int(keys.min()), int(keys.max())
    table = np.full(last - first + 2, otherwise[0], values.dtype)
    table[keys[::-1] - first] = values[::-1]  # of equal keys the first one holds
    inside = (x >= number(first, x.dtype)) & (x <= number(last, x.dtype))
    place = ops.where(inside, x - number(first, x.dtype), number(last - first + 1, x.dtype))
    return ops.take(table, place)


def _side(node: Node, name: str) -> Array | None:
    """Keys or values, where they are numbers."""
    written = node.tensor(f"{name}_tensor")
    if written is not None:
        return written.numbers().ravel()
    for kind, dtype in (("int64s", INT64), ("floats", FLOAT32)):
        found = node.attr(f"{name}_{kind}")
        if found:
            return np.asarray(found, dtype)
    return None


def _default(node: Node, values: Array) -> Array:
    written = node.tensor("default_tensor")
    if written is not None:
        return written.numbers().ravel()[:1].astype(values.dtype)
    whole = values.dtype.kind != "f"
    found = node.attr("default_int64", -1) if whole else node.attr("default_float", -0.0)
    return np.asarray([found]).astype(values.dtype)


def joined(node: Node) -> Var:
    """All features in one row."""
    xs = [in_dtype(x, FLOAT32) for x in node.vars()]
    have = [x.shape[-1] for x in xs]
    wanted = list(node.attr("inputdimensions") or have)
    if have != wanted:
        node.refuse(f"joins {len(xs)} arrays of other sizes than it says: {have}, {wanted}")
    return ops.concat(xs, axis=-1)


def refused(what: str, fix: str, node: Node) -> NoReturn:
    """Say what cannot be a program, and what to do."""
    node.refuse(what, fix)


FEATURES: Mapping[str, Rule] = {
    f"{LEARNED}.ArrayFeatureExtractor": extracted,
    f"{LEARNED}.Binarizer": binarizer,
    f"{LEARNED}.FeatureVectorizer": joined,
    f"{LEARNED}.Imputer": imputer,
    f"{LEARNED}.LabelEncoder": label_encoder,
    f"{LEARNED}.Normalizer": normalizer,
    f"{LEARNED}.OneHotEncoder": one_hot,
    f"{LEARNED}.Scaler": scaler,
    f"{LEARNED}.ZipMap": partial(
        refused, "makes maps", "Export with zipmap off: options={'zipmap': False}."
    ),
}
