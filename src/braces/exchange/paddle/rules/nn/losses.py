"""Rules of losses. As in Paddle, labels have no gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from braces.exchange.common.rules.elementwise import cast_to_dtype, clamp
from braces.exchange.paddle.graph.node import PaddleOp, Results, Rule
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.constructs import custom_gradient
from braces.extend.layers import ctc_loss
from braces.extend.types import INT64, is_float

REDUCTIONS: Mapping[str, Callable[[Var], Var]] = {
    "none": ops.identity, "mean": ops.mean, "sum": ops.sum,
    "batchmean": lambda losses: ops.sum(losses) / losses.shape[0],
}  # fmt: skip
"""The reductions of elementwise losses."""


def label(node: PaddleOp, slot: str = "Label") -> Var:
    """Return the labels, without their gradient."""
    labels = node.var(slot)
    return ops.stop_gradient(labels) if is_float(labels.dtype) else labels


# ---- classes ---------------------------------------------------------------------------------


def softmax_with_cross_entropy(node: PaddleOp) -> Results:
    """The cross-entropy of logits, or of probabilities, with labels or with probabilities."""
    logits, labels = node.var("Logits"), label(node)
    axis = node.axis("axis", logits.ndim)
    if not node.attr("use_softmax", True):
        shares, logs = logits, ops.log(logits)
    else:
        shares, logs = ops.softmax(logits, axis=axis), ops.log_softmax(logits, axis=axis)
    if node.attr("soft_label", False):
        return {"Softmax": shares, "Loss": -ops.sum(labels * logs, axis=axis, keepdims=True)}
    if labels.ndim < logits.ndim:
        labels = ops.expand_dims(labels, axis=axis)
    losses = _label_losses(logs, labels, axis, node.attr("ignore_index", -100))
    return {"Softmax": shares, "Loss": losses}


def _label_losses(logs: Var, labels: Var, axis: int, ignored: int) -> Var:
    """Return the negative logarithms at labels; 0 for an ignored one."""
    is_counted = ops.not_equal(labels, ignored)
    at = cast_to_dtype(ops.where(is_counted, labels, ops.zeros_like(labels)), INT64)
    losses = -ops.take_along_axis(logs, at, axis=axis)
    return ops.where(is_counted, losses, ops.zeros_like(losses))


def nll_loss(node: PaddleOp) -> Results:
    """The negative log likelihood, with weights of classes."""
    logs, labels = node.var("X"), label(node)
    axis, ignored = 1 if logs.ndim > 1 else 0, node.attr("ignore_index", -100)
    losses = _label_losses(logs, ops.expand_dims(labels, axis=axis), axis, ignored)
    losses = ops.squeeze(losses, axis=axis)
    is_counted = ops.not_equal(labels, ignored)
    counts = cast_to_dtype(is_counted, logs.dtype)
    if node.has("Weight"):
        at = cast_to_dtype(ops.where(is_counted, labels, ops.zeros_like(labels)), INT64)
        counts = counts * ops.stop_gradient(ops.take(node.var("Weight"), at, axis=0))
        losses = losses * counts
    reduction, total = node.attr("reduction", "mean"), ops.sum(counts)
    if reduction == "mean":
        return {"Out": ops.sum(losses) / total, "Total_weight": total}
    return {"Out": REDUCTIONS[reduction](losses), "Total_weight": total}


def cross_entropy(node: PaddleOp) -> Results:
    """The cross-entropy of probabilities with labels or with probabilities."""
    shares, labels = node.var("X"), label(node)
    axis, logs = shares.ndim - 1, ops.log(shares)
    if node.attr("soft_label", False):
        return {"Y": -ops.sum(labels * logs, axis=axis, keepdims=True)}
    if labels.ndim < shares.ndim:
        labels = ops.expand_dims(labels, axis=axis)
    losses = _label_losses(logs, labels, axis, node.attr("ignore_index", -100))
    return {"Y": losses, "Out": losses}


# ---- two classes -----------------------------------------------------------------------------


def bce_loss(node: PaddleOp) -> Var:
    """The cross-entropy of probabilities; logarithms are clipped at -100."""
    return _of_probabilities(node.var("X"), label(node))


@custom_gradient
def _of_probabilities(p: Var, y: Var) -> tuple[Var, Callable[[Var], tuple[Var, Var]]]:
    """Return the elementwise loss, with a gradient that stays finite at 0 and 1."""
    logs = [clamp(log, -100.0, None) for log in (ops.log(p), ops.log1p(-p))]

    def gradient(grad: Var) -> tuple[Var, Var]:
        by_p = (p - y) / clamp(p * (1.0 - p), 1e-12, None)
        return grad * by_p, ops.zeros_like(y)

    return -(y * logs[0] + (1.0 - y) * logs[1]), gradient


def log_loss(node: PaddleOp) -> Var:
    """The cross-entropy of probabilities, to which a small number is added."""
    p, y, epsilon = node.var("Predicted"), label(node, "Labels"), node.attr("epsilon", 1e-4)
    return -(y * ops.log(p + epsilon)) - (1.0 - y) * ops.log(1.0 - p + epsilon)


def with_logits(node: PaddleOp) -> Var:
    """The cross-entropy of a sigmoid with probabilities, without an ignored one.

    Paddle 2.6 applies the weight only to `softplus(-|x|)`: its values for negative numbers are
    not those of its documentation.
    """
    x, y = node.var("X"), label(node)
    losses = emit("sigmoid_binary_cross_entropy", x, y)
    if node.has("pos_weight"):
        factor = ops.stop_gradient(node.var("pos_weight"))  # for each label
        losses = ops.relu(x) - x * y + factor * ops.softplus(-ops.abs(x))
    is_counted = ops.not_equal(y, float(node.attr("ignore_index", -100)))
    losses = ops.where(is_counted, losses, ops.zeros_like(losses))
    if not node.attr("normalize", False):
        return losses
    return losses / ops.maximum(ops.sum(cast_to_dtype(is_counted, x.dtype)), 1e-5)


# ---- regression and sequences ----------------------------------------------------------------


def huber_loss(node: PaddleOp) -> Results:
    """The Huber loss, and the difference."""
    difference, delta = node.var("Y") - node.var("X"), node.attr("delta", 1.0)
    distance = ops.abs(difference)
    losses = ops.where(
        distance <= delta, 0.5 * ops.square(difference), delta * (distance - 0.5 * delta)
    )
    return {"Out": losses, "Residual": difference}


def kldiv_loss(node: PaddleOp) -> Results:
    """The Kullback-Leibler divergence, from log probabilities."""
    x, y = node.var("X"), label(node, "Target")
    if node.attr("log_target", False):
        losses = ops.exp(y) * (y - x)
    else:
        positive = y > 0
        logs = ops.log(ops.where(positive, y, ops.ones_like(y)))
        losses = ops.where(positive, y * (logs - x), ops.zeros_like(x))
    return {"Loss": REDUCTIONS[node.attr("reduction", "mean")](losses)}


def ctc(node: PaddleOp) -> Results:
    """The connectionist temporal classification loss of padded sequences."""
    logits, labels = node.var("Logits"), node.var("Label")
    if not node.has("LogitsLength"):
        node.refuse("unsupported operands with LoD", "Pass padded arrays with lengths.")
    if node.attr("norm_by_times", False):
        node.refuse("unsupported attribute `norm_by_times`")
    lengths = [cast_to_dtype(node.var(slot), INT64) for slot in ("LogitsLength", "LabelLength")]
    losses = ctc_loss(
        ops.swapaxes(logits, 0, 1), cast_to_dtype(labels, INT64), *lengths,
        blank=int(node.attr("blank", 0)), reduction="none",
    )  # fmt: skip
    return {"Loss": ops.expand_dims(losses, axis=1)}


LOSSES: Mapping[str, Rule] = {
    "bce_loss": bce_loss,
    "cross_entropy": cross_entropy,
    "cross_entropy2": cross_entropy,
    "huber_loss": huber_loss,
    "kldiv_loss": kldiv_loss,
    "log_loss": log_loss,
    "nll_loss": nll_loss,
    "sigmoid_cross_entropy_with_logits": with_logits,
    "softmax_with_cross_entropy": softmax_with_cross_entropy,
    "warpctc": ctc,
}
