"""Rules of elementwise functions that are compositions, and of comparisons of whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi

from braces.exchange.common.rules.along_axis import indices_along, norm
from braces.exchange.common.rules.elementwise import cast_to_dtype, clamp, number
from braces.exchange.common.rules.float_bits import next_after
from braces.exchange.common.rules.reshape_slice_pad import fill_shape
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.exchange.paddle.rules.tensor.arithmetic import binary_rule
from braces.extend import dims, functions as ops, random
from braces.extend.building import Var
from braces.extend.types import BOOL, FLOAT32, INT32, INT64, is_float

# ---- two arrays ------------------------------------------------------------------------------


def choosing_rule(prefers: Callable[[Var, Var], Var], op_type: str) -> Rule:
    """Return the rule of a maximum or minimum; ties choose the second operand.

    The chosen operand receives the whole gradient.
    """

    def choose(x: Var, y: Var) -> Var:
        if not is_float(x.dtype):
            return ops.function_of(op_type)(x, y)
        return ops.where(prefers(x, y), x, y)

    return binary_rule(choose)


def ignoring_nan_rule(prefers: Callable[[Var, Var], Var]) -> Rule:
    """Return the rule of a maximum or minimum that ignores NaN; ties choose the first."""

    def choose(x: Var, y: Var) -> Var:
        if not is_float(x.dtype):
            return ops.where(prefers(x, y), x, y)
        return ops.where(prefers(x, y) | ops.isnan(y), x, y)

    return binary_rule(choose)


def heaviside(x: Var, y: Var) -> Var:
    """Return the step function, with the second operand at 0; only that has a gradient."""
    step = cast_to_dtype(ops.stop_gradient(x) > 0, x.dtype)
    return ops.where(ops.equal(x, ops.zeros_like(x)), y, step)


def lerp(node: PaddleOp) -> Var:
    """A linear interpolation."""
    x, y = node.x(), node.y()
    return x + node.var("Weight") * (y - x)


def distance(node: PaddleOp) -> Var:
    """The p-norm of a difference."""
    return norm(node.x() - node.y(), node.attr("p", 2.0))


def is_close(node: PaddleOp) -> Var:
    """The truth values of near equality, or their conjunction."""
    x, y = node.x(), node.y()
    relative, absolute = (_tolerance(node, name) for name in ("rtol", "atol"))
    close = ops.abs(x - y) <= absolute + relative * ops.abs(y)
    close = close | ops.equal(x, y)
    if node.attr("equal_nan", False):
        close = close | (ops.isnan(x) & ops.isnan(y))
    return ops.all(close) if node.type == "allclose" else close


def _tolerance(node: PaddleOp, name: str) -> float:
    slot = name.capitalize()
    return float(node.number(name, slot if node.has(slot) else "", 0.0))


def all_equal(node: PaddleOp) -> Var:
    """The equality of two arrays in shape and numbers."""
    x, y = node.x(), node.y()
    if x.ndim != y.ndim:
        return fill_shape((), False, BOOL)
    return ops.all(ops.equal(x, y))


# ---- one array -------------------------------------------------------------------------------


def conjugate(node: PaddleOp) -> Var:
    """The complex conjugate."""
    x = node.x()
    return ops.conj(x) if x.dtype.kind == "c" else ops.identity(x)


def angle(node: PaddleOp) -> Var:
    """The phase of complex numbers; pi for negative real numbers."""
    x = node.x()
    if x.dtype.kind == "c":
        return ops.arctan2(ops.imag(x), ops.real(x))
    return ops.where(x < 0, number(pi, x.dtype), ops.zeros_like(x))


def as_complex(node: PaddleOp) -> Var:
    """Complex numbers from a last axis of real and imaginary parts."""
    real, imag = ops.unstack(node.x(), axis=-1)
    return ops.complex(real, imag)


def as_real(node: PaddleOp) -> Var:
    """Real and imaginary parts as a last axis."""
    x = node.x()
    return ops.stack([ops.real(x), ops.imag(x)], axis=-1)


def logit(node: PaddleOp) -> Var:
    """The inverse of the sigmoid, of numbers that are kept away from 0 and 1."""
    x, margin = node.x(), node.attr("eps", 0.0)
    return ops.logit(clamp(x, margin, 1.0 - margin) if margin else x)


def polygamma(node: PaddleOp) -> Var:
    """A derivative of the digamma function."""
    x = node.x()
    return ops.polygamma(fill_shape((), int(node.attr("n", 1)), INT32), x)


def maxout(node: PaddleOp) -> Var:
    """The maximum of each group of channels."""
    x, groups = node.x(), node.attr("groups", 1)
    axis = node.axis("axis", x.ndim, 1)
    channels = dims.divide_exactly(x.shape[axis], groups)
    if channels is None:
        node.refuse(f"cannot split an axis of size {x.shape[axis]} into groups of {groups}")
    parts = ops.reshape(x, (*x.shape[:axis], channels, groups, *x.shape[axis + 1 :]))
    best = cast_to_dtype(ops.argmax(parts, axis=axis + 1, keepdims=True), INT64)
    return ops.squeeze(ops.take_along_axis(parts, best, axis=axis + 1), axis=axis + 1)


def gumbel_softmax(node: PaddleOp) -> Var:
    """Samples of a softmax; hard ones are one-hot, with the gradient of the softmax."""
    x = node.x()
    axis = node.axis("axis", x.ndim)
    noise = random.gumbel(x.shape, dtype=x.dtype)
    soft = ops.softmax((x + noise) / node.attr("temperature", 1.0), axis=axis)
    if not node.attr("hard", False):
        return soft
    best = cast_to_dtype(ops.argmax(soft, axis=axis, keepdims=True), INT64)
    is_best = ops.equal(indices_along(x.shape[axis], axis, x.ndim), best)
    hard = cast_to_dtype(is_best, x.dtype)
    return soft + ops.stop_gradient(hard - soft)


def label_smooth(node: PaddleOp) -> Var:
    """Labels mixed with a prior distribution, by default the uniform one."""
    x, epsilon = node.x(), node.attr("epsilon", 0.0)
    if node.has("PriorDist"):
        return x * (1.0 - epsilon) + node.var("PriorDist") * epsilon
    return x * (1.0 - epsilon) + epsilon / x.shape[-1]


def renorm(node: PaddleOp) -> Var:
    """Slices of an axis, scaled down to a maximal norm."""
    x, largest = node.x(), node.attr("max_norm", 1.0)
    axis = node.axis("axis", x.ndim)
    others = tuple(at for at in range(x.ndim) if at != axis)
    norms = norm(x, node.attr("p", 2.0), others, True)
    return x * ops.where(norms > largest, largest / (norms + 1e-7), ops.ones_like(norms))


def shard_index(node: PaddleOp) -> Var:
    """Indices within one shard; those of other shards become a constant."""
    x, shards = node.x(), node.attr("nshards", 1)
    size = -(-node.attr("index_num", 1) // shards)
    inside = ops.equal(x // size, node.attr("shard_id", 0))
    return ops.where(inside, x % size, number(node.attr("ignore_value", -1), x.dtype))


def accuracy(node: PaddleOp) -> Results:
    """The share of rows whose label is among the indices, and both counts."""
    indices, labels = node.var("Indices"), node.var("Label")
    hits = ops.any(ops.equal(indices, cast_to_dtype(labels, indices.dtype)), axis=1)
    count = cast_to_dtype(ops.sum(cast_to_dtype(hits, INT64)), INT32)
    total = cast_to_dtype(ops.sum(ops.ones_like(hits, dtype=INT64)), INT32)
    share = ops.mean(cast_to_dtype(hits, FLOAT32))
    return {"Accuracy": share, "Correct": count, "Total": total}


SPECIAL: Mapping[str, Rule] = {
    **dict.fromkeys(("elementwise_max", "maximum"), choosing_rule(ops.greater, "maximum")),
    **dict.fromkeys(("elementwise_min", "minimum"), choosing_rule(ops.less, "minimum")),
    **dict.fromkeys(("isclose", "allclose"), is_close),
    "accuracy": accuracy,
    "angle": angle,
    "as_complex": as_complex,
    "as_real": as_real,
    "conj": conjugate,
    "dist": distance,
    "elementwise_fmax": ignoring_nan_rule(ops.greater_equal),
    "elementwise_fmin": ignoring_nan_rule(ops.less_equal),
    "elementwise_heaviside": binary_rule(heaviside),
    "equal_all": all_equal,
    "gumbel_softmax": gumbel_softmax,
    "label_smooth": label_smooth,
    "lerp": lerp,
    "logit": logit,
    "maxout": maxout,
    "nextafter": lambda node: next_after(node.x(), node.y()),
    "polygamma": polygamma,
    "renorm": renorm,
    "shard_index": shard_index,
}
