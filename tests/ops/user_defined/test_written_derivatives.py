"""Derivatives that users write: a wrong number, dtype or shape is an error when built."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.errors import OpDefinitionError
from braces.extend.types import TensorType

pytestmark = pytest.mark.unoptimized

NUMBERS = itertools.count()
X = np.array([0.25, -2.0], "float32")


def define(kernel: Callable[..., Any], axes: str | None = "... -> ...", **said: Any) -> Any:
    """An operator of its own for each test and mode."""
    kernel.__name__ = f"written_{next(NUMBERS)}"
    return br.op(kernel, axes=axes, **said)


def sign_like() -> Any:
    def kernel(x: br.Tensor) -> br.Tensor:
        return jnp.sign(x)

    return define(kernel)


def prelu_like() -> Any:
    def kernel(x: br.Tensor, a: br.Tensor) -> br.Tensor:
        return jnp.where(x > 0, x, a * x)

    return define(kernel, "..., ... -> ...")


def gradients(op: Any, *, both: bool = False) -> tuple[br.Program, list[br.Var | None]]:
    """The gradients of one or two inputs."""
    with br.Program() as prog:
        v, w = br.data("v", ["n"]), br.data("w", [])
        out = op(v, w) if both else op(v)
        return prog, br.gradients(br.sum(out), [v, w])


def summed(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
    return jnp.sum(out_grad)


def summed_of_output(out_grad: br.Tensor) -> br.Tensor:
    return jnp.sum(out_grad)


def narrowed(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
    return out_grad.astype("float16")


def scalar(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
    return 0.0


@pytest.mark.parametrize(
    ("rule", "got"),
    [
        (summed, r"f32\[\]"),
        (summed_of_output, r"f32\[\]"),
        (narrowed, r"f16\[n\]"),
        (scalar, r"f64\[\]"),
    ],
)
def test_a_gradient_of_another_type_is_refused(rule: Any, got: str) -> None:
    op = sign_like()
    op.vjp(rule)
    says = rf"(?s)expected f32\[n\] for the gradient of `x`, got {got}.*test_written_deriv.*py"
    with pytest.raises(OpDefinitionError, match=says):
        gradients(op)


def test_a_gradient_with_sizes_that_only_runs_know_is_refused_there(mode: str) -> None:
    op = sign_like()

    @op.vjp
    def rule(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
        if x.shape[0] > 1:  # undecided for a symbolic size
            return jnp.zeros(int(x.shape[0]) + 1)
        return out_grad

    prog, (grad, _) = gradients(op)
    with pytest.raises(OpDefinitionError, match=r"expected f32\[2\] for the gradient of `x`"):
        br.Executor(mode=mode).run(prog, br.Scope(), {"v": X}, grad)


def one_of_two(x: br.Tensor, a: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
    return out_grad


def three_of_two(x: br.Tensor, a: br.Tensor, out_grad: br.Tensor) -> Any:
    return out_grad, jnp.sum(out_grad), None


three_of_two.__annotations__["return"] = "tuple[Tensor, Tensor, Tensor]"


def pair_as_single(x: br.Tensor, a: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
    return out_grad, jnp.sum(out_grad)


@pytest.mark.parametrize(
    ("rule", "count"), [(one_of_two, 1), (three_of_two, 3), (pair_as_single, 1)]
)
def test_another_number_of_gradients_is_refused(rule: Any, count: int) -> None:
    op = prelu_like()
    op.vjp(rule)
    says = rf"(?s)expected 2 gradients, one for each input, got {count}\..*inputs: x, a.*None"
    with pytest.raises(OpDefinitionError, match=says):
        gradients(op, both=True)


def test_two_gradients_of_one_input_are_refused() -> None:
    op = sign_like()
    op.vjp(lambda x, out_grad: (out_grad, x))
    with pytest.raises(OpDefinitionError, match=r"(?s)expected 1 gradient, got 2\..*`x`"):
        gradients(op)


def test_one_gradient_may_be_a_tuple_of_one(mode: str) -> None:
    op = sign_like()
    op.vjp(lambda x, out_grad: (out_grad * 3,))
    prog, (grad, _) = gradients(op)
    np.testing.assert_array_equal(
        br.Executor(mode=mode).run(prog, br.Scope(), {"v": X}, grad), [3.0, 3.0]
    )


def test_gradients_of_several_inputs_are_a_tuple_in_their_order(mode: str) -> None:
    op = prelu_like()

    @op.vjp
    def rule(x: br.Tensor, a: br.Tensor, out_grad: br.Tensor) -> tuple[br.Tensor, br.Tensor]:
        return jnp.where(x > 0, 1, a) * out_grad, jnp.sum(jnp.minimum(x, 0) * out_grad)

    prog, grads = gradients(op, both=True)
    got = br.Executor(mode=mode).run(prog, br.Scope(), {"v": X, "w": 0.5}, grads)
    np.testing.assert_array_equal(got[0], [1.0, 0.5])
    assert got[1] == -2.0


def test_none_marks_an_input_without_a_gradient(mode: str) -> None:
    op = prelu_like()

    @op.vjp
    def rule(
        x: br.Tensor, a: br.Tensor, out_grad: br.Tensor
    ) -> tuple[br.Tensor, br.Tensor | None]:
        return out_grad, None

    prog, (x_grad, a_grad) = gradients(op, both=True)
    assert a_grad is None
    feed = {"v": X, "w": 0.5}
    np.testing.assert_array_equal(
        br.Executor(mode=mode).run(prog, br.Scope(), feed, x_grad), [1.0, 1.0]
    )


def test_parameters_of_a_gradient_are_values_of_the_operator() -> None:
    with pytest.raises(OpDefinitionError, match=r"(?s)unknown parameter `res`.*out_grad"):
        sign_like().vjp(lambda res, g: (g,))


def test_a_positional_attribute_is_refused() -> None:
    def kernel(x: br.Tensor, clip: float = 1.0) -> br.Tensor:
        return x * clip

    with pytest.raises(OpDefinitionError, match=r"(?s)`clip` must be keyword-only.*`\*,`"):
        define(kernel)


def test_a_gradient_as_a_program_of_another_type_is_refused() -> None:
    op = sign_like()
    op.gradient(lambda op: {"x": br.sum(op.out_grad)})
    says = r"gradient: expected f32\[n\] for the gradient of `x`, got f32\[\]"
    with pytest.raises(OpDefinitionError, match=says):
        gradients(op)


def test_a_tangent_of_another_type_is_refused() -> None:
    op = sign_like()
    op.jvp(lambda values, tangents, attrs: {"out": (br.sum(tangents["x"][0]),)})
    says = r"jvp: expected f32\[n\] for the tangent of `out`, got f32\[\]"
    with br.Program():
        v = br.data("v", ["n"])
        with pytest.raises(OpDefinitionError, match=says):
            br.jvp([op(v)], [v], [br.ones_like(v)])


def test_an_inference_rule_that_disagrees_with_the_kernel_is_refused() -> None:
    def kernel(x: br.Tensor) -> br.Tensor:
        return x[:2]

    op = define(kernel, None)
    op.infer(lambda context, x: TensorType(x.dtype, (3, *x.shape[1:])))
    says = r"expected f32\[3,n\] for `out` from @\w+\.infer, got f32\[2,n\] from the kernel"
    with br.Program(), pytest.raises(OpDefinitionError, match=says):
        op(br.data("x", [5, "n"]))
