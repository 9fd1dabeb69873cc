"""Jacobians and Hessians: `br.jacobian`, `br.hessian`; and batched functions: `br.vmap`.

A Jacobian is a loop. In reverse mode each iteration computes the gradient of one element of the
target; in forward mode, the directional derivative for one element of the input. Values that do
not depend on the iteration, such as the forward computation, are computed once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, tensor_type
from braces.dims import Shape, Size, product
from braces.errors import GradientError, ProgramError, ShapeError
from braces.frontend.control.functional import scan
from braces.frontend.control.rnn import create_rnn
from braces.frontend.core import functions as ops
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.pytree import tree_leaves, tree_unflatten
from braces.ir.records import VarInfo
from braces.keywords import hint_keywords
from braces.ops.common.rules import axis_index
from braces.passes.autodiff.common import (
    OneOrMore,
    as_list,
    derivative_block,
    differentiable_vars,
)
from braces.passes.autodiff.forward_mode import build_jvp_from
from braces.passes.autodiff.reverse_mode import build_vjp_from, gradients

__all__ = ["hessian", "jacobian", "vmap"]

Mode: TypeAlias = Literal["forward", "reverse"]
MODES = ("forward", "reverse")


@transactional
def jacobian(
    target: Var,
    inputs: OneOrMore[Var | VarInfo],
    *,
    batch_axis: int | None = None,
    mode: Mode | None = None,
) -> Any:
    """Jacobians of a target with respect to inputs.

        out[i…, j…] = d target[i…] / d input[j…]

    `batch_axis` is a batch axis of target and inputs. Each batch element of the target then
    depends only on the same element of an input:

        out[r, i…, j…] = d target[r, i…] / d input[r, j…]

    If it depends on other elements too, as after a batch norm, the result is summed over the
    batch elements of the target, as with `br.gradients`.

    Args:
        target: A variable of a float dtype.
        inputs: Variables, differentiable and visible where the target is; one, or a list.
        batch_axis: The batch axis; none by default.
        mode: `"reverse"` computes a gradient for each element of the target, `"forward"` a
            directional derivative for each element of the input. The default is the mode with
            fewer iterations; reverse if they are equal or sizes are symbolic.

    Returns:
        A variable for each input, or a single one for a single input: [*target.shape,
        *input.shape]; with `batch_axis`, [rows, *others of the target, *others of the input].
        Zeros if the target does not depend on the input.

    Raises:
        GradientError: If the dtype of a variable is not a float dtype, or the mode is unknown.
        ShapeError: If the axis is out of range, or batch sizes differ.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 3])
        ...     y = br.stack([br.sum(x * x, axis=1), br.prod(x, axis=1)], axis=1)
        ...     j = br.jacobian(y, x, batch_axis=0)
        >>> br.Executor().run(prog, br.Scope(), {"x": [[1.0, 2.0, 3.0]]}, j)
        array([[[2., 4., 6.],
                [6., 3., 2.]]], dtype=float32)
    """
    if mode is not None and mode not in MODES:
        raise GradientError(
            f"unknown mode {mode!r:.40} of jacobian.", fix='Use "forward", "reverse" or None.'
        )
    several = as_list(inputs)
    with derivative_block("jacobian", [target], several) as (host, (end,), starts, call):
        derivatives = [
            _Jacobian(host, end, start, batch_axis).derivatives(mode) for start in starts
        ]
        call.results = derivatives
    return derivatives if isinstance(inputs, list | tuple) else derivatives[0]


@transactional
def hessian(
    target: Var,
    inputs: OneOrMore[Var | VarInfo],
    *,
    batch_axis: int | None = None,
    mode: Mode | None = None,
) -> Any:
    """Hessian: all second derivatives of a scalar.

        out[i…, j…] = d2 target / (d input[i…] d input[j…])

    With `batch_axis`, the target is one number for each batch element; see `jacobian`.

    Args:
        target: A scalar variable; with `batch_axis`, a vector over the batch axis.
        inputs: Variables, differentiable and visible where the target is; one, or a list.
        batch_axis: The batch axis of the inputs; none by default.
        mode: The mode in which the gradient is differentiated; see `jacobian`.

    Returns:
        For one input, [*shape, *shape]; for a list, a list of lists: `out[a][b]` belongs to
        inputs a and b. With `batch_axis` [rows, *others, *others].

    Raises:
        GradientError: If the dtype of a variable is not a float dtype, or the mode is unknown.
        ShapeError: If the target has more than one element.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [2])
        ...     h = br.hessian(x[0] * x[0] * x[1], x)
        >>> br.Executor().run(prog, br.Scope(), {"x": [3.0, 5.0]}, h)
        array([[10.,  6.],
               [ 6.,  0.]], dtype=float32)
    """
    rank = 0 if batch_axis is None else 1
    if isinstance(cast("Any", target), Var) and target.ndim != rank:
        each = "" if batch_axis is None else " for each batch element"
        raise ShapeError(
            f"hessian: expected a scalar target{each}.",
            given=f"{target.name}: {target.type}",
            fix="Apply br.sum, or take br.jacobian of br.gradients.",
        )
    starts = differentiable_vars(as_list(inputs), [target])
    grads = gradients(target, starts)
    rows = [
        [_second(grad, start, other, batch_axis, mode) for other in starts]
        for grad, start in zip(grads, starts, strict=True)
    ]
    return rows if isinstance(inputs, list | tuple) else rows[0][0]


def _second(
    grad: Var | None, start: Var, other: Var, batch_axis: int | None, mode: Mode | None
) -> Var:
    """Return the Jacobian of a gradient; zeros if the target does not depend on the input."""
    return jacobian(
        ops.zeros_like(start) if grad is None else grad, other, batch_axis=batch_axis, mode=mode
    )


class _Jacobian:
    """The Jacobian of one variable with respect to another one.

    Attributes:
        host: The block that sees both.
        batch: The batch axis of both; `None` if there is none.
    """

    def __init__(self, host: SymbolTable, target: Var, start: Var, batch: int | None) -> None:
        self.host = host
        self.target = target
        self.start = start
        self.batch = None if batch is None else self._batch(batch)

    def _batch(self, axis: int) -> int:
        at = {axis_index(axis, var.ndim, "jacobian") for var in (self.target, self.start)}
        shapes = [tensor_type(var).shape for var in (self.target, self.start)]
        unifier = current_program().current.unifier
        if len(at) > 1 or unifier.unify(*(sizes[min(at)] for sizes in shapes)) is None:
            raise ShapeError(
                f"jacobian: expected one batch size of input and target, along axis {axis}.",
                given=f"target: {self.target.type}   input: {self.start.type}",
            )
        return at.pop()

    def derivatives(self, mode: Mode | None) -> Var:
        """Build the Jacobian in a mode."""
        ends, starts = self._others(self.target), self._others(self.start)
        input_count, target_count = product(starts), product(ends)
        forward_is_shorter = isinstance(input_count, int) and (
            not isinstance(target_count, int) or input_count < target_count
        )
        if mode == "forward" or (mode is None and forward_is_shorter):
            rows = self._each(self.start, self.target, self._jvp)
            full = self._reshape_rows(rows, self.target, (*starts, *ends))
            return self._inputs_last(full, len(starts))
        rows = self._each(self.target, self.start, self._vjp)
        return self._reshape_rows(rows, self.start, (*ends, *starts))

    def _others(self, var: Var) -> Shape:
        """Return the sizes of a variable without the batch axis."""
        shape = tensor_type(var).shape
        return tuple(size for axis, size in enumerate(shape) if axis != self.batch)

    def _each(self, of: Var, like: Var, derive: Callable[[Var], Var | None]) -> Var:
        """Stack the derivatives for each element of a variable along a leading axis.

        Args:
            of: The variable; elements are taken over the whole batch at once.
            like: A variable with the type of a derivative.
            derive: The derivative for a one-hot seed.
        """
        rnn = create_rnn()
        seeds = self._seeds(of)
        with rnn.stepnet() as net:
            derivative = derive(net.add_input(seeds))
            net.add_output(ops.zeros_like(like) if derivative is None else derivative)
        return rnn()

    def _seeds(self, of: Var) -> Var:
        others, shape = self._others(of), tensor_type(of).shape
        count = product(others)
        seeds = ops.reshape(ops.eye(count, dtype=of.dtype), (count, *others))
        if self.batch is None:
            return seeds
        expanded = ops.expand_dims(seeds, axis=self.batch + 1)
        return ops.broadcast_to(expanded, (count, *shape))

    def _vjp(self, seed: Var) -> Var | None:
        return build_vjp_from(self.host, [self.target], [self.start], [seed])[0]

    def _jvp(self, seed: Var) -> Var | None:
        return build_jvp_from(self.host, [self.target], {self.start.name: seed})[0]

    def _reshape_rows(self, rows: Var, like: Var, sizes: Sequence[Size]) -> Var:
        """Reshape stacked derivatives to these sizes, after the batch axis if there is one."""
        if self.batch is None:
            return ops.reshape(rows, tuple(sizes))
        batch = tensor_type(like).shape[self.batch]
        batch_first = ops.moveaxis(rows, source=self.batch + 1, destination=0)
        return ops.reshape(batch_first, (batch, *sizes))

    def _inputs_last(self, full: Var, first: int) -> Var:
        """Move the leading `first` axes, those of the input, behind the target's axes."""
        batch_rank = 0 if self.batch is None else 1
        input_axes = range(batch_rank, batch_rank + first)
        return ops.moveaxis(
            full, source=[*input_axes], destination=[n - batch_rank - first for n in input_axes]
        )


# ---- vmap ------------------------------------------------------------------------------------


@hint_keywords
def vmap(
    function: Callable[..., Any],
    in_axes: int | Sequence[int | None] | None = 0,
    out_axes: int = 0,
) -> Callable[..., Any]:
    """Vectorize a function of variables over a batch axis.

        out[r] = function(x[r], ...)                            for all r

    It builds a loop over the batch elements. Therefore every construct is allowed in it and is
    differentiable: a `br.while_loop` has its own trip count for each element, a `br.cond` takes
    its own branch, and random operators draw new numbers. When compiled, matrix products and
    convolutions with an axis map are vectorized over the batch and leave the loop
    (`br.passes.vectorize_before`); the remaining operators run element by element.

    Args:
        function: From variables, or nested tuples, lists and dicts of them, to the same.
        in_axes: The batch axis of each argument; `None` for an unbatched argument. A single
            value applies to all arguments.
        out_axes: The batch axis of the results.

    Returns:
        The batched function; its arguments are positional.

    Raises:
        ProgramError: If the number of axes differs from the number of arguments of a call, or
            all axes are `None`.
        ShapeError: If the batch sizes of the arguments of a call differ, or an axis is out of
            range.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, w = br.data("x", ["batch", 3]), br.data("w", [3])
        ...     y = br.vmap(lambda row, w: br.dot(row, w), in_axes=(0, None))(x, w)
        >>> feed = {"x": [[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]], "w": [1.0, 10.0, 100.0]}
        >>> br.Executor().run(prog, br.Scope(), feed, y)
        array([321.,  10.], dtype=float32)
    """
    if not callable(cast("Any", function)):
        raise ProgramError(f"vmap: expected a function, got {function!r:.60}.")

    @functools.wraps(function)
    @transactional
    def mapped(*args: Any) -> Any:
        axes = _axes(in_axes, len(args))
        results = _each_row(function, args, axes)
        return tree_unflatten(
            results, [ops.moveaxis(y, 0, out_axes) for y in tree_leaves(results)]
        )

    return mapped


def _axes(in_axes: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    axes = [in_axes] * count if isinstance(in_axes, int | None) else list(in_axes)
    if len(axes) != count:
        raise ProgramError(
            f"in_axes has {len(axes)} entries for {count} arguments of vmap.",
            given=f"in_axes: {in_axes}",
            fix="Pass one for all, or one for each argument; None for a shared argument.",
        )
    if all(axis is None for axis in axes):
        raise ProgramError(
            "vmap: expected a batched argument, got none.", fix="Pass in_axes=0."
        )
    return axes


def _each_row(function: Callable[..., Any], args: Sequence[Any], axes: Sequence[Any]) -> Any:
    """Scan a function over the batch elements; stack its results along a leading axis."""
    scanned = [
        ops.moveaxis(x, axis_index(axis, x.ndim, "vmap"), 0)
        for arg, axis in zip(args, axes, strict=True)
        if axis is not None
        for x in map(as_var, tree_leaves(arg))
    ]

    def step(carry: None, slices: Sequence[Var]) -> tuple[None, Any]:
        rows = iter(slices)
        own = (
            arg if axis is None else tree_unflatten(arg, rows)
            for arg, axis in zip(args, axes, strict=True)
        )
        return carry, function(*own)

    return scan(step, None, scanned)[1]
