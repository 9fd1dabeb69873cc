"""Edit distance of predicted and true sequences."""

from __future__ import annotations

from typing import Any

from braces.builder.append import emit
from braces.builder.var import Operand, Var
from braces.dims import Size
from braces.dtypes import FLOAT64
from braces.errors import ShapeError
from braces.frontend.control.functional import scan
from braces.frontend.control.sequence_lengths import (
    check_row_labels,
    check_row_lengths,
    take_per_row,
)
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.public_names import arange
from braces.frontend.metrics.base import (
    Metric,
    Sums,
    accumulate_metric,
    weights_of,
    zero_unweighted,
)


@transactional
def edit_distance(
    prediction: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    lengths: Any = None,
    label_lengths: Any = None,
    normalize: bool = True,
    name: str | None = None,
) -> Metric:
    """Edit distance: insertions, deletions and substitutions from predictions to labels.

        value = sum(weights * distance) / sum(weights * label_lengths)

    For word ids it is the word error rate, for letters the character error rate. Source:
    Levenshtein, 1966.

    Args:
        prediction: integer[rows, steps].
        labels: integer[rows, others].
        weights: As for `mean`, one for each batch element.
        lengths: integer[rows]: the number of steps of each prediction; all by default. Further
            steps are padding.
        label_lengths: integer[rows]: likewise, for labels.
        normalize: Whether to divide by the length of the labels, instead of the number of
            sequences.
        name: The name of the metric.

    Raises:
        DTypeError: If the dtype of an argument is not an integer dtype.
        ShapeError: If the inputs are not two-dimensional, or their batch sizes differ.
        IndexRangeError: If a length exceeds the size of its axis at run time.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     said, true = (br.data(name, ["b", name], "int32") for name in ("s", "t"))
        ...     error = br.metrics.edit_distance(said, true)
        >>> exe, scope = br.Executor(), br.Scope()
        >>> _ = exe.init(prog, scope)
        >>> feed = {"s": [[1, 2, 3]], "t": [[1, 9, 3, 4]]}
        >>> print(exe.run(prog, scope, feed, error.value))
        0.5
    """
    what = "edit_distance"
    predicted = operand(prediction, what)
    if predicted.ndim != 2:
        raise ShapeError(
            f"{what}: expected an array [rows, steps].",
            given=f"{predicted.name}: {predicted.type}",
        )
    rows, steps = predicted.shape
    predicted = check_row_labels(what, predicted, predicted, (rows,))
    true = check_row_labels(what, predicted, labels, (rows,))
    ends = [
        emit("broadcast_to", emit("size", value=size), shape=(rows,))
        if row_lengths is None
        else _checked_lengths(check_row_lengths(what, predicted, (rows,), row_lengths), size)
        for row_lengths, size in ((lengths, steps), (label_lengths, true.shape[1]))
    ]
    distance = ops.cast(_distance(predicted, true, *ends), FLOAT64)
    weight = weights_of(what, distance, weights)
    words = zero_unweighted(ends[1], weight) if normalize else ops.ones_like(distance)
    sums = {"edits": ops.sum(weight * distance), "count": ops.sum(weight * words)}

    def number(sums: Sums) -> Var:
        return sums["edits"] / sums["count"]

    return accumulate_metric(what, name, sums, number, "min")


def _checked_lengths(lengths: Var, size: Size) -> Var:
    """Check lengths at run time: an error if one exceeds the size."""
    return ops.take(arange(size + 1), lengths, axis=0)


def _distance(predicted: Var, labels: Var, steps: Var, words: Var) -> Var:
    """Return the edit distance of each batch element.

    The carry of the scan is a row of the dynamic program: the distances of the steps so far to
    each prefix of the labels. An entry depends on its predecessor plus 1, so a row is a running
    minimum.
    """
    positions = arange(labels.shape[1] + 1)
    start = emit("broadcast_to", positions, shape=(predicted.shape[0], labels.shape[1] + 1))
    is_step = ops.expand_dims(arange(predicted.shape[1]), axis=1) < steps

    def step(previous: Var, scanned: Any) -> tuple[Var, Any]:
        word, counts = scanned
        substitution = ops.cast(ops.not_equal(labels, ops.expand_dims(word, axis=1)), "int64")
        edited = ops.minimum(previous[:, 1:] + 1, previous[:, :-1] + substitution)
        row = ops.concat([previous[:, :1] + 1, edited], axis=1)
        distances = ops.cummin(row - positions, axis=1) + positions
        return ops.where(ops.expand_dims(counts, axis=1), distances, previous), ()

    last, _ = scan(step, start, (ops.swapaxes(predicted, 0, 1), is_step))
    return take_per_row(last, words)
