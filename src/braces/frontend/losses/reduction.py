"""Helpers of losses: checks of operands, and reductions over examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from braces.builder.append import as_var, emit
from braces.builder.var import Var
from braces.dtypes import DType, is_integer
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.frontend.control.block import compose_block
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.ops.common.rules import axis_index, float_dtype, promote

Reduction: TypeAlias = Literal["none", "mean", "sum"]
"""`"none"` keeps the losses of examples, `"mean"` and `"sum"` reduce them to one number."""
REDUCTIONS = ("none", "mean", "sum")


# ---- results ---------------------------------------------------------------------------------


def reduce_operator_loss(
    op_type: str,
    *operands: Any,
    reduction: Reduction,
    name: str,
    function: str = "",
    **attrs: Any,
) -> Var:
    """Build a loss that is one operator, and reduce it.

    Args:
        op_type: The type of the operator.
        operands: Its operands.
        reduction: The reduction that the user chose.
        name: The name of the result.
        function: The public function, if its name is not that of the operator.
        attrs: The attributes of the operator.
    """
    if reduction == "none":
        return emit(op_type, *operands, name=name, **attrs)

    def build() -> Var:
        check_reduction(op_type, reduction)
        return emit(reduction, emit(op_type, *operands, **attrs), name=name)

    build.__name__ = function or op_type  # the place of errors
    return transactional(build)()


def compose_loss(
    what: str,
    reduction: Reduction,
    name: str,
    losses: Callable[[], Var],
    weights: Callable[[], Var] | None = None,
) -> Var:
    """Build a loss of several operators in a plain block, and reduce it.

    Args:
        what: The default name of the block.
        reduction: The reduction that the user chose.
        name: The name of the block.
        losses: Builds the losses of the examples.
        weights: Builds the weights of the examples in the mean; equal weights by default.
    """
    check_reduction(what, reduction)

    def build() -> Var:
        loss = losses()
        if reduction == "mean" and weights is not None:
            return ops.sum(loss) / ops.sum(weights())
        return reduce_losses(loss, reduction)

    return compose_block(name or what, build)


def reduce_losses(losses: Var, reduction: Reduction) -> Var:
    """Reduce the losses of examples."""
    return losses if reduction == "none" else emit(reduction, losses)


def check_reduction(what: str, reduction: Reduction) -> None:
    """Refuse an unknown reduction.

    Raises:
        ProgramError: If the reduction is unknown.
    """
    check_one_of(what, "reduction", reduction, REDUCTIONS)


def check_one_of(what: str, option: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a value that is not among the known values of an option.

    Raises:
        ProgramError: If the value is unknown.
    """
    if value not in known:
        raise ProgramError(
            f"{what} got an unknown {option} {value!r:.40}.",
            fix=f"Use {', '.join(map(repr, known[:-1]))} or {known[-1]!r}.",
        )


# ---- operands --------------------------------------------------------------------------------


def to_equal_shapes(what: str, **given: Any) -> list[Var]:
    """Convert operands of equal shape, or single numbers, to a common float dtype.

    Raises:
        ShapeError: If the shapes differ.
        DTypeError: If an operand is complex.
    """
    operands = {name: as_var(value) for name, value in given.items()}
    shaped = [var for var in operands.values() if var.ndim]
    if any(var.shape != shaped[0].shape for var in shaped):
        raise ShapeError(
            f"{what}: expected equal shapes, or scalars.",
            given=format_types(operands),
            fix="Losses do not broadcast, because [b,1] with [b] is usually a mistake.",
        )
    return to_common_float(what, **operands)


def to_common_float(what: str, **operands: Var) -> list[Var]:
    """Convert operands to their promoted float dtype."""
    dtype = float_dtype(promote(*(var.dtype for var in operands.values())))
    if dtype.kind == "c":
        raise DTypeError(
            f"{what}: expected real operands, got {dtype}.", given=format_types(operands)
        )
    return [_in_dtype(var, dtype) for var in operands.values()]


def _in_dtype(x: Var, dtype: DType) -> Var:
    return x if x.dtype == dtype else ops.cast(x, dtype)


def broadcast_along(x: Var, axis: int, rank: int) -> Var:
    """Reshape a vector to broadcast along one axis of an array of this rank."""
    return ops.reshape(x, (-1, *[1] * (rank - 1 - axis)))


def format_types(operands: dict[str, Var]) -> str:
    """Format operands and their types for error messages."""
    return "   ".join(f"{slot}={var.name}: {var.type}" for slot, var in operands.items())


def check_labels(what: str, x: Var, labels: Var, axis: int) -> int:
    """Check class labels against predictions; return the non-negative axis of classes.

    Raises:
        DTypeError: If the labels are not integers.
        ShapeError: If the axis is out of range, or the shapes do not match.
    """
    at = axis_index(axis, x.ndim, what)
    if not is_integer(labels.dtype):
        raise DTypeError(
            f"{what}: expected integer labels, got {labels.dtype}.",
            given=format_types({"labels": labels}),
            fix="Pass class indices, or use the loss with target probabilities.",
        )
    wanted = (*x.shape[:at], *x.shape[at + 1 :])
    if labels.shape != wanted:
        raise ShapeError(
            f"{what}: expected one label for each example, without the class axis.",
            given=format_types({"x": x, "labels": labels}),
            fix=f"Pass labels of shape [{','.join(map(str, wanted))}].",
        )
    return at


def check_at_least(what: str, least: float, **options: Any) -> None:
    """Refuse options below a minimum.

    Raises:
        ProgramError: If an option is too small, or not a number.
    """
    for option, value in options.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not value >= least:
            raise ProgramError(
                f"{what}: expected {option} of at least {least}, got {value!r:.40}."
            )
