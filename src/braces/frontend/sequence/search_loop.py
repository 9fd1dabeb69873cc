"""Common parts of decoders: their arguments, and the loop that appends ids."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np

from braces.builder.append import as_var, emit
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Size
from braces.dtypes import INT64, DType, ListType, is_float, is_integer
from braces.errors import DTypeError, IndexRangeError, ProgramError, ShapeError
from braces.frontend.control.functional import while_loop
from braces.frontend.core import functions as ops
from braces.frontend.core.parameters import fixed_size
from braces.frontend.core.pytree import leaves_with_paths

_PER_BEAM = (
    "{} calls the step with a row for each beam: pass values of each batch element, as the "
    "output of an encoder, in the state (init=), which is repeated for the beams."
)
Step = Callable[[Any, Any], tuple[Any, Any]]


class Decoded(NamedTuple):
    """Decoded sequences.

    Attributes:
        ids: integer[rows, max_length], or [rows, beams, max_length]: the ids after the first,
            padded with end ids.
        lengths: int64[rows], or [rows, beams]: number of ids before the first end id.
        scores: float32[rows], or [rows, beams]: log probability of the ids, including the end
            id; beam search applies the length penalty.
    """

    ids: Var
    lengths: Var
    scores: Var


# ---- arguments -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """The common arguments of decoders.

    Attributes:
        what: The name of the decoder.
        step: The step function of the user.
        first: integer[rows]: the first ids.
        end: The id that ends a sequence.
        length: Maximum number of ids.
        number: The first id, if it is one integer for all sequences.
    """

    what: str
    step: Step
    first: Var
    end: int
    length: int
    number: int | None = None

    @classmethod
    def of(cls, what: str, step: Step, init: Any, start: Any, end: int, length: int) -> Self:
        """Validate the arguments of a user."""
        for name, number in (("end", end), ("max_length", length)):
            if number < 0:
                raise ProgramError(f"{what}: expected a non-negative {name}=, got {number}.")
        if not callable(step):
            raise ProgramError(f"{what}: expected a function as step, got {step!r:.60}.")
        rows = _batch_size(what, init)
        number = _one_id(start)
        if number is not None:
            if rows is None:
                raise ProgramError(
                    f"{what} has no batch size: the state and `start` have no batch axis.",
                    fix=f"For one sequence write start=[{start}]; for a batch, "
                    f"start=br.full([x.shape[0]], {start}).",
                )
            first = _full((rows,), *number)
            return cls(what, step, first, end, length, number[0])
        first = as_var(start)
        if first.ndim != 1 or not is_integer(first.dtype):
            raise (ShapeError if is_integer(first.dtype) else DTypeError)(
                f"{what}: expected an integer or integer vector as start=, got {first.type}.",
                given=f"{first.name}: {first.type}",
            )
        return cls(what, step, first, end, length)

    @property
    def rows(self) -> Size:
        """The batch size."""
        return self.first.shape[0]

    @property
    def dtype(self) -> DType:
        """The dtype of ids."""
        return self.first.dtype

    def next(self, ids: Var, state: Any) -> tuple[Var, Any]:
        """Return the logits of the next ids, float32, and the next state."""
        result: Any = self._stepped(ids, state)
        if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
            raise ProgramError(
                f"the step of {self.what} must return a pair (logits, state).",
                given=f"{result!r:.80}",
                fix="Return (logits, state); use None for no state.",
            )
        logits, next_state = cast("tuple[Any, Any]", result)
        logits = as_var(logits)
        if logits.ndim != 2 or not is_float(logits.dtype):
            raise ShapeError(
                f"the step of {self.what} must return float logits [rows, vocabulary].",
                given=f"{logits.name}: {logits.type}",
                fix="Logits have no axis of steps: take the last, as in `h[:, -1]`.",
            )
        vocabulary = fixed_size(logits, 1, self.what)
        if self.end >= vocabulary:
            raise IndexRangeError(
                f"end={self.end} of {self.what} is out of range for {vocabulary} ids.",
                given=f"{logits.name}: {logits.type}",
            )
        if current_program().current.unifier.unify(logits.shape[0], ids.shape[0]) is None:
            raise ShapeError(
                f"batch size mismatch of logits and ids in the step of {self.what}.",
                given=f"{logits.name}: {logits.type}   {ids.name}: {ids.type}",
            )
        return ops.cast(logits, "float32"), next_state

    def _stepped(self, ids: Var, state: Any) -> Any:
        """Call the step.

        An error about the dtype of ids names `start=`, and one about the rows of all beams the
        state.
        """
        try:
            return self.step(ids, state)
        except DTypeError as error:
            operand = f"{ids.name}: {ids.type}"
            if self.number is None or operand not in (error.given or ""):
                raise
            other = "int32" if ids.dtype == INT64 else "int64"
            raise DTypeError(
                f"dtype mismatch of start={self.number} and the ids in the {self.what} step.",
                given=error.given,
                fix=f"Pass start=br.full([rows], {self.number}, dtype='{other}').",
            ) from error
        except ShapeError as error:
            if _names_both(error, ids.shape[0], self.rows):
                error.advise(_PER_BEAM.format(self.what))
            raise

    def carry(self, rows: tuple[Size, ...], state: Any) -> dict[str, Any]:
        """Return the initial carry of the loop."""
        return {
            "step": _full((), 0),
            "last": self.first,
            "ids": _full((*rows, self.length), self.end, self.dtype),
            "ended": _full(rows, 0, "bool"),
            "taken": _full(rows, 0),
            "scores": _full(rows, 0.0, "float32"),
            "state": state,
        }

    def loop(self, body: Callable[[Any], Any], carry: dict[str, Any]) -> dict[str, Any]:
        """Run the loop until all sequences have ended."""

        def goes_on(carry: dict[str, Any]) -> Var:
            is_done = ops.logical_or(carry["ended"], ops.equal(carry["scores"], -float("inf")))
            return ops.logical_and(
                carry["step"] < self.length, ops.logical_not(ops.all(is_done))
            )

        return while_loop(goes_on, body, carry)

    def written(self, ids: Var, chosen: Var, step: Var) -> Var:
        """Return the sequences with one more id."""
        zero = _full((), 0)
        starts = [*[zero] * (ids.ndim - 1), step]
        return ops.dynamic_update_slice(ids, ops.expand_dims(chosen, axis=-1), starts)


def _names_both(error: ShapeError, rows: Size, batch: Size) -> bool:
    """Return whether an error is about a size of all beams and one of the batch."""
    text = f"{error.what} {error.given or ''}"
    sizes = [rf"(?<![\w*]){re.escape(str(size))}(?![\w*])" for size in (rows, batch)]
    return rows != batch and all(re.search(size, text) for size in sizes)


def _full(shape: tuple[Size, ...], value: Any, dtype: object = INT64) -> Var:
    return emit("full", shape=shape, value=value, dtype=dtype)


def _one_id(start: Any) -> tuple[int, object] | None:
    """Return the id and the dtype of ids that one integer stands for; `None` for others."""
    if isinstance(start, int):
        return None if isinstance(start, bool) else (start, INT64)
    if isinstance(start, np.integer):
        scalar = cast("np.integer[Any]", start)
        return int(scalar), str(scalar.dtype)
    return None


def _batch_size(what: str, init: Any) -> Size | None:
    """Return the batch size of a state; `None` if it has only scalars."""
    rows: Size | None = None
    for path, leaf in leaves_with_paths(init, "state"):
        var = as_var(leaf)
        if isinstance(var.type, ListType):
            raise DTypeError(f"{what} cannot carry the list `{path}`.", fix="Carry arrays.")
        if not var.ndim:
            continue
        rows = var.shape[0] if rows is None else rows
        if current_program().current.unifier.unify(rows, var.shape[0]) is None:
            raise ShapeError(
                f"{what}: expected batch size {rows} of `{path}`, got {var.shape[0]}.",
                given=f"{var.name}: {var.type}",
                fix="Move the batch axis first: br.moveaxis(x, …, 0). Scalars are shared.",
            )
    return rows
