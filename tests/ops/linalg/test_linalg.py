"""Edge cases of products: gradients, linear equations, and shape mismatches."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from braces import Program, data, gradients
from braces.dtypes import parse_type
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.extend.building import emit
from braces.extend.operators import OPS
from braces.extend.types import Dim
from tests.ops.cases import value_and_gradients


def test_a_weight_gradient_is_one_matrix_product() -> None:
    with Program() as program:
        x, w = data("x", ["b", "t", 3]), data("w", [3, 4])
        (grad,) = gradients([x @ w], [w])
    assert grad is not None
    assert grad.type == parse_type("f32[3,4]")
    made = [op.type for op in program.definition.main.ops]
    assert [type for type in made if OPS.get(type).product] == ["matmul", "einsum"]
    assert not {"sum", "reshape"} & {*made}


@pytest.mark.parametrize("y", [(3, 4), (3,)])
@pytest.mark.parametrize("x", [(2, 3), (2, 5, 3), (2, 0, 3), (4, 2, 5, 3), (3,)])
def test_weight_gradients_are_those_of_jax(
    x: tuple[int, ...], y: tuple[int, ...], mode: str, rng: np.random.Generator
) -> None:
    inputs = {"x": rng.normal(size=x), "y": rng.normal(size=y)}
    _, found = value_and_gradients(lambda x, y: x @ y, inputs, mode)
    with jax.enable_x64(True):
        wanted = jax.grad(lambda x, y: (x @ y).sum(), (0, 1))(*inputs.values())
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_a_gradient_reads_only_the_other_factor() -> None:
    with Program() as program:
        x, w = data("x", ["b", 3]), data("w", [3, 4])
        gradients([x @ w], [x])
    backward = program.definition.main.ops[1:]
    assert "x" not in {name for op in backward for name in op.reads()}


def test_mixed_dtypes_keep_their_gradients(mode: str) -> None:
    inputs = {"x": np.ones((2, 3), np.float32), "y": np.ones((3, 2), np.float64)}
    out, grads = value_and_gradients(lambda x, y: x @ y, inputs, mode)
    assert [out.dtype, *(g.dtype for g in grads)] == [np.float64, np.float32, np.float64]


def test_unnamed_sizes_become_known() -> None:
    with Program():
        x, y = data("x", ["b", None]), data("y", [3, 4])
        assert (x @ y).type == parse_type("f32[b,4]")
        assert x.shape == (Dim.named("b"), 3)


def test_ranges_have_symbolic_sizes() -> None:
    b = Dim.named("b")
    with Program():
        assert str(emit("arange", stop=b).type) == "i64[b]"
        assert str(emit("arange", stop=2 * b, step=2).type) == "i64[b]"
        assert str(emit("arange", start=1, stop=b).type) == "i64[max(b - 1, 0)]"
        assert str(emit("full", shape=(b, 2), value=0.0).type) == "f32[b,2]"
        assert str(emit("size", value=b * b).type) == "i64[]"


@pytest.mark.parametrize(
    ("error", "message", "build"),
    [
        (ShapeError, "cannot contract 784 with 512", lambda: x(("b", 784)) @ y((512, 10))),
        (ShapeError, "second last axis of y", lambda: x(("b", 784)) @ y((512, 10))),
        (ShapeError, "cannot broadcast 2 with 3", lambda: x((2, 1, 1)) @ y((3, 1, 1))),
        (ShapeError, "got a scalar", lambda: x(()) @ y((2, 2))),
        (DTypeError, "bools", lambda: data("x", (2, 2), "bool") @ data("y", (2, 2), "bool")),
        (ShapeError, "each of 2 axes once", lambda: emit("transpose", x((2, 3)), axes=(0, 0))),
        (ShapeError, "expected an array of rank 2", lambda: emit("matrix_transpose", x((2,)))),
        (ShapeError, "two vectors", lambda: emit("outer", x((2, 2)), y((2,)))),
        (
            ShapeError,
            "contract 3 axes",
            lambda: emit("tensordot", x((2, 3)), y((2, 3)), axes=3),
        ),
        (ShapeError, "match 3 with 4 for `j`", lambda: einsum("ij,jk", (2, 3), (4, 5))),
        (
            ShapeError,
            "does not match an operand of rank",
            lambda: einsum("ij,j", (2, 3, 4), (3,)),
        ),
        (ProgramError, "expected 2 operands", lambda: einsum("ij,jk", (2, 3))),
        (ProgramError, r"output of `i->ii` has a duplicate", lambda: einsum("i->ii", (2,))),
        (ProgramError, r"output of `i->j` has .* unknown letter", lambda: einsum("i->j", (2,))),
        (ProgramError, "invalid equation", lambda: einsum("i->j->k", (2,))),
        (ProgramError, "expected a nonzero step", lambda: emit("arange", stop=3, step=0)),
        (ShapeError, "eye: negative axis size -2", lambda: emit("eye", n=3, m=-2)),
        (
            ShapeError,
            "linspace: negative axis size -1",
            lambda: emit("linspace", start=0, stop=1, num=-1),
        ),
    ],
)
def test_what_does_not_fit_is_refused(error: Any, message: str, build: Any) -> None:
    with Program(), pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("abc,abd->cd", [(2, 3, 4), (2, 3, 5)]),
        ("abc,abcd->dab", [(2, 3, 4), (2, 3, 4, 5)]),
        ("abab->ab", [(2, 3, 2, 3)]),
        ("kii,ij->kj", [(2, 3, 3), (3, 2)]),
        ("...ab,...ab->...", [(1, 4, 2, 3), (5, 1, 2, 3)]),
        ("...a,...b->...ab", [(2, 3, 4), (2, 1, 5)]),
        ("abc,abd,d->c", [(2, 0, 4), (2, 0, 5), (5,)]),
        ("ab,ab->", [(2, 3), (2, 3)]),
        ("abc->bca", [(2, 3, 4)]),
    ],
)
def test_letters_that_stand_together_are_summed_as_numpy_does(
    equation: str, shapes: list[tuple[int, ...]], mode: str
) -> None:
    rng = np.random.default_rng(0)
    xs = {f"x{i}": rng.normal(size=shape) for i, shape in enumerate(shapes)}
    out, grads = value_and_gradients(
        lambda *given: emit("einsum", *given, equation=equation), xs, mode
    )
    np.testing.assert_allclose(out, np.einsum(equation, *xs.values()), atol=1e-12)
    for name, grad in zip(xs, grads, strict=True):
        ahead, back = (
            np.einsum(equation, *(xs | {name: xs[name] + h}).values()) for h in (1, -1)
        )
        np.testing.assert_allclose(grad.sum(), (ahead - back).sum() / 2, atol=1e-9)


def test_what_is_summed_over_trips_and_rows_is_one_product_of_matrices() -> None:
    kernel = OPS.get("einsum").kernel
    xs = np.ones((2, 3, 4), np.float32), np.ones((2, 3, 5), np.float32)
    text = str(jax.make_jaxpr(partial(kernel, equation="abc,abd->cd"))(*xs))
    assert "dimension_numbers=(([0], [0]), ([], []))" in text
    assert "transpose" not in text


def x(shape: tuple[Any, ...]) -> Any:
    return data("x", shape)


def y(shape: tuple[Any, ...]) -> Any:
    return data("y", shape)


def einsum(equation: str, *shapes: tuple[int, ...]) -> Any:
    xs = [data(f"x{i}", shape) for i, shape in enumerate(shapes)]
    return emit("einsum", *xs, equation=equation)
