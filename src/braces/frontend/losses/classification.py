"""Classification losses, with class labels or with target probabilities.

Options beyond the plain loss, such as class weights, make it a plain block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from braces.builder.append import as_var, emit
from braces.builder.var import Operand, Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.losses.reduction import (
    Reduction,
    broadcast_along,
    check_at_least,
    check_labels,
    compose_loss,
    format_types,
    reduce_operator_loss,
    to_common_float,
    to_equal_shapes,
)
from braces.ops.common.rules import axis_index

__all__ = [
    "multi_margin_loss",
    "nll_loss",
    "softmax_cross_entropy",
    "softmax_cross_entropy_soft",
]

# ---- labels ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Labels:
    """Labels with class weights and an ignored label.

    Attributes:
        labels: Class numbers.
        axis: The axis of classes, from 0.
        weights: The weight of each class.
        ignored: The label of examples to ignore.
    """

    labels: Var
    axis: int
    weights: Var | None
    ignored: int | None

    def mask(self) -> Var | None:
        """Return the mask of labels that are not ignored; `None` if no label is ignored."""
        return None if self.ignored is None else ops.not_equal(self.labels, self.ignored)

    def valid_labels(self) -> Var:
        """Return the labels with ignored ones replaced by class 0."""
        mask = self.mask()
        return self.labels if mask is None else ops.where(mask, self.labels, 0)

    def mean_weights(self, like: Var) -> Var:
        """Return the weight of each label in the mean."""
        ones = ops.ones_like(like)
        return self.mask_ignored(ones if self.weights is None else self._own_weights())

    def mask_ignored(self, losses: Var) -> Var:
        """Replace the losses of ignored labels by 0."""
        mask = self.mask()
        return losses if mask is None else ops.where(mask, losses, 0.0)

    def apply_weights(self, losses: Var) -> Var:
        """Multiply losses by the weights of their labels."""
        return losses if self.weights is None else losses * self._own_weights()

    def _own_weights(self) -> Var:
        assert self.weights is not None, "no class weights"
        return ops.take(self.weights, self.valid_labels(), axis=0)

    def smooth_labels(self, losses: Var, smoothing: float, logs: Callable[[], Var]) -> Var:
        """Apply label smoothing: distribute a fraction of each label over all classes."""
        if not smoothing:
            return losses
        log_probs = logs()
        if self.weights is not None:
            log_probs = log_probs * broadcast_along(self.weights, self.axis, log_probs.ndim)
        return losses * (1.0 - smoothing) - ops.mean(log_probs, axis=self.axis) * smoothing


def _check_labelled(
    what: str, x: Var, labels: Operand, axis: int, weights: Operand | None, ignored: int | None
) -> _Labels:
    label_var = as_var(labels)
    at = check_labels(what, x, label_var, axis)
    return _Labels(label_var, at, class_weights_of(what, x, at, weights), ignored)


def class_weights_of(what: str, x: Var, at: int, weights: Operand | None) -> Var | None:
    """Convert class weights to a variable.

    Raises:
        ShapeError: If the number of weights differs from the number of classes.
    """
    if weights is None:
        return None
    weight_var = as_var(weights)
    if weight_var.shape != (x.shape[at],):
        raise ShapeError(
            f"{what}: expected one class weight for each class.",
            given=format_types({"x": x, "class_weights": weight_var}),
            fix=f"Pass class_weights of shape [{x.shape[at]}].",
        )
    return ops.cast(weight_var, x.dtype) if weight_var.dtype != x.dtype else weight_var


def check_smoothing(what: str, smoothing: float) -> None:
    """Refuse a label smoothing outside of 0 to 1.

    Raises:
        ProgramError: If `smoothing` is not between 0 and 1.
    """
    check_at_least(what, 0, label_smoothing=smoothing)
    if smoothing > 1:
        raise ProgramError(f"{what}: expected label_smoothing of at most 1, got {smoothing}.")


@transactional
def softmax_cross_entropy(
    logits: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    ignored_label: int | None = None,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Cross-entropy of softmax(logits) with class labels, in nats.

        out[...] = log(sum_j exp(logits[..., j])) - logits[..., labels[...]]

    With smoothing s of n classes and weights w, with log_p = log_softmax(logits):

        out[...] = -(1 - s) * w[label] * log_p[..., label] - s / n * sum_j w[j] * log_p[..., j]

    Args:
        logits: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.
        axis: The axis of classes.
        label_smoothing: The fraction of each label that is distributed over all classes.
        class_weights: number[classes]. The weight of each class.
        ignored_label: Examples of this label have no loss, and do not count in the mean.
        reduction: `"mean"`, `"sum"` or `"none"`. The mean divides by the sum of the weights of
            the labels that are not ignored.
        name: For the result, or the block.

    Raises:
        ShapeError: If the shapes differ, or the class axis is missing.
        DTypeError: If `labels` are not integers.
        ProgramError: If `label_smoothing` is not between 0 and 1.
        IndexRangeError: If a label is not a valid class number at run time.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["b", 3]), br.data("y", ["b"], dtype="int32")
        ...     loss = br.softmax_cross_entropy(x, y, ignored_label=-1)
        >>> feed = {"x": [[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]], "y": [2, -1]}
        >>> print(br.Executor().run(prog, br.Scope(), feed=feed, fetch=loss).round(4))
        1.0986
    """
    what = "softmax_cross_entropy"
    check_smoothing(what, label_smoothing)
    if class_weights is None and ignored_label is None and not label_smoothing:
        return reduce_operator_loss(
            what, logits, labels, axis=axis, reduction=reduction, name=name
        )
    (x,) = to_common_float(what, logits=as_var(logits))
    labelled = _check_labelled(what, x, labels, axis, class_weights, ignored_label)

    def losses() -> Var:
        loss = labelled.apply_weights(
            emit(what, x, labelled.valid_labels(), axis=labelled.axis)
        )
        log_probs = partial(ops.log_softmax, x, axis=labelled.axis)
        return labelled.mask_ignored(labelled.smooth_labels(loss, label_smoothing, log_probs))

    return compose_loss(what, reduction, name, losses, lambda: _counts(labelled, x))


def _counts(labelled: _Labels, x: Var) -> Var:
    """Return the weight of each example in the mean, in the dtype of the predictions."""
    return labelled.mean_weights(ops.cast(labelled.labels, x.dtype))


@transactional
def nll_loss(
    log_probs: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    ignored_label: int | None = None,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Negative log-likelihood of class labels.

        out[...] = -class_weights[label] * log_probs[..., label]

    Applied to `log_softmax` it is `softmax_cross_entropy`, which is preferable for logits.

    Args:
        log_probs: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.
        axis: The axis of classes.
        label_smoothing: The fraction of each label that is distributed over all classes.
        class_weights: number[classes]. The weight of each class.
        ignored_label: Examples of this label have no loss, and do not count in the mean.
        reduction: `"mean"`, `"sum"` or `"none"`. The mean divides by the sum of the weights of
            the labels that are not ignored.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
        DTypeError: If `labels` are not integers.
        ProgramError: If `label_smoothing` is not between 0 and 1.
        IndexRangeError: If a label is not a valid class number at run time.
    """
    what = "nll_loss"
    check_smoothing(what, label_smoothing)
    (x,) = to_common_float(what, log_probs=as_var(log_probs))
    labelled = _check_labelled(what, x, labels, axis, class_weights, ignored_label)

    def losses() -> Var:
        loss = labelled.apply_weights(-_at_label(x, labelled))
        return labelled.mask_ignored(labelled.smooth_labels(loss, label_smoothing, lambda: x))

    return compose_loss(what, reduction, name, losses, lambda: _counts(labelled, x))


def _at_label(x: Var, labelled: _Labels) -> Var:
    chosen = ops.take_along_axis(
        x, ops.expand_dims(labelled.valid_labels(), axis=labelled.axis), axis=labelled.axis
    )
    return ops.squeeze(chosen, axis=labelled.axis)


@transactional
def multi_margin_loss(
    prediction: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    p: int = 1,
    margin: float = 1.0,
    class_weights: Operand | None = None,
    ignored_label: int | None = None,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Multiclass hinge loss.

        out[...] = w[y] / classes * sum_(j != y) max(0, margin - x[..., y] + x[..., j])^p

    with x the prediction, y its label and w the weights of classes. Source: Crammer, Singer,
    On the Algorithmic Implementation of Multiclass Kernel-based Vector Machines, 2001.

    Args:
        prediction: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.
        axis: The axis of classes.
        p: 1 or 2.
        margin: The required difference between the correct class and the others.
        class_weights: number[classes]. The weight of each class.
        ignored_label: Examples of this label have no loss, and do not count in the mean.
        reduction: `"mean"`, `"sum"` or `"none"`. The mean divides by the number of examples
            that are not ignored, independent of their weights.
        name: For the block.

    Raises:
        ShapeError: If the shapes differ.
        DTypeError: If `labels` are not integers.
        ProgramError: If `p` is neither 1 nor 2.
        IndexRangeError: If a label is not a valid class number at run time.
    """
    what = "multi_margin_loss"
    if p not in (1, 2):
        raise ProgramError(f"{what}: expected p=1 or p=2, got {p!r:.40}.")
    (x,) = to_common_float(what, prediction=as_var(prediction))
    labelled = _check_labelled(what, x, labels, axis, class_weights, ignored_label)
    unweighted = _Labels(labelled.labels, labelled.axis, None, ignored_label)

    def losses() -> Var:
        own = ops.expand_dims(_at_label(x, labelled), axis=labelled.axis)
        hinge = ops.relu(x - own + margin)
        hinge = ops.square(hinge) if p == 2 else hinge
        others = ops.not_equal(
            _classes(x, labelled.axis),
            ops.expand_dims(labelled.valid_labels(), axis=labelled.axis),
        )
        loss = ops.sum(ops.where(others, hinge, 0.0), axis=labelled.axis)
        return labelled.mask_ignored(labelled.apply_weights(loss) / _count(x, labelled.axis))

    return compose_loss(what, reduction, name, losses, lambda: _counts(unweighted, x))


def _classes(x: Var, axis: int) -> Var:
    """Return the class numbers along their axis."""
    return broadcast_along(emit("arange", stop=x.shape[axis]), axis, x.ndim)


def _count(x: Var, axis: int) -> Var | float:
    """Return the number of classes."""
    size = x.shape[axis]
    if isinstance(size, int):
        return float(size)
    return ops.cast(emit("size", value=size), x.dtype)


# ---- probabilities ---------------------------------------------------------------------------


@transactional
def softmax_cross_entropy_soft(
    logits: Operand,
    target: Operand,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    reduction: Reduction = "mean",
    name: str = "",
) -> Var:
    """Cross-entropy of softmax(logits) with target probabilities, in nats.

        out[...] = -sum_j class_weights[j] * target[..., j] * log_softmax(logits)[..., j]

    A probability of 0 adds 0, also where the logit is minus infinity.

    Args:
        logits: number[*shape], with an axis of classes.
        target: number[*shape]. Probabilities; their sum is not checked.
        axis: The axis of classes.
        label_smoothing: The fraction of the target that is distributed over all classes.
        class_weights: number[classes]. The weight of each class.
        reduction: `"mean"`, `"sum"` or `"none"`. The mean is over examples.
        name: For the result, or the block.

    Raises:
        ShapeError: If the shapes differ, or the axis is out of range.
        ProgramError: If `label_smoothing` is not between 0 and 1.
    """
    what = "softmax_cross_entropy_soft"
    check_smoothing(what, label_smoothing)
    if class_weights is None and not label_smoothing:
        return reduce_operator_loss(
            what, logits, target, axis=axis, reduction=reduction, name=name
        )
    x, y = to_equal_shapes(what, logits=logits, target=target)
    at = axis_index(axis, x.ndim, what)
    weights = class_weights_of(what, x, at, class_weights)

    def losses() -> Var:
        weighted_target = y
        if label_smoothing:
            weighted_target = y * (1.0 - label_smoothing) + label_smoothing / _count(x, at)
        if weights is not None:
            weighted_target = weighted_target * broadcast_along(weights, at, x.ndim)
        return emit(what, x, weighted_target, axis=at)

    return compose_loss(what, reduction, name, losses)
