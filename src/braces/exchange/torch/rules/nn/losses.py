"""Rules of losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from braces.exchange.common.rules import elementwise as numbers
from braces.exchange.common.rules.elementwise import cast_to_dtype
from braces.exchange.torch.rules.nn.matmul_attention import linear
from braces.extend import functions as ops
from braces.extend.building import Var, emit
from braces.extend.constructs import custom_gradient
from braces.extend.types import INT64, is_float

NONE, MEAN, SUM = 0, 1, 2
LOSS_REDUCTIONS: Mapping[int, Callable[[Var], Var]] = {
    NONE: ops.identity, MEAN: ops.mean, SUM: ops.sum,
}  # fmt: skip
"""The reductions of elementwise losses, by torch's codes."""


def elementwise(loss: Callable[[Var, Var], Var]) -> Callable[..., Var]:
    """Return the rule of an elementwise loss."""

    def rule(x: Var, y: Var, reduction: int = MEAN) -> Var:
        return LOSS_REDUCTIONS[reduction](loss(x, y))

    return rule


def nll_loss(
    logs: Var, labels: Var, weight: Var | None = None, reduction: int = MEAN,
    ignored: int = -100,
) -> Var:  # fmt: skip
    """The negative log likelihood, without one ignored label."""
    losses, weights = _nll(logs, labels, weight, ignored)
    if reduction == MEAN:
        return ops.sum(losses) / ops.sum(weights)
    return LOSS_REDUCTIONS[reduction](losses)


def nll_loss_forward(
    logs: Var, labels: Var, weight: Var | None, reduction: int, ignored: int
) -> tuple[Var, Var]:
    """The loss, and the sum of the weights."""
    weights = _nll(logs, labels, weight, ignored)[1]
    return nll_loss(logs, labels, weight, reduction, ignored), ops.sum(weights)


def _nll(logs: Var, labels: Var, weight: Var | None, ignored: int) -> tuple[Var, Var]:
    """Return the loss at each label, and its weight."""
    axis = 1 if logs.ndim > 1 else 0
    is_counted = ops.not_equal(labels, ignored)
    at = cast_to_dtype(ops.where(is_counted, labels, ops.zeros_like(labels)), INT64)
    label_logs = ops.take_along_axis(logs, ops.expand_dims(at, axis=axis), axis=axis)
    counts = cast_to_dtype(is_counted, logs.dtype)
    if weight is not None:
        counts = counts * ops.take(weight, at, axis=0)
    return -ops.squeeze(label_logs, axis=axis) * counts, counts


def cross_entropy(
    x: Var, labels: Var, weight: Var | None = None, reduction: int = MEAN,
    ignored: int = -100, smoothing: float = 0.0,
) -> Var:  # fmt: skip
    """The cross-entropy of a softmax with labels, or with probabilities."""
    axis = 1 if x.ndim > 1 else 0
    logs = ops.log_softmax(x, axis=axis)
    if is_float(labels.dtype):
        return _soft_cross_entropy(logs, labels, weight, reduction, smoothing, axis)
    hard = nll_loss(logs, labels, weight, reduction, ignored)
    if not smoothing:
        return hard
    counts = _nll(logs, labels, weight, ignored)[1]
    is_counted = cast_to_dtype(ops.not_equal(labels, ignored), logs.dtype)
    uniform_losses = -ops.sum(_weighted(logs, weight, axis), axis=axis) * is_counted
    uniform_loss = (
        ops.sum(uniform_losses) / ops.sum(counts)
        if reduction == MEAN
        else LOSS_REDUCTIONS[reduction](uniform_losses)
    )
    share = smoothing / float(_classes(x, axis))
    return (1.0 - smoothing) * hard + share * uniform_loss


def _classes(x: Var, axis: int) -> int:
    count = x.shape[axis]
    assert isinstance(count, int), "symbolic number of classes"
    return count


def _weighted(logs: Var, weight: Var | None, axis: int) -> Var:
    if weight is None:
        return logs
    return logs * ops.reshape(weight, (-1, *[1] * (logs.ndim - 1 - axis)))


def _soft_cross_entropy(
    logs: Var, target: Var, weight: Var | None, reduction: int, smoothing: float, axis: int
) -> Var:
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / float(_classes(logs, axis))
    losses = -ops.sum(_weighted(logs, weight, axis) * target, axis=axis)
    return LOSS_REDUCTIONS[reduction](losses)


def linear_cross_entropy(
    x: Var, w: Var, labels: Var, b: Var | None, weight: Var | None, reduction: str,
    ignored: int, smoothing: float, *rest: Any,
) -> tuple[Var, None, None, None]:  # fmt: skip
    """The cross-entropy of a linear layer; torch's other outputs are its own gradients."""
    way = {"mean": MEAN, "sum": SUM}[reduction]
    logits = linear(x, w, b)
    return cross_entropy(logits, labels, weight, way, ignored, smoothing), None, None, None


def linear_cross_entropies(
    x: Var, w: Var, labels: Var, b: Var | None, weight: Var | None, ignored: int, *rest: Any
) -> Var:
    """The cross-entropy of a linear layer for each example."""
    return cross_entropy(linear(x, w, b), labels, weight, NONE, ignored)


def with_logits(
    x: Var, y: Var, weight: Var | None = None, positive: Var | None = None,
    reduction: int = MEAN,
) -> Var:  # fmt: skip
    """The cross-entropy of a sigmoid with probabilities."""
    if positive is None:
        losses = emit("sigmoid_binary_cross_entropy", x, y)
    else:
        factor = 1.0 + (positive - 1.0) * y
        losses = (1.0 - y) * x + factor * ops.softplus(-x)
    return LOSS_REDUCTIONS[reduction](losses if weight is None else losses * weight)


def binary_cross_entropy(
    p: Var, y: Var, weight: Var | None = None, reduction: int = MEAN
) -> Var:
    """The cross-entropy of probabilities; logarithms are clipped at -100."""
    losses = _of_probabilities(p, y)
    return LOSS_REDUCTIONS[reduction](losses if weight is None else losses * weight)


@custom_gradient
def _of_probabilities(p: Var, y: Var) -> tuple[Var, Callable[[Var], tuple[Var, Var]]]:
    """Return the elementwise loss with torch's gradient, which stays finite at 0 and 1."""
    logs = ops.log(p), ops.log1p(-p)
    clipped_logs = [numbers.clamp(log, -100.0, None) for log in logs]

    def gradient(grad: Var) -> tuple[Var, Var]:
        by_p = (p - y) / numbers.clamp(p * (1.0 - p), 1e-12, None)
        return grad * by_p, grad * (logs[1] - logs[0])

    return -(y * clipped_logs[0] + (1.0 - y) * clipped_logs[1]), gradient


def huber(x: Var, y: Var, reduction: int = MEAN, delta: float = 1.0) -> Var:
    """The Huber loss."""
    distance = ops.abs(x - y)
    return LOSS_REDUCTIONS[reduction](
        ops.where(distance < delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))
    )


def smooth_l1(x: Var, y: Var, reduction: int = MEAN, beta: float = 1.0) -> Var:
    """The Huber loss divided by its bound."""
    distance = ops.abs(x - y)
    if not beta:
        return LOSS_REDUCTIONS[reduction](distance)
    return LOSS_REDUCTIONS[reduction](
        ops.where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)
    )


def kl_div(x: Var, y: Var, reduction: int = MEAN, *, log_target: bool = False) -> Var:
    """The Kullback-Leibler divergence, from log probabilities and (log) targets."""
    if log_target:
        return LOSS_REDUCTIONS[reduction](ops.exp(y) * (y - x))
    target_entropy = ops.where(y > 0, y * ops.log(ops.where(y > 0, y, 1.0)), 0.0)
    return LOSS_REDUCTIONS[reduction](target_entropy - y * x)


def multilabel_margin(x: Var, labels: Var, reduction: int = MEAN) -> Var:
    """The multilabel margin loss; labels end at the first -1."""
    single = x.ndim == 1
    if single:
        x, labels = (ops.expand_dims(v, axis=0) for v in (x, labels))
    ended = ops.cumsum(cast_to_dtype(ops.equal(labels, -1), INT64), axis=1)
    is_label = ops.equal(ended, 0)
    at = cast_to_dtype(ops.where(is_label, labels, ops.zeros_like(labels)), INT64)
    hits = ops.scatter_nd_add(
        ops.zeros_like(at), cast_to_dtype(is_label, INT64), [_rows(at), at]
    )
    margins = 1.0 - ops.expand_dims(ops.take_along_axis(x, at, axis=1), axis=2)
    violations = ops.relu(margins + ops.expand_dims(x, axis=1))
    is_counted = ops.logical_and(
        ops.expand_dims(is_label, axis=2), ops.expand_dims(ops.equal(hits, 0), axis=1)
    )
    losses = ops.mean(ops.sum(ops.where(is_counted, violations, 0.0), axis=1), axis=1)
    return (
        ops.squeeze(losses, axis=0)
        if single and not reduction
        else LOSS_REDUCTIONS[reduction](losses)
    )


def _rows(at: Var) -> Var:
    """Return row indices that broadcast with a matrix."""
    return ops.expand_dims(emit("arange", stop=at.shape[0]), axis=1)


LOSSES: Mapping[str, Callable[..., Any]] = {
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_with_logits": with_logits,
    "cross_entropy_loss": cross_entropy,
    "huber_loss": huber,
    "kl_div": kl_div,
    "l1_loss": elementwise(lambda x, y: ops.abs(x - y)),
    "mse_loss": elementwise(lambda x, y: ops.square(x - y)),
    "multilabel_margin_loss": multilabel_margin,
    "nll_loss": nll_loss,
    "nll_loss2d": nll_loss,
    "nll_loss2d_forward": nll_loss_forward,
    "nll_loss_forward": nll_loss_forward,
    "nll_loss_nd": nll_loss,
    "smooth_l1_loss": smooth_l1,
    "torch_nn._linear_cross_entropy_batch_chunked": linear_cross_entropy,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction": linear_cross_entropies,
    "soft_margin_loss": elementwise(lambda x, y: ops.softplus(-x * y)),
}
