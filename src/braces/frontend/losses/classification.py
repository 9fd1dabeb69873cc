"""Losses of classes: of labels, which are numbers of classes, and of probabilities.

What is asked for beside the loss itself, as weights of classes, makes it a plain block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from braces.builder.append import as_var, one
from braces.builder.var import Operand, Var
from braces.errors import ProgramError, ShapeError
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building
from braces.frontend.losses.reduction import (
    Reduction,
    alike,
    along_axis,
    check_at_least,
    check_labels,
    in_floats,
    of_operator,
    of_operators,
    shown_types,
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
class _Labelled:
    """Labels, which of them count, and how much.

    Attributes:
        labels: Numbers of classes.
        axis: The axis of classes, from 0.
        weights: One for each class.
        ignored: The label that does not count.
    """

    labels: Var
    axis: int
    weights: Var | None
    ignored: int | None

    def kept(self) -> Var | None:
        """Which labels count, where not all do."""
        return None if self.ignored is None else ops.not_equal(self.labels, self.ignored)

    def real(self) -> Var:
        """Labels that are classes, where they count."""
        kept = self.kept()
        return self.labels if kept is None else ops.where(kept, self.labels, 0)

    def counts(self, like: Var) -> Var:
        """How much each label counts in the mean."""
        found = ops.ones_like(like)
        return self.counted(found if self.weights is None else self._own_weights())

    def counted(self, losses: Var) -> Var:
        """Losses, and 0 where labels do not count."""
        kept = self.kept()
        return losses if kept is None else ops.where(kept, losses, 0.0)

    def weighted(self, losses: Var) -> Var:
        """Losses times the weights of their labels."""
        return losses if self.weights is None else losses * self._own_weights()

    def _own_weights(self) -> Var:
        assert self.weights is not None, "asked only where there are some"
        return ops.take(self.weights, self.real(), axis=0)

    def smoothed(self, losses: Var, smoothing: float, logs: Callable[[], Var]) -> Var:
        """Losses of labels of which a share is spread over all classes."""
        if not smoothing:
            return losses
        spread = logs()
        if self.weights is not None:
            spread = spread * along_axis(self.weights, self.axis, spread.ndim)
        return losses * (1.0 - smoothing) - ops.mean(spread, axis=self.axis) * smoothing


def _labelled(
    what: str, x: Var, labels: Operand, axis: int, weights: Operand | None, ignored: int | None
) -> _Labelled:
    given = as_var(labels)
    at = check_labels(what, x, given, axis)
    return _Labelled(given, at, class_weights_of(what, x, at, weights), ignored)


def class_weights_of(what: str, x: Var, at: int, weights: Operand | None) -> Var | None:
    """Weights of classes as a variable.

    Raises:
        ShapeError: They are not one for each class.
    """
    if weights is None:
        return None
    found = as_var(weights)
    if found.shape != (x.shape[at],):
        raise ShapeError(
            f"{what} needs a weight for each class.",
            given=shown_types({"x": x, "class_weights": found}),
            fix=f"Class weights have the shape [{x.shape[at]}].",
        )
    return ops.cast(found, x.dtype) if found.dtype != x.dtype else found


def check_smoothing(what: str, smoothing: float) -> None:
    """Refuse a share that is none.

    Raises:
        ProgramError: It is not between 0 and 1.
    """
    check_at_least(what, 0, label_smoothing=smoothing)
    if smoothing > 1:
        raise ProgramError(f"{what} needs label_smoothing of at most 1, not {smoothing}.")


@building
def softmax_cross_entropy(
    logits: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    ignored_label: int | None = None,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The cross-entropy of softmax(logits) with the class that each label names, in nats.

        out[...] = log(sum_j exp(logits[..., j])) - logits[..., labels[...]]

    With smoothing s of n classes and weights w, with log_p = log_softmax(logits):

        out[...] = -(1 - s) * w[label] * log_p[..., label] - s / n * sum_j w[j] * log_p[..., j]

    Args:
        logits: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.
        axis: The axis of classes.
        label_smoothing: The share of each label that is spread over all classes.
        class_weights: number[classes]. How much each class counts.
        ignored_label: Examples of this label have no loss, and do not count in the mean.
        reduction: `"none"`, `"mean"` or `"sum"`. The mean is over the sum of the weights of the
            labels that count.
        name: For the result, or the block.

    Raises:
        ShapeError: Shapes differ, or there are no classes.
        DTypeError: `labels` are not integers.
        ProgramError: Smoothing is not between 0 and 1.
        IndexRangeError: In a run, a label is not the number of a class.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["b", 3]), br.data("y", ["b"], dtype="int32")
        ...     loss = br.softmax_cross_entropy(x, y, ignored_label=-1, reduction="mean")
        >>> feed = {"x": [[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]], "y": [2, -1]}
        >>> print(br.Executor().run(prog, br.Scope(), feed=feed, fetch=loss).round(4))
        1.0986
    """
    what = "softmax_cross_entropy"
    check_smoothing(what, label_smoothing)
    if class_weights is None and ignored_label is None and not label_smoothing:
        return of_operator(what, logits, labels, axis=axis, reduction=reduction, name=name)
    (x,) = in_floats(what, logits=as_var(logits))
    at = _labelled(what, x, labels, axis, class_weights, ignored_label)

    def losses() -> Var:
        found = at.weighted(one(what, x, at.real(), axis=at.axis))
        spread = partial(ops.log_softmax, x, axis=at.axis)
        return at.counted(at.smoothed(found, label_smoothing, spread))

    return of_operators(what, reduction, name, losses, lambda: _counts(at, x))


def _counts(at: _Labelled, x: Var) -> Var:
    """How much each example counts, in the dtype of the predictions."""
    return at.counts(ops.cast(at.labels, x.dtype))


@building
def nll_loss(
    log_probabilities: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    ignored_label: int | None = None,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The negative logarithm of the probability of the class that each label names.

        out[...] = -class_weights[label] * log_probabilities[..., label]

    `softmax_cross_entropy` is this of `log_softmax`, and the better way from logits.

    Args:
        log_probabilities: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.
        axis: The axis of classes.
        label_smoothing: The share of each label that is spread over all classes.
        class_weights: number[classes]. How much each class counts.
        ignored_label: Examples of this label have no loss, and do not count in the mean.
        reduction: `"none"`, `"mean"` or `"sum"`. The mean is over the sum of the weights of the
            labels that count.
        name: For the block.

    Raises:
        ShapeError: Shapes differ.
        DTypeError: `labels` are not integers.
        ProgramError: Smoothing is not between 0 and 1.
        IndexRangeError: In a run, a label is not the number of a class.
    """
    what = "nll_loss"
    check_smoothing(what, label_smoothing)
    (x,) = in_floats(what, log_probabilities=as_var(log_probabilities))
    at = _labelled(what, x, labels, axis, class_weights, ignored_label)

    def losses() -> Var:
        found = at.weighted(-_at_label(x, at))
        return at.counted(at.smoothed(found, label_smoothing, lambda: x))

    return of_operators(what, reduction, name, losses, lambda: _counts(at, x))


def _at_label(x: Var, at: _Labelled) -> Var:
    chosen = ops.take_along_axis(x, ops.expand_dims(at.real(), axis=at.axis), axis=at.axis)
    return ops.squeeze(chosen, axis=at.axis)


@building
def multi_margin_loss(
    prediction: Operand,
    labels: Operand,
    axis: int = -1,
    *,
    p: int = 1,
    margin: float = 1.0,
    class_weights: Operand | None = None,
    ignored_label: int | None = None,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The hinge loss of several classes: how far others are not below the right one.

        out[...] = w[y] / classes * sum_(j != y) max(0, margin - x[..., y] + x[..., j])^p

    with x the prediction, y its label and w the weights of classes. Source: Crammer, Singer,
    On the Algorithmic Implementation of Multiclass Kernel-based Vector Machines, 2001.

    Args:
        prediction: number[*shape], with an axis of classes.
        labels: integer[*shape without `axis`]. Class numbers from 0.
        axis: The axis of classes.
        p: 1 or 2.
        margin: By how much others are to be below.
        class_weights: number[classes]. How much each class counts.
        ignored_label: Examples of this label have no loss, and do not count in the mean.
        reduction: `"none"`, `"mean"` or `"sum"`. The mean is over the examples that count,
            whatever their weights.
        name: For the block.

    Raises:
        ShapeError: Shapes differ.
        DTypeError: `labels` are not integers.
        ProgramError: `p` is neither 1 nor 2.
        IndexRangeError: In a run, a label is not the number of a class.
    """
    what = "multi_margin_loss"
    if p not in (1, 2):
        raise ProgramError(f"{what} needs p=1 or p=2, not {p!r:.40}.")
    (x,) = in_floats(what, prediction=as_var(prediction))
    at = _labelled(what, x, labels, axis, class_weights, ignored_label)
    plain = _Labelled(at.labels, at.axis, None, ignored_label)

    def losses() -> Var:
        own = ops.expand_dims(_at_label(x, at), axis=at.axis)
        lacking = ops.relu(x - own + margin)
        lacking = ops.square(lacking) if p == 2 else lacking
        others = ops.not_equal(_classes(x, at.axis), ops.expand_dims(at.real(), axis=at.axis))
        found = ops.sum(ops.where(others, lacking, 0.0), axis=at.axis)
        return at.counted(at.weighted(found) / _count(x, at.axis))

    return of_operators(what, reduction, name, losses, lambda: _counts(plain, x))


def _classes(x: Var, axis: int) -> Var:
    """The numbers of classes along their axis."""
    return along_axis(one("arange", stop=x.shape[axis]), axis, x.ndim)


def _count(x: Var, axis: int) -> Var | float:
    """How many classes there are."""
    size = x.shape[axis]
    if isinstance(size, int):
        return float(size)
    return ops.cast(one("size", value=size), x.dtype)


# ---- probabilities ---------------------------------------------------------------------------


@building
def softmax_cross_entropy_soft(
    logits: Operand,
    target: Operand,
    axis: int = -1,
    *,
    label_smoothing: float = 0.0,
    class_weights: Operand | None = None,
    reduction: Reduction = "none",
    name: str = "",
) -> Var:
    """The cross-entropy of softmax(logits) with target probabilities, in nats.

        out[...] = -sum_j class_weights[j] * target[..., j] * log_softmax(logits)[..., j]

    A probability of 0 adds 0, also where the logit is minus infinity.

    Args:
        logits: number[*shape], with an axis of classes.
        target: number[*shape]. Probabilities; that they sum to one is not checked.
        axis: The axis of classes.
        label_smoothing: The share of the target that is spread over all classes.
        class_weights: number[classes]. How much each class counts.
        reduction: `"none"`, `"mean"` or `"sum"`. The mean is over examples.
        name: For the result, or the block.

    Raises:
        ShapeError: Shapes differ, or there is no such axis.
        ProgramError: Smoothing is not between 0 and 1.
    """
    what = "softmax_cross_entropy_soft"
    check_smoothing(what, label_smoothing)
    if class_weights is None and not label_smoothing:
        return of_operator(what, logits, target, axis=axis, reduction=reduction, name=name)
    x, y = alike(what, logits=logits, target=target)
    at = axis_index(axis, x.ndim, what)
    weights = class_weights_of(what, x, at, class_weights)

    def losses() -> Var:
        wanted = y
        if label_smoothing:
            wanted = y * (1.0 - label_smoothing) + label_smoothing / _count(x, at)
        if weights is not None:
            wanted = wanted * along_axis(weights, at, x.ndim)
        return one(what, x, wanted, axis=at)

    return of_operators(what, reduction, name, losses)
