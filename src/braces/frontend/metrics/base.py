"""Common parts of metrics: accumulated sums of batches, and values computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from braces.builder.append import as_var, emit
from braces.builder.builder import current_program
from braces.builder.source_line import with_user_line
from braces.builder.var import Operand, Var
from braces.dtypes import BOOL, FLOAT64, is_float, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.sequence_lengths import same_size
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import operand
from braces.frontend.core.variables import persistable
from braces.frontend.losses.reduction import format_types
from braces.hints.objects import Hinted
from braces.ir.records import STATE
from braces.notebook import TextView
from braces.ops.control.construct.build import free_block_name
from braces.scope import Scope

Sums = Mapping[str, Var]
Better = Literal["min", "max"]
"""The direction of improvement of a measurement."""


@dataclass(frozen=True, eq=False, repr=False)
class Metric(Hinted, TextView):
    """A metric over all batches since the last reset.

    Attributes:
        name: Prefix of the names of its states.
        value: The value over all batches, including this run; to be fetched.
        batch: The value of this run only.
        states: The accumulated sums.
        better: `"max"` if larger values are better, `"min"` if smaller ones are; `None` if that
            is unknown, as for `mean`. Callbacks such as `br.EarlyStopping` read it.

    Example:
        >>> import numpy as np, braces as br
        >>> with br.Program() as prog:
        ...     scores, label = br.data("s", ["n", 2]), br.data("label", ["n"], dtype="int32")
        ...     accuracy = br.metrics.accuracy(scores, label)
        >>> exe = br.Executor()
        >>> scope = exe.init(prog)
        >>> feed = {"s": np.eye(2, dtype="float32"), "label": np.zeros(2, "int32")}
        >>> for _ in range(3):
        ...     [value] = exe.run(prog, scope, feed, fetch=[accuracy.value])
        >>> float(value)
        0.5
    """

    name: str
    value: Var
    batch: Var
    states: tuple[Var, ...]
    better: Better | None = None

    def __repr__(self) -> str:
        names = f"value `{self.value.name}`, batch `{self.batch.name}`"
        return f"<Metric {self.name}: {self.value.type}, {names}>"

    @with_user_line
    def reset(self, scope: Scope) -> None:
        """Reset the accumulated sums in a scope to zero.

        Raises:
            DTypeError: If `scope` is not a scope.
        """
        if not isinstance(cast("Any", scope), Scope):
            raise DTypeError(f"Metric.reset: expected a br.Scope, got {scope!r:.60}.")
        scope.update({state.name: zeros_like(state) for state in self.states})


def zeros_like(state: Var) -> np.ndarray[Any, Any]:
    """Return the initial value of an accumulator."""
    return np.zeros([size for size in state.shape if isinstance(size, int)], state.dtype)


def accumulate_metric(
    kind: str,
    name: str | None,
    sums: Sums,
    number: Callable[[Sums], Var],
    better: Better | None,
) -> Metric:
    """Return a metric that accumulates sums over the examples of a batch."""
    program = current_program()
    if not program.current.runs_once:
        raise ProgramError(
            f"{kind} cannot accumulate in an inner block, which can run many times or never.",
            fix="Build the metric after the loop or branch, from one of its outputs.",
        )
    table = program.current
    prefix = table.prefixed(name) if name else free_block_name(table, kind)
    states, totals = list[Var](), dict[str, Var]()
    for role, batch in sums.items():
        sizes = [size for size in batch.shape if isinstance(size, int)]
        with table.naming(""):
            state = persistable(
                f"{prefix}/{role}", sizes, 0.0, FLOAT64, kind=STATE, trainable=False
            )
        totals[role] = emit("accumulate", state, batch)
        program.update(state.name, totals[role].name)
        states.append(state)
    return Metric(prefix, number(totals), number(sums), tuple(states), better)


def weights_of(kind: str, values: Var, weights: Operand | None) -> Var:
    """Return a weight for each value, float64.

    Raises:
        DTypeError: If the weights are not numbers.
        ShapeError: If the weights do not broadcast to the values.
    """
    if weights is None:
        return ops.ones_like(values, dtype=FLOAT64)
    var = as_var(weights)
    is_numeric = is_float(var.dtype) or is_integer(var.dtype) or var.dtype == BOOL
    if not is_numeric or var.dtype.kind == "c":
        raise DTypeError(f"{kind}: expected real or bool weights, got {var.type}.")
    if var.ndim > values.ndim or not all(
        left == 1 or same_size(left, right)
        for left, right in zip(var.shape[::-1], values.shape[::-1], strict=False)
    ):
        raise ShapeError(
            f"{kind} cannot broadcast the weights to the shape of the values.",
            given=f"values: {values.type}   weights={var.name}: {var.type}",
            fix="Pass one weight for each value, or a shape that broadcasts to the values.",
        )
    return ops.broadcast_to(ops.cast(var, FLOAT64), values.shape)


def zero_unweighted(values: Var, weight: Var) -> Var:
    """Return values in float64, with 0 for values of zero weight, which may be NaN."""
    return ops.where(ops.equal(weight, 0.0), 0.0, ops.cast(values, FLOAT64))


def safe_ratio(part: Var, whole: Var) -> Var:
    """Return a quotient, 0 if the denominator is 0."""
    is_zero = ops.equal(whole, 0.0)
    return ops.where(is_zero, 0.0, part / ops.where(is_zero, 1.0, whole))


def check_same_shape(kind: str, **given: Any) -> tuple[Var, Var]:
    """Return two operands of one shape as variables.

    Raises:
        ShapeError: If the shapes differ.
    """
    (first, left), (second, right) = given.items()
    left, right = operand(left, kind), as_var(right)
    if left.ndim != right.ndim or not all(map(same_size, left.shape, right.shape)):
        raise ShapeError(
            f"{kind}: expected equal shapes of `{first}` and `{second}`.",
            given=format_types({first: left, second: right}),
            fix="Metrics do not broadcast, because [b,1] with [b] is usually a mistake.",
        )
    return left, right


def mean_metric(
    kind: str,
    name: str | None,
    values: Var,
    weights: Operand | None,
    shape: Callable[[Var], Var] | None = None,
    *,
    better: Better | None,
) -> Metric:
    """Return a metric: the weighted mean of values, or a function of it."""
    weight = weights_of(kind, values, weights)
    sums = {
        "total": ops.sum(zero_unweighted(values, weight) * weight),
        "count": ops.sum(weight),
    }

    def number(sums: Sums) -> Var:
        average = sums["total"] / sums["count"]
        return average if shape is None else shape(average)

    return accumulate_metric(kind, name, sums, number, better)
