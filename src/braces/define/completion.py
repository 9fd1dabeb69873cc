"""What completes the definition of an operator beside its kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from braces.define.definition import Check, OpDef
from braces.define.derivatives import written_vjp
from braces.errors import BracesError
from braces.ir.records import Op


class Completing:
    """What completes a definition: methods of an operator, or of its function.

    Attributes:
        definition: What is completed.
    """

    definition: OpDef

    def infer(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write the inference: `rule(context, *types, **attrs)` gives the output types.

        Example:
            >>> import braces as br
            >>> from braces.dtypes import TensorType
            >>> @br.op
            ... def first_two(x: br.Tensor) -> br.Tensor:
            ...     return x[:2]
            >>> @first_two.infer
            ... def _(context, x):
            ...     return TensorType(x.dtype, (2, *x.shape[1:]))
            >>> with br.Program():
            ...     print(first_two(br.data("x", ["b", 3])).type)
            f32[2,3]
        """
        self.definition.infer_rule = rule
        return rule

    def vjp(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Write the gradient as a kernel.

        Its parameters name what it needs: inputs, outputs, and `NAME_grad` for the cotangents
        of outputs. It returns one cotangent for each input, or for the first one only where it
        is annotated to return a single `Tensor`.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def rounded_up(x: br.Tensor) -> br.Tensor:
            ...     return -(-x // 1)
            >>> @rounded_up.vjp
            ... def _(out_grad: br.Tensor) -> br.Tensor:
            ...     return out_grad  # as if nothing had been rounded
            >>> with br.Program() as program:
            ...     x = br.data("x", [2])
            ...     (grad,) = br.gradients(rounded_up(x), x)
            >>> br.Executor().run(program, br.Scope(), feed={"x": [0.5, 2.0]}, fetch=grad)
            array([1., 1.], dtype=float32)
        """
        self.definition.vjp_rule = written_vjp(self.definition, kernel)
        return kernel

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write the gradient as a program: `rule(op)` gives cotangents by input slot.

        `op["x"]` is the variable of an input or output, `op.out_grad` the cotangent, `op.attrs`
        has the attributes, and `op.wants("x")` says whether a cotangent is of any use.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def third_power(x: br.Tensor) -> br.Tensor:
            ...     return x**3
            >>> @third_power.gradient
            ... def _(op):
            ...     return {"x": 3.0 * op["x"] ** 2 * op.out_grad}
            >>> with br.Program() as program:
            ...     x = br.data("x", [2])
            ...     (grad,) = br.gradients(third_power(x), x)
            >>> br.Executor().run(program, br.Scope(), feed={"x": [1.0, 2.0]}, fetch=grad)
            array([ 3., 12.], dtype=float32)
        """
        self.definition.gradient_rule = rule
        return rule

    def jvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write the directional derivative as a program.

        `rule(values, tangents, attrs)` takes variables and tangents by slot, and gives the
        tangents of the outputs by slot; a slot holds a tuple.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def doubled(x: br.Tensor) -> br.Tensor:
            ...     return x * 2
            >>> @doubled.jvp
            ... def _(values, tangents, attrs):
            ...     (moved,) = tangents["x"]
            ...     return {"out": (moved * 2.0,)}
            >>> with br.Program() as program:
            ...     x = br.data("x", [2])
            ...     (moved,) = br.jvp([doubled(x)], [x], [br.full([2], 1.0)])
            >>> br.Executor().run(program, br.Scope(), feed={"x": [5.0, 7.0]}, fetch=moved)
            array([2., 2.], dtype=float32)
        """
        self.definition.jvp_rule = rule
        return rule

    def resolved(self, rule: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Write the attributes that become definite: `rule(*types, **attrs)` gives them.

        What it gives stands in the program in place of what was given.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def ending(x: br.Tensor, *, axis: int = -1) -> br.Tensor:
            ...     return x.max(axis)
            >>> @ending.resolved
            ... def _(x, *, axis):
            ...     return {"axis": axis % x.rank}
            >>> with br.Program() as program:
            ...     out = ending(br.data("x", [2, 3]))
            >>> program.definition.main.ops[0].attrs["axis"]
            1
        """
        self.definition.resolve_rule = rule
        return rule

    def learned(self, rule: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Write the sizes that only values tell: `rule(*inputs, **attrs)` gives them by name.

        The dimension is an attribute of the kind `br.Learned`; the kernel gets it as a number,
        the rule as the dimension. Compiled, a size is guessed from the runs before, and a run
        is repeated where that was wrong: each new size is compiled once.

        Example:
            >>> import braces as br
            >>> import jax.numpy as jnp
            >>> from braces.dtypes import INT64, TensorType
            >>> @br.op
            ... def places(x: br.Tensor, *, count: br.Learned) -> br.Tensor:
            ...     return jnp.nonzero(x, size=count)[0]
            >>> @places.infer
            ... def _(context, x, *, count):
            ...     return TensorType(INT64, (count,))
            >>> @places.learned
            ... def _(x, *, count):
            ...     return {count.name: (x != 0).sum()}
            >>> with br.Program() as program:
            ...     found = places(br.data("x", ["b"]), count="found")
            >>> br.Executor().run(program, br.Scope(), feed={"x": [0.0, 5.0, 2.0]}, fetch=found)
            array([1, 2])
        """
        self.definition.learn_rule = rule
        return rule

    def masked(self, rule: Callable[..., Op]) -> Callable[..., Op]:
        """Write what takes its place where rows are reduced and padding is filled.

        `rule(view, *inputs, mask)` gives it, on inputs that are filled.
        """
        self.definition.masked_rule = rule
        return rule

    def rounded(self, rule: Callable[..., Op]) -> Callable[..., Op]:
        """Write what takes its place where rows have room for more than there are.

        `rule(view, count)` gives it; `count` is the variable that tells how many rows there
        are, which come first. It stands in place of what follows from the axes.
        """
        self.definition.rounded_rule = rule
        return rule

    def counted(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Write how many rows there are where it may make room for more.

        `rule(*inputs, **attrs)` appends what tells it, an integer, and stands beside a
        `learned` one, which says it of values.
        """
        self.definition.count_rule = rule
        return rule

    def checked(
        self, error: type[BracesError], message: str, fix: str | None = None
    ) -> Callable[..., Any]:
        """Write the condition that is an error at run time; loops stop where it holds.

        What is decorated has the kernel's parameters, and gives an array of bools: where it is
        wrong.

        Args:
            error: The class of the error.
            message: What it says.
            fix: The way out.

        Example:
            >>> import braces as br
            >>> @br.op
            ... def root(x: br.Tensor) -> br.Tensor:
            ...     return x**0.5
            >>> @root.checked(br.errors.RunError, "A root of a negative number.")
            ... def _(x):
            ...     return x < 0
            >>> with br.Program() as program:
            ...     out = root(br.data("x", [2]))
            >>> try:
            ...     br.Executor().run(program, br.Scope(), feed={"x": [4.0, -1.0]}, fetch=out)
            ... except br.errors.RunError as wrong:
            ...     print(wrong.what)
            A root of a negative number.
        """

        def decorate(kernel: Callable[..., Any]) -> Callable[..., Any]:
            self.definition.check = Check(kernel, error, message, fix)
            return kernel

        return decorate


@dataclass(eq=False)
class KernelOp(Completing, OpDef):
    """An operator that `@op` makes of a kernel; the module that defines it completes it."""

    def __post_init__(self) -> None:
        self.definition = self
