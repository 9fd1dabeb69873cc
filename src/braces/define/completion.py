"""Rules that complete an operator definition beside its kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from braces.define.definition import Check, OpDef
from braces.define.written_vjp import make_written_vjp
from braces.errors import BracesError
from braces.ir.records import Op


class DefinitionRules:
    """Decorators for rules of a definition: methods of an operator, or of its function.

    Attributes:
        definition: The definition.
    """

    definition: OpDef

    def infer(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the inference rule: `rule(context, *types, **attrs)` returns the output types.

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
        """Set the gradient as a kernel.

        Its parameters are the values that it reads: inputs, outputs, and `NAME_grad` for the
        cotangents of outputs. It returns one cotangent for each input, or for the first one
        only if it is annotated to return a single `Tensor`. A lambda expression is allowed: its
        parameters are arrays, and it returns the cotangent of the first input.

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
        self.definition.vjp_rule = make_written_vjp(self.definition, kernel)
        return kernel

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the gradient as a program: `rule(op)` returns cotangents by input slot.

        `op["x"]` is the variable of an input or output, `op.out_grad` the cotangent, `op.attrs`
        has the attributes, and `op.wants("x")` is true if a cotangent is needed.

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
        """Set the directional derivative as a program.

        `rule(values, tangents, attrs)` takes variables and tangents by slot, and returns the
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
        """Set the rule that resolves attributes: `rule(*types, **attrs)` returns them.

        Its results replace the given attributes in the program.

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
        """Set the rule of data-dependent sizes: `rule(*inputs, **attrs)` returns them by name.

        The dimension is an attribute of the kind `br.Learned`; the kernel gets it as a number,
        the rule as the dimension. Compiled, a size is predicted from previous runs, and a run
        with a wrong prediction is repeated: each new size is compiled once.

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
        """Set the replacement for a reduction over rows with padding.

        `rule(view, *inputs, mask)` returns it, on inputs whose padding is filled.
        """
        self.definition.masked_rule = rule
        return rule

    def rounded(self, rule: Callable[..., Op]) -> Callable[..., Op]:
        """Set the replacement for a batch that is padded to a capacity.

        `rule(view, count)` returns it; `count` is the variable of the number of valid rows,
        which come first. It takes precedence over the masking that follows from the axes.
        """
        self.definition.rounded_rule = rule
        return rule

    def counted(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule of the number of rows, for operators that may pad their outputs.

        `rule(*inputs, **attrs)` appends operators that compute the integer. It accompanies a
        `learned` rule, which computes it from values.
        """
        self.definition.count_rule = rule
        return rule

    def checked(
        self, error: type[BracesError], message: str, fix: str | None = None
    ) -> Callable[..., Any]:
        """Set the condition of a run-time error; loops stop where it holds.

        The decorated function has the kernel's parameters, and returns an array of bools: true
        at errors.

        Args:
            error: The class of the error.
            message: The message; `{name}` in it stands for the value of an attribute.
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
class KernelOp(DefinitionRules, OpDef):
    """An operator defined by `@op` from a kernel; the defining module completes it."""

    def __post_init__(self) -> None:
        self.definition = self
