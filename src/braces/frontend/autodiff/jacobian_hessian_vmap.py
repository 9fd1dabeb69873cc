"""Matrices of derivatives: `br.jacobian`, `br.hessian`; and functions over rows: `br.vmap`.

A Jacobian is a loop over the elements of one side: in each trip the gradient of one element of
the target, or how the target moves with one element of the input. What trips have in common, as
all that was computed before, is computed once.
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
from braces.frontend.core.all_or_nothing import building
from braces.frontend.core.pytree import rebuild, values
from braces.ir.records import VarInfo
from braces.ops.common.rules import axis_index
from braces.passes.autodiff.common import (
    OneOrMore,
    as_list,
    derived_beside,
    differentiable_vars,
)
from braces.passes.autodiff.forward_mode import pushed_from
from braces.passes.autodiff.reverse_mode import gradients, pulled_from

__all__ = ["hessian", "jacobian", "vmap"]

Mode: TypeAlias = Literal["forward", "reverse"]
MODES = ("forward", "reverse")


@building
def jacobian(
    target: Var,
    inputs: OneOrMore[Var | VarInfo],
    *,
    batch_axis: int | None = None,
    mode: Mode | None = None,
) -> Any:
    """All derivatives of a target with respect to inputs.

        out[i…, j…] = d target[i…] / d input[j…]

    With `batch_axis`, target and inputs have rows along this axis, and each row of the target
    depends on its own row of an input alone:

        out[r, i…, j…] = d target[r, i…] / d input[r, j…]

    Where a row depends on others too, as after a batch norm, that is the sum over the rows of
    the target, as it is of `br.gradients`.

    Args:
        target: A variable of a float dtype.
        inputs: Variables, differentiable and visible where the target is; one, or a list.
        batch_axis: The axis of rows; none where it is not said.
        mode: `"reverse"` takes a gradient for each element of the target, `"forward"` a
            directional derivative for each of the input. By default what takes fewer, and of
            as many, and of sizes that are not known, the reverse.

    Returns:
        A variable for each input; of one input, that alone: [*target.shape, *input.shape], with
        `batch_axis` [rows, *others of the target, *others of the input]. Zeros where the target
        does not depend on it.

    Raises:
        GradientError: A variable is not of a float dtype, or there is no such mode.
        ShapeError: There is no such axis, or rows differ.

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
            f"jacobian has no mode {mode!r:.40}.", fix='Use "forward", "reverse" or None.'
        )
    several = as_list(inputs)
    with derived_beside([target], several) as (host, (end,), starts):
        found = [_Jacobian(host, end, start, batch_axis).found(mode) for start in starts]
    return found if isinstance(inputs, list | tuple) else found[0]


@building
def hessian(
    target: Var,
    inputs: OneOrMore[Var | VarInfo],
    *,
    batch_axis: int | None = None,
    mode: Mode | None = None,
) -> Any:
    """All second derivatives of one number.

        out[i…, j…] = d2 target / (d input[i…] d input[j…])

    With `batch_axis`, the target is one number for each row: see `jacobian`.

    Args:
        target: A variable without axes; with `batch_axis`, of the axis of rows alone.
        inputs: Variables, differentiable and visible where the target is; one, or a list.
        batch_axis: The axis of rows of the inputs; none where it is not said.
        mode: How the gradient is differentiated; see `jacobian`.

    Returns:
        Of one input, [*shape, *shape]; of a list, a list of lists: `out[a][b]` is of inputs a
        and b. With `batch_axis` [rows, *others, *others].

    Raises:
        GradientError: A variable is not of a float dtype, or there is no such mode.
        ShapeError: The target is more than one number.

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
        each = "" if batch_axis is None else " for each row"
        raise ShapeError(
            f"hessian takes one number{each}.",
            given=f"{target.name}: {target.type}",
            fix="Sum it up, or take br.jacobian of br.gradients.",
        )
    starts = differentiable_vars(as_list(inputs), [target])
    grads = gradients(target, starts)
    rows = [
        [_second(grad, way, other, batch_axis, mode) for other in starts]
        for grad, way in zip(grads, starts, strict=True)
    ]
    return rows if isinstance(inputs, list | tuple) else rows[0][0]


def _second(
    grad: Var | None, way: Var, other: Var, batch_axis: int | None, mode: Mode | None
) -> Var:
    """The derivatives of a gradient, which is zero where nothing connects the two."""
    return jacobian(
        ops.zeros_like(way) if grad is None else grad, other, batch_axis=batch_axis, mode=mode
    )


class _Jacobian:
    """All derivatives of one variable with respect to another one.

    Attributes:
        host: The block that sees both.
        batch: The axis of rows in both; `None` where there are none.
    """

    def __init__(self, host: SymbolTable, target: Var, start: Var, batch: int | None) -> None:
        self.host = host
        self.target = target
        self.start = start
        self.batch = None if batch is None else self._batch(batch)

    def _batch(self, axis: int) -> int:
        at = {axis_index(axis, var.ndim, "jacobian") for var in (self.target, self.start)}
        whole = [tensor_type(var).shape for var in (self.target, self.start)]
        unifier = current_program().current.unifier
        if len(at) > 1 or unifier.unify(*(one[min(at)] for one in whole)) is None:
            raise ShapeError(
                f"jacobian needs as many rows of input and target, along axis {axis}.",
                given=f"target: {self.target.type}   input: {self.start.type}",
            )
        return at.pop()

    def found(self, mode: Mode | None) -> Var:
        """The derivatives."""
        ends, starts = self._others(self.target), self._others(self.start)
        few, most = product(starts), product(ends)
        fewer = isinstance(few, int) and (not isinstance(most, int) or few < most)
        if mode == "forward" or (mode is None and fewer):
            rows = self._each(self.start, self.target, self._pushed)
            whole = self._whole(rows, self.target, (*starts, *ends))
            return self._turned(whole, len(starts))
        rows = self._each(self.target, self.start, self._pulled)
        return self._whole(rows, self.start, (*ends, *starts))

    def _others(self, var: Var) -> Shape:
        """The sizes of a variable but that of the rows."""
        shape = tensor_type(var).shape
        return tuple(size for axis, size in enumerate(shape) if axis != self.batch)

    def _each(self, of: Var, like: Var, derive: Callable[[Var], Var | None]) -> Var:
        """What is derived of each element of a variable, along a first axis.

        Args:
            of: The variable; of all rows at once where there are any.
            like: What has the type of what is derived.
            derive: From ones in the place of an element, and zeros elsewhere.
        """
        rnn = create_rnn()
        seeds = self._seeds(of)
        with rnn.stepnet() as net:
            found = derive(net.add_input(seeds))
            net.add_output(ops.zeros_like(like) if found is None else found)
        return rnn()

    def _seeds(self, of: Var) -> Var:
        others, shape = self._others(of), tensor_type(of).shape
        count = product(others)
        seeds = ops.reshape(ops.eye(count, dtype=of.dtype), (count, *others))
        if self.batch is None:
            return seeds
        led = ops.expand_dims(seeds, axis=self.batch + 1)
        return ops.broadcast_to(led, (count, *shape))

    def _pulled(self, seed: Var) -> Var | None:
        return pulled_from(self.host, [self.target], [self.start], [seed])[0]

    def _pushed(self, seed: Var) -> Var | None:
        return pushed_from(self.host, [self.target], {self.start.name: seed})[0]

    def _whole(self, rows: Var, like: Var, sizes: Sequence[Size]) -> Var:
        """Rows of derivatives, each like a variable, by these sizes behind the axis of rows."""
        if self.batch is None:
            return ops.reshape(rows, tuple(sizes))
        batch = tensor_type(like).shape[self.batch]
        led = ops.moveaxis(rows, source=self.batch + 1, destination=0)
        return ops.reshape(led, (batch, *sizes))

    def _turned(self, whole: Var, first: int) -> Var:
        """The axes of the input, which are the first so many, behind those of the target."""
        led = 0 if self.batch is None else 1
        ways = range(led, led + first)
        return ops.moveaxis(whole, source=[*ways], destination=[n - led - first for n in ways])


# ---- over rows -------------------------------------------------------------------------------


def vmap(
    function: Callable[..., Any],
    in_axes: int | Sequence[int | None] | None = 0,
    out_axes: int = 0,
) -> Callable[..., Any]:
    """A function of variables as one of many rows of them.

        out[r] = function(x[r], ...)                            for all r

    It is a loop over the rows, so whatever can be built is right in it, and has gradients: a
    `br.while_loop` runs for each row as long as that row asks for, a `br.cond` takes one
    branch for each, and what draws draws anew for each. Compiled, products and convolutions of
    all rows are one and leave the loop, where operators say how their axes map
    (`br.passes.vectorize_before`); what is left runs row by row.

    Args:
        function: From variables, or nested tuples, lists and dicts of them, to the same.
        in_axes: The axis of rows of each argument; `None` for one that is the same for all. One
            for all arguments, or one for each.
        out_axes: The axis of rows of the results.

    Returns:
        The function of rows; its arguments are positional.

    Raises:
        ProgramError: There is not one axis for each argument, or none has rows; when called.
        ShapeError: Numbers of rows differ, or there is no such axis; when called.

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
        raise ProgramError(f"vmap takes a function, not {function!r:.60}.")

    @functools.wraps(function)
    @building
    def mapped(*args: Any) -> Any:
        axes = _axes(in_axes, len(args))
        found = _each_row(function, args, axes)
        return rebuild(found, [ops.moveaxis(y, 0, out_axes) for y in values(found)])

    return mapped


def _axes(in_axes: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    axes = [in_axes] * count if isinstance(in_axes, int | None) else list(in_axes)
    if len(axes) != count:
        raise ProgramError(
            f"vmap has {len(axes)} axes for {count} arguments.",
            given=f"in_axes: {in_axes}",
            fix="Give one for all, or one for each argument; None where all rows share it.",
        )
    if all(axis is None for axis in axes):
        raise ProgramError("vmap is given nothing with rows.", fix="Give an axis: in_axes=0.")
    return axes


def _each_row(function: Callable[..., Any], args: Sequence[Any], axes: Sequence[Any]) -> Any:
    """What a function makes of each row, along a first axis."""
    led = [
        ops.moveaxis(x, axis_index(axis, x.ndim, "vmap"), 0)
        for arg, axis in zip(args, axes, strict=True)
        if axis is not None
        for x in map(as_var, values(arg))
    ]

    def row(carry: None, slices: Sequence[Var]) -> tuple[None, Any]:
        rows = iter(slices)
        own = (
            arg if axis is None else rebuild(arg, rows)
            for arg, axis in zip(args, axes, strict=True)
        )
        return carry, function(*own)

    return scan(row, None, led)[1]
