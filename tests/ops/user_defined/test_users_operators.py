"""Operators of users' own are completed as ours are, in both modes and with gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import braces as br
from braces.define.completion import DefinitionRules, KernelOp
from braces.errors import RunError
from braces.extend.types import TensorType

X = np.array([[0.5, -1.0, 2.0], [-0.25, 3.0, 1.0]], "float32")
NUMBERS = itertools.count()


@pytest.fixture(params=["interpret", "compile"])
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


def own(kernel: Any) -> Any:
    """An operator of its own for each test and mode."""
    kernel.__name__ = f"{kernel.__name__}_{next(NUMBERS)}"
    return br.op(kernel)


def run(mode: str, program: br.Program, fetches: Iterable[Any], x: Any = X) -> list[Any]:
    return br.Executor(mode=mode).run(program, br.Scope(), feed={"x": x}, fetch=list(fetches))


def test_every_method_that_completes_an_operator_of_ours_completes_one_of_a_user() -> None:
    def kernel(x: br.Tensor) -> br.Tensor:
        return x

    made: Any = own(kernel)
    methods = [name for name in vars(DefinitionRules) if not name.startswith("_")]
    assert {"vjp", "jvp", "gradient", "resolved", "learned", "checked"} <= set(methods)
    for name in methods:
        assert getattr(made, name).__func__ is getattr(KernelOp, name)
        assert made.definition is made.definition.definition


def test_a_written_gradient_kernel_is_what_gradients_use(mode: str) -> None:
    @own
    def users_sign(x: br.Tensor) -> br.Tensor:
        return jnp.sign(x)

    @users_sign.vjp
    def straight_through(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
        return jnp.where(jnp.abs(x) <= 1, out_grad, 0)

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        (grad,) = br.gradients([br.sum(users_sign(x) * 3.0)], [x])
    (got,) = run(mode, program, [grad])
    np.testing.assert_array_equal(got, np.where(np.abs(X) <= 1, 3, 0))


def test_a_gradient_kernel_may_be_a_lambda_expression(mode: str) -> None:
    @own
    def users_cube(x: br.Tensor) -> br.Tensor:
        return x**3

    users_cube.vjp(lambda x, out_grad: 3 * x**2 * out_grad)
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        (grad,) = br.gradients([br.sum(users_cube(x))], [x])
    np.testing.assert_allclose(run(mode, program, [grad])[0], 3 * X**2, rtol=1e-6)
    assert users_cube.definition.vjp_rule.kernel.__name__.endswith("_vjp")


def test_a_gradient_written_as_a_program_is_differentiated_again(mode: str) -> None:
    @own
    def users_scaled_cube(x: br.Tensor, w: br.Tensor, *, scale: float = 1.0) -> br.Tensor:
        return scale * x**3 + w

    @users_scaled_cube.gradient
    def rule(op: Any) -> dict[str, Any]:
        assert not op.wants("w")
        return {"x": 3.0 * op.attrs["scale"] * op["x"] ** 2 * op.out_grad}

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        (first,) = br.gradients([users_scaled_cube(x, 1.0, scale=2.0)], [x])
        assert first is not None
        (second,) = br.gradients([first], [x])
    got = run(mode, program, [first, second])
    np.testing.assert_allclose(got[0], 6 * X**2, rtol=1e-6)
    np.testing.assert_allclose(got[1], 12 * X, rtol=1e-6)


def test_a_written_directional_derivative_is_what_jvp_uses(mode: str) -> None:
    @own
    def users_pair(x: br.Tensor, y: br.Tensor) -> br.Tensor:
        return x * jnp.round(y)

    @users_pair.jvp
    def rule(values: Any, tangents: Any, attrs: Any) -> dict[str, Any]:
        assert not attrs
        (x,), (y,) = values["x"], values["y"]
        return {"out": (tangents["x"][0] * y + x * tangents["y"][0],)}

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        (moved,) = br.jvp([users_pair(x, x)], [x], [br.ones_like(x)])
    (got,) = run(mode, program, [moved])
    np.testing.assert_allclose(got, 2 * X, rtol=1e-6)


def test_an_attribute_becomes_definite_before_it_is_stored(mode: str) -> None:
    @own
    def users_turned(x: br.Tensor, *, by: tuple[int, ...] = (-1,)) -> br.Tensor:
        return jnp.roll(x, by, axis=tuple(range(len(by))))

    @users_turned.resolved
    def rule(x: TensorType, *, by: tuple[int, ...]) -> dict[str, Any]:
        return {"by": (*by, *[0] * (x.rank - len(by)))}

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        out = users_turned(x)
        (grad,) = br.gradients([out * out], [x])
    assert program.definition.main.ops[0].attrs["by"] == (-1, 0)
    got = run(mode, program, [out, grad])
    np.testing.assert_array_equal(got[0], np.roll(X, -1, axis=0))
    np.testing.assert_allclose(got[1], 2 * X)


@pytest.mark.parametrize("looped", [False, True])
def test_a_users_check_ends_a_run_with_the_users_error(mode: str, looped: bool) -> None:
    class NegativeError(RunError):
        """Numbers below zero."""

    @own
    def users_root(x: br.Tensor) -> br.Tensor:
        return jnp.sqrt(x)

    @users_root.checked(NegativeError, "Roots need numbers from 0 on.", "Take abs(x).")
    def rule(x: Any) -> Any:
        return x < 0

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        out = br.scan(lambda c, row: (c, users_root(row)), 0.0, x)[1] if looped else None
        out = users_root(x) if out is None else out
        (grad,) = br.gradients([out], [x])
    np.testing.assert_allclose(run(mode, program, [grad], X**2)[0], 0.5 / np.abs(X), rtol=1e-6)
    with pytest.raises(NegativeError, match="Roots need numbers") as caught:
        run(mode, program, [out])
    assert "test_users_operators.py:" in str(caught.value)
    assert "Take abs(x)." in str(caught.value)


def chosen_of() -> Any:
    """The rows of `x` where a mask holds: how many they are, only the values tell."""

    @own
    def users_chosen(x: br.Tensor, mask: br.Tensor, *, count: br.Learned) -> br.Tensor:
        return x[jnp.nonzero(mask, size=count)[0]]

    @users_chosen.infer
    def types(context: Any, x: TensorType, mask: TensorType, *, count: Any) -> TensorType:
        return TensorType(x.dtype, (count, *x.shape[1:]))

    @users_chosen.learned
    def sizes(x: Any, mask: Any, *, count: Any) -> dict[str, Any]:
        return {count.name: mask.sum()}

    return users_chosen


def test_a_users_operator_may_learn_a_size_from_values(mode: str) -> None:
    chosen = chosen_of()
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        rows = chosen(x, x[:, 0] > 0.0, count="found")
        total = br.sum(rows * rows, axis=0) + br.mean(rows)
        (grad,) = br.gradients([total], [x])
    assert str(rows.type) == "f32[found,3]"
    exe, rng = br.Executor(mode=mode), np.random.default_rng(0)
    for count in (4, 9, 2, 9):
        given = rng.normal(size=(count, 3)).astype("float32")
        given[0, 0] = 1.0
        got = exe.run(program, br.Scope(), feed={"x": given}, fetch=[rows, total, grad])
        real = given[given[:, 0] > 0]
        np.testing.assert_array_equal(got[0], real)
        np.testing.assert_allclose(got[1], (real**2).sum(0) + real.mean(), rtol=1e-5)
        slope = np.where(given[:, :1] > 0, 2 * given + 1 / len(real), 0)
        np.testing.assert_allclose(got[2], slope, rtol=1e-5)


def test_no_rows_are_a_size_too(mode: str) -> None:
    chosen = chosen_of()
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        rows = chosen(x, x[:, 0] > 0.0, count="found")
        total = br.sum(rows)
    exe = br.Executor(mode=mode)
    for given in (X, -np.abs(X), X):
        got = exe.run(program, br.Scope(), feed={"x": given}, fetch=[rows, total])
        real = given[given[:, 0] > 0]
        assert got[0].shape == real.shape
        np.testing.assert_allclose(got[1], real.sum(), rtol=1e-6)


def test_attributes_called_like_our_roles_are_like_any_other(mode: str) -> None:
    @own
    def users_words(
        x: br.Tensor, *, capacity: int, history: str, length: int, training: bool
    ) -> br.Tensor:
        return x * (capacity + length) if training and history == "h" else x

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        out = users_words(x, capacity=2, history="h", length=3, training=True)
        (grad,) = br.gradients([out], [x])
    assert grad is not None
    names = [out.name, grad.name]
    for one in (program, br.for_test(program)):
        got = run(mode, one, names)
        np.testing.assert_array_equal(got[0], 5 * X)
        np.testing.assert_array_equal(got[1], np.full_like(X, 5))


# ---- types that follow from what is declared ------------------------------------------------


def declared(**said: Any) -> Any:
    """An operator of its own for each test, which says something of itself."""

    def decorate(kernel: Any) -> Any:
        kernel.__name__ = f"{kernel.__name__}_{next(NUMBERS)}"
        return br.op(**said)(kernel)

    return decorate


def test_axes_tell_what_does_not_fit_before_the_kernel_runs() -> None:
    @declared(axes="... i k, k j -> ... i j")
    def users_product(x: br.Tensor, w: br.Tensor) -> br.Tensor:
        raise AssertionError("The kernel is not asked.")

    with br.Program() as program:
        x, w = br.data("x", ["b", 2, 3]), br.data("w", [4, 5])
        before = program.definition
        with pytest.raises(br.ShapeError) as caught:
            users_product(x, w)
        assert caught.value.what.endswith("cannot contract 3 with 4 for `k`.")
        fix = "The last axis of x must equal the second last axis of w."
        assert caught.value.fix == fix
        assert "test_users_operators.py" in str(caught.value)
        with pytest.raises(
            br.ShapeError, match="expected an array of rank 2, got f32"
        ) as caught:
            users_product(x, br.data("v", [3]))
        assert caught.value.fix == "Pass `w` with the axes `k j`."
        assert len(program.definition.main.ops) == len(before.main.ops) == 0


def test_axes_tell_what_an_unnamed_size_is_before_the_kernel_runs(mode: str) -> None:
    @declared(axes="... i k, k j -> ... i j")
    def users_product(x: br.Tensor, w: br.Tensor) -> br.Tensor:
        return x @ w

    with br.Program() as program:
        x = br.data("x", ["b", None])
        out = users_product(x, br.full([3, 2], 1.0))
    assert (str(x.type), str(out.type)) == ("f32[b,3]", "f32[b,2]")
    (got,) = run(mode, program, [out])
    np.testing.assert_allclose(got, np.repeat(X.sum(1, keepdims=True), 2, 1), rtol=1e-6)


def test_a_kernel_that_is_not_what_its_axes_say_is_refused() -> None:
    @declared(axes="b i -> b i")
    def users_halves(x: br.Tensor) -> br.Tensor:
        return x[:, ::2]

    said = r"expected f32\[b,3\] for `out` from axes="
    with br.Program(), pytest.raises(br.OpDefinitionError, match=said) as caught:
        users_halves(br.data("x", ["b", 3]))
    assert "got f32[b,2] from the kernel" in str(caught.value)
    assert "append `!` to axes that change" in str(caught.value)


def test_a_mixed_axis_may_have_another_size_where_the_kernel_tells_it(mode: str) -> None:
    @declared(axes="b i! -> b i!")
    def users_pairs(x: br.Tensor) -> br.Tensor:
        return x[:, 1:] - x[:, :-1]

    with br.Program() as program:
        out = users_pairs(br.data("x", ["b", 3]))
    assert str(out.type) == "f32[b,2]"
    (got,) = run(mode, program, [out])
    np.testing.assert_allclose(got, np.diff(X), rtol=1e-6)


def test_dtypes_and_axes_tell_types_without_the_kernel(mode: str) -> None:
    asked: list[int] = []

    @declared(axes="... i, j -> ... i j", dtypes=lambda op, x, y: np.promote_types(x, y))
    def users_outer(x: br.Tensor, y: br.Tensor) -> br.Tensor:
        asked.append(x.ndim)
        rows = range(x.shape[0])  # symbolic sizes could not be counted
        return jnp.stack([x[row][:, None] * y for row in rows])

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        y = br.constant(np.array([1.0, 2.0]))
        out = users_outer(x, y)
        assert (str(out.type), asked) == ("f64[b,3,2]", [])
        (grad,) = br.gradients([out], [x])
    assert grad is not None
    got = run(mode, program, [out, grad])
    np.testing.assert_allclose(got[0], X[:, :, None] * [1.0, 2.0])
    np.testing.assert_allclose(got[1], np.full_like(X, 3.0))


def test_an_axis_that_no_input_has_is_called_like_the_attribute_that_tells_its_size() -> None:
    @declared(axes="... -> ... copies", dtypes=lambda op, x, **attrs: x)
    def users_copies(x: br.Tensor, *, copies: br.Size) -> br.Tensor:
        return jnp.repeat(x[..., None], copies, -1)

    with br.Program():
        x = br.data("x", ["b", 3])
        assert str(users_copies(x, copies=4).type) == "f32[b,3,4]"
        assert str(users_copies(x, copies=x.shape[0]).type) == "f32[b,3,b]"
        with pytest.raises(br.ShapeError, match="negative axis size -1"):
            users_copies(x, copies=-1)


def test_several_outputs_have_a_dtype_each() -> None:
    @declared(
        outputs=("top", "place"),
        axes="b i! -> b, b",
        dtypes=lambda op, x: (x, "int32"),
    )
    def users_best(x: br.Tensor) -> tuple[br.Tensor, br.Tensor]:
        return x.max(1), jnp.argmax(x, 1).astype("int32")

    with br.Program():
        top, place = users_best(br.data("x", ["b", 3]))
        assert (str(top.type), str(place.type)) == ("f32[b]", "i32[b]")


def test_axes_that_do_not_tell_a_shape_are_refused_with_what_to_say() -> None:
    @declared(axes="b -> b n", dtypes=lambda op, x: x)
    def users_unsaid(x: br.Tensor) -> br.Tensor:
        return jnp.stack([x, x], 1)

    with (
        br.Program(),
        pytest.raises(br.OpDefinitionError, match="does not determine") as caught,
    ):
        users_unsaid(br.data("x", ["b"]))
    assert "the name of the attribute that is its size" in str(caught.value)


def test_a_function_of_axes_may_ask_for_what_the_kernel_makes(mode: str) -> None:
    def rows_stay(types: Any, attrs: Any) -> str:
        return (
            " ".join(f"a{i}!" for i in range(types["x"][0].rank))
            + " -> "
            + " ".join(f"o{i}!" for i in range(types["out"][0].rank))
        )

    @declared(axes=rows_stay)
    def users_flat(x: br.Tensor) -> br.Tensor:
        return jnp.ravel(x)

    with br.Program() as program:
        x = br.data("x", ["b", 3])
        out = users_flat(x)
        assert str(out.type) == "f32[3*b]"
    (got,) = run(mode, program, [out])
    np.testing.assert_array_equal(got, X.ravel())

    @declared(axes=rows_stay, dtypes=lambda op, x: x)
    def users_flat_too(x: br.Tensor) -> br.Tensor:
        return jnp.ravel(x)

    with (
        br.Program(),
        pytest.raises(br.OpDefinitionError, match="does not determine the shapes"),
    ):
        users_flat_too(br.data("x", ["b", 3]))


def test_dtypes_without_axes_are_refused() -> None:
    def users_kernel(x: br.Tensor) -> br.Tensor:
        return x

    with pytest.raises(br.OpDefinitionError, match="dtypes= requires axes="):
        br.op(dtypes=lambda op, x: x)(users_kernel)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"axes": 3}, "expected a notation or a function for `axes`, got 3"),
        ({"axes": ["i -> i"]}, "expected a notation or a function for `axes`"),
        (
            {"axes": "i -> i", "dtypes": "float32"},
            "expected a function for `dtypes`, got 'float32'",
        ),
    ],
)
def test_axes_and_dtypes_of_another_kind_are_refused_where_the_operator_is_defined(
    said: dict[str, Any], what: str
) -> None:
    def users_kernel(x: br.Tensor) -> br.Tensor:
        return x

    with pytest.raises(br.OpDefinitionError, match=what):
        br.op(**said)(users_kernel)


def test_dtypes_that_are_more_than_the_outputs_are_refused() -> None:
    @declared(axes="i -> i", dtypes=lambda op, x: (x, x))
    def users_kernel(x: br.Tensor) -> br.Tensor:
        return x

    with (
        br.Program(),
        pytest.raises(br.OpDefinitionError, match="returned 2 dtypes for 1 outputs"),
    ):
        users_kernel(br.data("x", ["b"]))


@pytest.mark.parametrize("returned", [None, (1.0, 2.0)])
def test_a_kernel_that_returns_no_array_is_refused(returned: Any) -> None:
    @own
    def users_kernel(x: br.Tensor) -> br.Tensor:
        return returned

    with br.Program(), pytest.raises(br.OpDefinitionError, match="expected an array for `out`"):
        users_kernel(br.data("x", ["b", 3]))
