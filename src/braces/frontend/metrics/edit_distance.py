"""How many words of a sequence must be changed to make it another."""

from __future__ import annotations

from typing import Any

from braces.builder.append import one
from braces.builder.var import Operand, Var
from braces.dims import Size
from braces.dtypes import FLOAT64
from braces.errors import ShapeError
from braces.frontend.control.functional import scan
from braces.frontend.control.sequence_lengths import row_labels, row_lengths, taken
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.public_names import arange
from braces.frontend.metrics.base import Metric, Sums, kept, looked_at, weights_of


@building
def edit_distance(
    predictions: Any,
    labels: Any,
    weights: Operand | None = None,
    *,
    lengths: Any = None,
    label_lengths: Any = None,
    normalize: bool = True,
    name: str | None = None,
) -> Metric:
    """How many words must be put in, left out or changed to make predictions the labels.

        value = sum(weights * distance) / sum(weights * label_lengths)

    With words as ids it is the word error rate, with letters the character error rate. Source:
    Levenshtein, 1966.

    Args:
        predictions: integer[rows, steps].
        labels: integer[rows, others].
        weights: As those of `mean`, one for each row.
        lengths: integer[rows]: how many steps each prediction has; all where nothing is said.
            What stands behind them is not looked at.
        label_lengths: integer[rows]: likewise, of labels.
        normalize: Whether it is for each word of the labels, and not for each row.
        name: That of the metric.

    Raises:
        DTypeError: These are no integers.
        ShapeError: They are no rows of steps, or rows differ.
        IndexRangeError: In a run, a length is more than there is.

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
    said = operand(predictions, what)
    if said.ndim != 2:
        raise ShapeError(f"{what} takes rows of steps.", given=f"{said.name}: {said.type}")
    rows, steps = said.shape
    said = row_labels(what, said, said, (rows,))
    true = row_labels(what, said, labels, (rows,))
    ends = [
        one("broadcast_to", one("size", value=size), shape=(rows,))
        if given is None
        else _up_to(row_lengths(what, said, (rows,), given), size)
        for given, size in ((lengths, steps), (label_lengths, true.shape[1]))
    ]
    distance = ops.cast(_distance(said, true, *ends), FLOAT64)
    weight = weights_of(what, distance, weights)
    words = looked_at(ends[1], weight) if normalize else ops.ones_like(distance)
    sums = {"edits": ops.sum(weight * distance), "count": ops.sum(weight * words)}

    def number(sums: Sums) -> Var:
        return sums["edits"] / sums["count"]

    return kept(what, name, sums, number)


def _up_to(lengths: Var, size: Size) -> Var:
    """Lengths; an error in the run where one is more than there is."""
    return ops.take(arange(size + 1), lengths, axis=0)


def _distance(said: Var, true: Var, steps: Var, words: Var) -> Var:
    """The distance of each row.

    After each step there is, for each beginning of the labels, the distance of what was said so
    far. One entry depends on that before it by 1 more, so all of them are a running minimum.
    """
    places = arange(true.shape[1] + 1)
    start = one("broadcast_to", places, shape=(said.shape[0], true.shape[1] + 1))
    there = ops.expand_dims(arange(said.shape[1]), axis=1) < steps

    def step(before: Var, given: Any) -> tuple[Var, Any]:
        word, counts = given
        differ = ops.cast(ops.not_equal(true, ops.expand_dims(word, axis=1)), "int64")
        changed = ops.minimum(before[:, 1:] + 1, before[:, :-1] + differ)
        row = ops.concat([before[:, :1] + 1, changed], axis=1)
        after = ops.cummin(row - places, axis=1) + places
        return ops.where(ops.expand_dims(counts, axis=1), after, before), ()

    last, _ = scan(step, start, (ops.swapaxes(said, 0, 1), there))
    return taken(last, words)
