"""Functions of JAX become programs: the same numbers and gradients, without the function."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import braces as br
from braces.errors import ProgramError, ShapeError, UnknownNameError
from tests.support.running import run_fetches

pytestmark = pytest.mark.unoptimized
X = np.array([[0.5, -1.25, 2.0], [-0.75, 0.0, 0.25]], "f")
PARAMS = {"layers": [{"w": np.full((3, 4), 0.5, "f"), "b": np.arange(4, dtype="f")}]}


@jax.jit
def layer(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"])


def model(params: Any, x: Any) -> Any:
    return layer(params["layers"][0], x)


def refuses(error: type[Exception], said: str, *args: Any, **options: Any) -> Any:
    with pytest.raises(error, match=said) as caught:
        br.from_jax(*args, **options)
    return caught.value


def test_containers_become_parameters_and_arrays_data(mode: str) -> None:
    prog, values = br.from_jax(model, PARAMS, X, sizes={"x": ["batch", None]})
    assert (prog.feeds, prog.fetches) == (("x",), ("out",))
    assert sorted(values) == ["params.layers.0.b", "params.layers.0.w"]
    assert str(prog.var("out").type) == "f32[batch,4]"
    assert [info.name for info in prog.parameters] == sorted(values)
    for rows in (X, X[:1]):
        (out,) = run_fetches(prog, {"x": rows}, mode, values=values)
        np.testing.assert_allclose(out, model(PARAMS, rows), rtol=1e-6)


def test_a_function_that_is_compiled_by_itself_is_a_block_of_its_name() -> None:
    prog, _ = br.from_jax(model, PARAMS, X)
    assert "as layer" in str(prog)
    assert "test_from_jax.py" in str(prog)


def test_arrays_that_a_function_closes_over_are_called_as_it_calls_them() -> None:
    table = jnp.ones((3, 2))
    steps = jnp.arange(2)

    def closed(x: Any) -> Any:
        return x @ table + steps, x @ PARAMS["layers"][0]["w"]

    prog, values = br.from_jax(closed, X)
    assert set(values) == {"table", "steps", "PARAMS.layers.0.w"}
    assert {info.name for info in prog.parameters} == {"table", "PARAMS.layers.0.w"}


def test_kinds_say_otherwise() -> None:
    prog, values = br.from_jax(model, PARAMS, X, kinds={"params": "data", "x": "state"})
    assert prog.feeds == ("params.layers.0.b", "params.layers.0.w")
    assert list(values) == ["x"]


def test_results_are_named_after_their_path() -> None:
    prog, _ = br.from_jax(lambda x: {"twice": x * 2, "both": (x, x + 1)}, X)
    assert prog.fetches == ("out.both.0", "out.both.1", "out.twice")


def test_a_step_moves_what_it_updates(mode: str) -> None:
    def step(params: Any, x: Any) -> Any:
        loss, grads = jax.value_and_grad(lambda p: jnp.mean(model(p, x) ** 2))(params)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss

    prog, values = br.from_jax(step, PARAMS, X, updates={"params": 0})
    scope, exe, params = br.Scope(), br.Executor(mode=mode), PARAMS
    scope.update(values)
    for _ in range(3):
        (loss,) = exe.run(prog, scope, feed={"x": X}, fetch=["out.1"])
        params, wanted = step(params, X)
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)
    got = scope.find_var("params.layers.0.w").value
    np.testing.assert_allclose(got, params["layers"][0]["w"], rtol=1e-5)


@pytest.mark.parametrize("key", [jax.random.PRNGKey(3), jax.random.key(3)])
def test_random_bits_are_those_of_jax(key: Any, mode: str) -> None:
    def drawn(key: Any) -> Any:
        one, two = jax.random.split(key)
        many = jax.random.split(jax.random.fold_in(two, 7), 3)
        return jax.random.bits(one, (2, 2)), jax.vmap(jax.random.uniform)(many)

    prog, values = br.from_jax(drawn, key)
    words = np.asarray(jax.random.key_data(key) if key.ndim == 0 else key)
    got = run_fetches(prog, {"key": words}, mode, values=values)
    for mine, theirs in zip(got, drawn(key), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_while_loop_has_a_gradient(mode: str) -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(lambda v: jnp.sum(v * v) > 0.5, lambda v: v * 0.5, x)

    prog, values = br.from_jax(halved, X)
    with prog:
        (grad,) = br.gradients(br.sum(prog.var("out")), prog.var("x"))
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), feed={"x": X}, fetch=[grad])
    np.testing.assert_allclose(got, np.full_like(X, 0.25))
    assert not values


def test_all_that_has_no_operator_is_said_at_once_with_its_line() -> None:
    def strange(x: Any) -> Any:
        x = jax.pure_callback(np.sin, x, x)
        return lax.rng_uniform(x[0, 0], 1.0, (3,)) + lax.rng_uniform(x[0, 1], 1.0, (3,))

    error = refuses(ProgramError, "3 unsupported equations", strange, X)
    assert "`rng_uniform`, 2 times" in str(error)
    assert "`pure_callback`, 1 time" in str(error)
    assert "Remove the callbacks" in str(error)
    assert "other functions of jax.numpy" in str(error)
    assert "test_from_jax.py" in str(error)


@jax.custom_vjp
def steep(x: Any) -> Any:
    return x * x


steep.defvjp(lambda x: (x * x, x), lambda x, g: (7.0 * g * x,))


def test_loops_of_a_batch_end_one_by_one_and_have_gradients(mode: str) -> None:
    def doubled(x: Any, w: Any) -> Any:
        more, again = lambda s: jnp.sum(s[0]) < 10.0, lambda s: (s[0] * 2.0 + w, s[1] + 1)
        return lax.while_loop(more, again, (x, 0))

    def total(x: Any) -> Any:
        sums, counts = jax.vmap(doubled)(x, jnp.cos(x))
        return (sums * counts[:, None]).sum()

    x = np.array([[0.5, 0.25], [2.0, 3.0], [9.0, 4.0]], "f4")
    prog, _ = br.from_jax(total, x, sizes={"x": ["n", None]})
    with prog:
        (grad,) = br.gradients(prog.var("out"), prog.var("x"))
    got, slope = br.Executor(mode=mode).run(prog, br.Scope(), {"x": x}, ["out", grad])
    np.testing.assert_allclose(got, total(x), rtol=1e-6)
    np.testing.assert_allclose(slope, jax.jacfwd(total)(x), rtol=1e-5)


def test_results_that_are_no_arrays_are_left_out() -> None:
    def step(net: Any, x: Any) -> Any:
        return {"act": net["act"], "name": "net", "w": net["w"] + 1.0}, net["act"](x), 2

    net = {"act": jnp.tanh, "w": X}
    prog, values = br.from_jax(step, net, X, updates={"net": 0})
    assert prog.fetches == ("out.1", "out.2")
    scope = br.Scope()
    scope.update(values)
    br.Executor(mode="interpret").run(prog, scope, feed={"x": X}, fetch=["out.1"])
    np.testing.assert_array_equal(scope.var("net.w").value, X + 1.0)


@jax.tree_util.register_pytree_with_keys_class
class Scaled:
    """A module that is called, as those of Equinox are."""

    def __init__(self, w: Any) -> None:
        self.w = w

    def __call__(self, x: Any) -> Any:
        return self.w * x

    def tree_flatten_with_keys(self) -> Any:
        return [(jax.tree_util.GetAttrKey("w"), self.w)], None

    @classmethod
    def tree_unflatten(cls, _: Any, leaves: Any) -> Any:
        return cls(*leaves)


def test_a_module_that_is_mapped_keeps_its_parameters() -> None:
    prog, values = br.from_jax(jax.vmap(Scaled(X[0])), X)
    assert [info.name for info in prog.parameters] == ["w"]
    np.testing.assert_array_equal(values["w"], X[0])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Held:
    """A variable as Flax's nnx has them."""

    value: Any


def test_the_one_field_value_of_a_variable_is_not_named() -> None:
    def step(net: Any, w: Any, x: Any) -> Any:
        return {"w": Held(net["w"].value + 1.0), "n": (net["n"],)}, w.value * x

    net = {"w": Held(X), "n": ({"value": X[0]},)}
    prog, values = br.from_jax(step, net, Held(X), X, updates={"net": 0})
    assert list(values) == ["net.n.0.value", "net.w", "w"]
    assert prog.fetches == ("out.1",)
    assert br.from_jax(lambda x: Held(x), X)[0].fetches == ("out",)


ODD_KEYS = {"a": np.ones(2), 1: np.ones(3)}


def test_a_function_may_name_what_is_no_tree_to_jax() -> None:
    _, values = br.from_jax(lambda x: x + len(ODD_KEYS), X)
    assert not values


def test_a_derivative_that_a_function_brings_along_is_its_gradient(mode: str) -> None:
    prog, _ = br.from_jax(lambda x: steep(x), X)
    with prog:
        (grad,) = br.gradients(br.sum(prog.var("out")), prog.var("x"))
    got, slope = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X}, ["out", grad])
    np.testing.assert_array_equal(got, X * X)
    np.testing.assert_array_equal(slope, 7.0 * X)


def test_slopes_at_kinks_are_those_of_jax(mode: str) -> None:
    prog, _ = br.from_jax(lambda x: jax.nn.relu(x) + jax.nn.relu6(x + 6), X)
    with prog:
        (grad,) = br.gradients(br.sum(prog.var("out")), prog.var("x"))
    (got,) = br.Executor(mode=mode).run(prog, br.Scope(), feed={"x": X}, fetch=[grad])
    wanted = jax.grad(lambda x: (jax.nn.relu(x) + jax.nn.relu6(x + 6)).sum())(X)
    np.testing.assert_array_equal(got, wanted)


def test_what_does_not_fit_is_refused() -> None:
    refuses(ProgramError, "expected a function, got", X)
    refuses(ShapeError, "`x` has rank 2", jnp.sin, X, sizes={"x": ["n"]})
    refuses(ShapeError, "`x`: expected 3, got 4", jnp.sin, X, sizes={"x": ["n", 4]})
    refuses(ShapeError, "invalid size '1:'", jnp.sin, X, sizes={"x": ["n", "1:"]})
    refuses(UnknownNameError, "unknown array `y`", jnp.sin, X, sizes={"y": ["n", None]})
    refuses(UnknownNameError, "unknown argument `y`", jnp.sin, X, kinds={"y": "data"})
    refuses(UnknownNameError, "unknown argument `y`", jnp.sin, X, updates={"y": 0})
    refuses(ProgramError, "unknown kind 'fed' of `x`", jnp.sin, X, kinds={"x": "fed"})
    refuses(
        ProgramError,
        "result 0 does not match the state `x`",
        lambda x: (x,),
        X,
        updates={"x": 0},
    )
    refuses(ProgramError, "cannot be traced", lambda x: x if x.sum() > 0 else -x, X)
    known = jax.ShapeDtypeStruct((3,), "float32")
    refuses(
        ProgramError,
        "parameter `x` has no initial value",
        jnp.sin,
        known,
        kinds={"x": "parameter"},
    )


TABLE = np.arange(20, dtype="f").reshape(5, 4)


@pytest.mark.parametrize(
    "cut",
    [
        lambda table, t: table[:t],
        lambda table, t: table[-t:],
        lambda table, t: lax.slice(table, (0, 0), (t, 4)),
        lambda table, t: lax.slice(table, (5 - t, 0), (5, 4)),
        lambda table, t: lax.dynamic_slice(table, (1, 0), (t, 4)),
        lambda table, t: table[: 2 * t - 1 : 2],
    ],
)
def test_a_table_is_cut_by_a_size(cut: Any, mode: str) -> None:
    def placed(x: Any) -> Any:
        return x * cut(jnp.asarray(TABLE), x.shape[0])

    rows = np.ones((2, 4), "f")
    prog, values = br.from_jax(placed, rows, sizes={"x": ["1 <= time <= 3", None]})
    assert str(prog.var("out").type) == "f32[time,4]"
    for t in (1, 2, 3):
        x = np.full((t, 4), 0.5, "f")
        (found,) = run_fetches(prog, {"x": x}, mode, values=values)
        np.testing.assert_array_equal(found, placed(x))
    for t in (0, 4):
        with pytest.raises(br.RunError, match="differs from the shape of ensure_shape"):
            run_fetches(prog, {"x": np.ones((t, 4), "f")}, mode, values=values)


def test_limits_of_sizes_are_read_as_they_are_written() -> None:
    def known(x: Any) -> Any:
        return x if x.shape[0] >= 2 and x.shape[1] <= 7 else -x

    prog, values = br.from_jax(known, X, sizes={"x": ["rows >= 2", "words.2 <= 7"]})
    np.testing.assert_array_equal(run_fetches(prog, {"x": X}, "interpret", values=values)[0], X)
    for said in ("rows < 3", "3 >= rows", "1 <= 2", "1 <= rows <= 3 <= 4", "rows == 3"):
        refuses(ShapeError, "invalid size", known, X, sizes={"x": [said, None]})


def test_what_does_not_follow_from_sizes_names_them_as_the_user_does() -> None:
    table, sizes = jnp.asarray(TABLE), {"x": ["time", None]}
    rows = np.ones((2, 4), "f")
    error = refuses(
        ProgramError,
        r"\(time, 4\), \(min\(5, time\), 4\)",
        lambda x: x + table[: x.shape[0]],
        rows,
        sizes=sizes,
    )
    assert "'time <= 512'" in str(error)
    error = refuses(ProgramError, "__index__", lambda x: TABLE[: x.shape[0]], rows, sizes=sizes)
    assert "by jnp.asarray before slicing them by `time`" in str(error)


def test_missing_arguments_raise_errors_at_the_users_line() -> None:
    def needs(x: Any, y: Any) -> Any:
        return x + y

    for function in (needs, jax.jit(needs)):
        error = refuses(ProgramError, "`needs` cannot be traced: .*missing.*'y'", function, X)
        assert "from_jax, at " in str(error)
        assert "test_from_jax.py" in str(error)
        assert "arguments.py" not in str(error)
    error = refuses(ProgramError, "missing 1", lambda x: needs(x), X)
    assert "test_from_jax.py" in error.given


def test_a_batch_that_has_a_name_is_reduced_over(mode: str) -> None:
    def normed(x: Any) -> Any:
        mean = lax.pmean(x, "rows")
        still = lax.stop_gradient(x)
        spread = lax.pmax(still, "rows") - lax.pmin(still, "rows")
        return (x - mean) ** 3, spread, lax.psum((x, 2.0 * x), "rows")

    function = jax.vmap(normed, axis_name="rows")
    prog, _ = br.from_jax(function, X)
    with prog:
        (grad,) = br.gradients([prog.var(prog.fetches[0])], [prog.var("x")])
    fetch = [*prog.fetches, grad]
    *found, slope = br.Executor(mode=mode).run(prog, br.Scope(), {"x": X}, fetch)
    for got, want in zip(found, jax.tree.leaves(function(X)), strict=True):
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)
    wanted = jax.grad(lambda x: jnp.sum(function(x)[0]))(X)
    np.testing.assert_allclose(slope, wanted, 1e-4, 1e-5)


def test_options_are_said_by_the_names_of_arguments() -> None:
    error = refuses(
        ProgramError, "a mapping from argument names for `sizes`", jnp.sin, X, sizes=["b"]
    )
    assert "sizes={'x': …}" in str(error)


WEAK = jnp.asarray(1.5)  # of a Python number: it has the dtype of what it meets
WEAK_WHOLE = jnp.asarray(3)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "float32"])
def test_weak_types_of_arrays_are_those_of_jax(dtype: str) -> None:
    x = jnp.ones(2, dtype)

    def scaled(params: Any, w: Any, x: Any) -> Any:
        end, _ = lax.scan(lambda h, _: (h * params["n"], None), x, None, length=2)
        return x * w, params["n"] * x, jnp.where(x > 0, params["b"], x), WEAK * x, end

    params = {"n": WEAK_WHOLE, "b": WEAK}
    wanted = scaled(params, WEAK, x)
    structs = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in (WEAK, x)]
    for examples in ((WEAK, x), structs):
        prog, values = br.from_jax(scaled, params, *examples)
        scope = br.Scope()
        scope.update(values)
        feed = {"w": np.asarray(WEAK), "x": np.asarray(x)}
        found = br.Executor(mode="interpret").run(prog, scope, feed, list(prog.fetches))
        assert [value.dtype for value in found] == [value.dtype for value in wanted]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, np.asarray(other))


def test_a_number_with_a_kind_is_an_input() -> None:
    def scaled(x: Any, rate: Any, times: int) -> Any:
        return x * rate + times

    x = np.ones(2, np.float16)
    prog, _ = br.from_jax(scaled, x, 0.5, 3, kinds={"rate": "data"})
    assert prog.feeds == ("x", "rate")
    (out,) = br.Executor().run(prog, br.Scope(), feed={"x": x, "rate": 4.0}, fetch=["out"])
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, [7, 7])
    prog, values = br.from_jax(scaled, x, 0.5, 3, kinds={"rate": "parameter"})
    assert values["rate"] == np.float32(0.5)
