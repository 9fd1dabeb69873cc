"""Custom gradients (VJP rules): `create_custom_gradient`, and `custom_gradient` for functions.

    ste = br.create_custom_gradient("ste")   y: f32[4] = block() captures [x] as ste
    with ste.block() as f:                     body {
        h = br.round(f.add_input(x))             ste/round_0: f32[4] = round(x=x)
        f.add_output(h)                          y: f32[4] = custom_gradient(
    with ste.gradient() as g:                        values=ste/round_0, sources=x)
        g.add_output(*g.cotangents)                backward (…, g: f32[4]) { return g }
    y = ste()                                    return y
                                               }

The forward computation is a plain block. An operator at its end attaches the gradient to the
outputs. The gradient is written in the scope of the block, so it can read all values of the
block. An output that it reads has the custom gradient too, so that higher derivatives are
consistent.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from braces.builder.append import as_var
from braces.builder.builder import current_program
from braces.builder.source_line import with_user_line
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, expose, var_of
from braces.dtypes import unifies
from braces.errors import BracesError, GradientError, ProgramError
from braces.frontend.control.construct import SubBlock, add_location, outer_var
from braces.frontend.core.all_or_nothing import transactional
from braces.frontend.core.pytree import tree_leaves, tree_unflatten
from braces.ir.names import check_name
from braces.ir.records import Body
from braces.ir.walk import free_names, rename_body
from braces.notebook import Offering
from braces.ops.control.construct.build import (
    append_plain_block,
    build_custom_gradient,
    free_block_name,
)
from braces.ops.lists.cotangents import has_cotangent
from braces.passes.autodiff.common import is_differentiable_path, reachable
from braces.passes.autodiff.value_sources import value_sources

__all__ = ["create_custom_gradient", "custom_gradient"]

CONSTRUCT = "custom gradient"


class ForwardBlock(SubBlock):
    """The forward computation of a custom gradient; see `create_custom_gradient`."""

    def __init__(self, owner: CustomGradient) -> None:
        super().__init__(CONSTRUCT)
        self.owner = owner
        self.name = owner.name
        self.inputs: list[Var] = []
        self.given: list[Var] = []

    def begin(self) -> None:
        """Choose the block's name, which is the prefix of the names inside."""
        self.name = free_block_name(self.outer, self.owner.name)
        self.table = SymbolTable(parent=self.outer, block=self.name)

    @with_user_line
    def add_input(self, x: Any) -> Var:
        """Declare an outer variable as an input, to which the gradient is taken; return it."""
        self.require_open("add_input")
        self.inputs.append(outer_var(self, x, "add_input"))
        return self.inputs[-1]

    def close(self) -> None:
        """Refuse blocks whose gradient would silently be missing."""
        if not self.outputs:
            raise ProgramError("the block has no output.", fix="Call add_output(...).")
        self.given = [var for var in self.outputs if has_cotangent(var.type)]
        if not self.given:
            raise GradientError(
                "no output has a float dtype, so the block has no gradient.",
                given="   ".join(f"{var.name}: {var.type}" for var in self.outputs),
            )
        _refuse_captured(self)
        self.owner.forward = self


class GradientBlock(SubBlock):
    """The VJP: cotangents of outputs to cotangents of inputs; see `create_custom_gradient`.

    Attributes:
        cotangents: The cotangent of each output of a float dtype, in their order.
    """

    def __init__(self, owner: CustomGradient, forward: ForwardBlock) -> None:
        super().__init__(CONSTRUCT)
        self.owner = owner
        self.forward = forward
        self.outer = forward.table
        self.table = SymbolTable(parent=forward.table)
        self.cotangents: tuple[Var, ...] = ()
        self.body: Body | None = None
        self.ways: list[Var] = []
        self._values: dict[str, str] = {}
        self._grads: list[Var | None] = []

    def begin(self) -> None:
        """Add the parameters of the block: the outputs and their cotangents."""
        for var in self.forward.given:
            param = self.param("value", var.type).name
            if var.name in self.forward.table.vars:
                self._values[var.name] = param
        self.cotangents = tuple(self.param("cotangent", v.type) for v in self.forward.given)

    @with_user_line
    def add_output(self, *values: Any, **options: Any) -> None:
        """Set the cotangents of the inputs, in their order; `None` for an input without one."""
        self.require_open("add_output")
        if options:
            raise ProgramError(f"add_output has no option {', '.join(options)} here.")
        self._grads.extend(None if value is None else as_var(value) for value in values)

    def close(self) -> None:
        """Check the cotangents against the inputs and freeze the block."""
        inputs = self.forward.inputs
        if len(self._grads) != len(inputs):
            raise GradientError(
                f"expected {len(inputs)} cotangents, one for each input, "
                f"got {len(self._grads)}.",
                given=f"cotangents: {len(self._grads)}   inputs: "
                f"{', '.join(var.name for var in inputs) or 'none'}",
                fix="Pass one for each input, in their order; None for an input without one.",
            )
        results = list[str]()
        for var, grad in zip(inputs, self._grads, strict=True):
            if grad is not None:
                results.append(self._check_cotangent(var, expose(grad)).name)
                self.ways.append(var)
        self.body = rename_body(self.table.freeze(results), self._values)
        self.owner.backward = self

    def _check_cotangent(self, var: Var, grad: Var) -> Var:
        if not has_cotangent(var.type):
            raise GradientError(
                f"`{var.name}` is not differentiable: its dtype is not a float.",
                given=f"{var.name}: {var.type}",
                fix="Pass None as its cotangent.",
            )
        if not unifies(var.type, grad.type, self.table.unifier):
            raise GradientError(
                f"type mismatch of `{var.name}` and its cotangent.",
                given=f"{var.name}: {var.type}   cotangent: {grad.type}",
                fix="A cotangent has the dtype and shape of its input; apply br.sum to axes "
                "that were broadcast, or br.cast or br.reshape.",
            )
        return grad


class CustomGradient(Offering):
    """A computation with a custom gradient; make it with `create_custom_gradient`.

    Example:
        >>> import braces as br
        >>> isinstance(br.create_custom_gradient("clipped"), br.CustomGradient)
        True
    """

    _offered = ("block", "gradient", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.forward: ForwardBlock | None = None
        self.backward: GradientBlock | None = None
        self.results: tuple[Var, ...] | None = None

    def block(self) -> ForwardBlock:
        """Open the block of the forward computation."""
        if self.forward is not None:
            raise add_location(ProgramError("the block is defined twice."), CONSTRUCT)
        return ForwardBlock(self)

    def gradient(self) -> GradientBlock:
        """Open the block of the gradient, after that of the forward computation."""
        if self.forward is None:
            raise add_location(
                ProgramError(
                    "the gradient is defined before its block.",
                    fix="Write `with custom.block() as f:` first.",
                ),
                CONSTRUCT,
            )
        if self.backward is not None:
            raise add_location(ProgramError("the gradient is defined twice."), CONSTRUCT)
        return GradientBlock(self, self.forward)

    def __call__(self) -> Any:
        """Return the outputs of the block: one variable, or a tuple."""
        if self.results is None:
            try:
                with current_program().transaction():
                    self.results = self._append_ops()
            except BracesError as problem:
                raise add_location(problem, CONSTRUCT) from problem.__cause__
        return self.results[0] if len(self.results) == 1 else self.results

    def _append_ops(self) -> tuple[Var, ...]:
        forward, backward = self.forward, self.backward
        if forward is None or backward is None or backward.body is None:
            missing = "block" if forward is None else "gradient"
            raise ProgramError(
                f"the custom gradient is called before its {missing} is defined.",
                fix=f"Write `with custom.{missing}() as …:` first.",
            )
        program, table, outer = forward.program, forward.table, forward.outer
        if outer not in program.current.chain():
            raise ProgramError(
                "the custom gradient belongs to a block that is closed.",
                fix="Call it in the block that defines it.",
            )
        with program.building(table):
            end_vars = build_custom_gradient(forward.given, backward.ways, backward.body)
        with program.building(outer):
            append_plain_block(forward.name, table.freeze(), recompute=False)
        table.closed = True
        new = dict(zip((var.name for var in forward.given), end_vars, strict=True))
        ends = [new.get(var.name, var) for var in forward.outputs]
        outer.show(*(var.name for var in ends if var.table is table))
        return tuple(
            var_of(program, outer, var.name) if var.table is table else var for var in ends
        )


# ---- captured variables ----------------------------------------------------------------------


def _refuse_captured(block: ForwardBlock) -> None:
    """Refuse captured variables that influence an output but are not declared as inputs."""
    inputs, ends = {var.name for var in block.inputs}, {var.name for var in block.given}
    body = block.table.freeze()
    read = value_sources(body.ops, ends)
    for name in (*free_names(body), *(ends - body.vars.keys())):
        if name in inputs or name not in read or not has_cotangent(block.outer.type_of(name)):
            continue
        if _needs_cotangent(block.outer, body, ends, name):
            raise GradientError(
                f"an output of the block depends on the captured value `{name}`, which has "
                "no cotangent: it is not an input.",
                given=f"inputs: {', '.join(sorted(inputs)) or 'none'}",
                fix=f"Make it an input: an argument of the function, or add_input({name}); "
                f"or read br.stop_gradient({name}) if it needs no gradient here.",
            )


def _needs_cotangent(outer: SymbolTable, body: Body, ends: set[str], name: str) -> bool:
    """Return whether a gradient with respect to a captured value may be expected.

    Operators without a gradient do not matter: the custom gradient replaces theirs. Data is
    refused only where a gradient would exist without the custom gradient.
    """
    differentiable = not ends.isdisjoint(reachable(body, {name}))
    return is_differentiable_path(outer, name, data=differentiable)


# ---- the functions ---------------------------------------------------------------------------


@with_user_line
def create_custom_gradient(name: str = "custom") -> CustomGradient:
    """Create a computation with a custom gradient in place of the derived one.

    `block()` is the forward computation: `add_input` declares the variables that the gradient
    is taken with respect to, `add_output` the results. `gradient()` is written after it: it has
    `cotangents`, one for each output of a float dtype, and its `add_output` takes one cotangent
    for each input, or `None`. It may read all values of the block, which are saved as
    residuals. Calling the construct returns the outputs.

    The custom gradient replaces that of the operators everywhere: in loops, branches and saved
    programs. It consists of operators, so it is differentiable; an output that it reads has the
    custom gradient there, too. Forward mode (`br.jvp`) transposes a gradient that is provably
    linear in its cotangents, and refuses others.

    A variable that influences an output must be an input: a parameter that the block reads
    without `add_input` is refused, because its gradient would silently be missing. Use
    `br.stop_gradient(w)` if it should have none.

    Args:
        name: The prefix of the names inside, as for `br.block`.

    Raises:
        ProgramError: If the name is invalid.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", [3])
        ...     rounded = br.create_custom_gradient("rounded")
        ...     with rounded.block() as f:
        ...         f.add_output(br.round(f.add_input(x)))
        ...     with rounded.gradient() as g:
        ...         g.add_output(*g.cotangents)
        ...     y = rounded()
        ...     (x_grad,) = br.gradients(br.sum(y * y), x)
        >>> br.Executor().run(prog, br.Scope(), {"x": [0.9, 2.2, -1.4]}, [y, x_grad])
        [array([ 1.,  2., -1.], dtype=float32), array([ 2.,  4., -2.], dtype=float32)]
    """
    return CustomGradient(check_name(name))


def custom_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function of variables with a custom gradient (VJP) that it returns itself.

        @br.custom_gradient
        def f(x, ...):
            y = ...
            def gradient(y_grad):
                return x_grad, ...
            return y, gradient

    The variables among the positional arguments are the inputs. The function returns its result
    and a function from the cotangents of the result to those of the inputs. Each call builds
    the operators of `create_custom_gradient`, where details are documented; the block has the
    name of the function.

    Args:
        function: From variables and any other arguments to a pair. Its first element is the
            result: a variable, or nested tuples, lists and dicts of variables. The second is a
            function that takes a cotangent for each result of a float dtype, and returns the
            cotangent of the input, or a tuple with one for each input; `None` for an input
            without one.

    Returns:
        A function that returns the result only.

    Example:
        >>> import braces as br
        >>> @br.custom_gradient
        ... def clipped(x, bound):
        ...     '''`x`, whose gradient is clipped.'''
        ...     return x, lambda grad: br.clip(grad, -bound, bound)
        >>> with br.Program() as prog:
        ...     x = br.data("x", [3])
        ...     (x_grad,) = br.gradients(br.sum(br.square(clipped(x, 1.0))), x)
        >>> br.Executor().run(prog, br.Scope(), {"x": [0.25, 2.0, -3.0]}, x_grad)
        array([ 0.5,  1. , -1. ], dtype=float32)
    """
    if not callable(function):
        raise ProgramError(
            f"custom_gradient: expected a function, got {cast('Any', function)!r:.80}.",
            fix="Write @br.custom_gradient above the function.",
        )
    function_name = getattr(function, "__name__", "")
    name = "" if "<" in function_name else re.sub(r"\W", "_", function_name, flags=re.ASCII)

    @functools.wraps(function)
    @transactional
    def differentiable_function(*args: Any, **kwargs: Any) -> Any:
        custom = create_custom_gradient(name or "custom")
        with custom.block() as f:
            arguments = [f.add_input(arg) if isinstance(arg, Var) else arg for arg in args]
            if not f.inputs:
                raise GradientError(
                    "no argument is a differentiable variable.",
                    given=f"{args!r:.80}",
                    fix="Pass variables by position; br.constant(...) converts an array.",
                )
            outputs, gradient = _pair(function(*arguments, **kwargs))
            f.add_output(*tree_leaves(outputs))
        with custom.gradient() as g:
            input_grads = gradient(*g.cotangents)
            several = isinstance(input_grads, tuple | list)
            g.add_output(*(cast("Sequence[Any]", input_grads) if several else [input_grads]))
        custom()
        return tree_unflatten(outputs, custom.results or ())

    return differentiable_function


def _pair(returned: Any) -> tuple[Any, Callable[..., Any]]:
    """Unpack the return value of a function: its result, and the gradient function."""
    pair = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple) else ()
    if len(pair) != 2 or not callable(pair[1]):
        raise ProgramError(
            "a function with a custom gradient must return its result and a gradient function.",
            given=f"{returned!r:.80}",
            fix="End it with `return y, gradient`.",
        )
    return pair[0], pair[1]
