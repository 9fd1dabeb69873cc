"""Optimizers and schedules: the same numbers as optax, under names of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import braces as br
from braces.frontend import optimizer as opt
from braces.frontend.optimizer import Optimizer

pytestmark = pytest.mark.unoptimized

STEPS = 5
X = np.random.default_rng(0).normal(size=(6, 3))
Y = np.random.default_rng(1).normal(size=(6, 2))
W = np.random.default_rng(2).normal(size=(3, 2))
B = np.array([0.5, -0.25])


# ---- one problem, twice ----------------------------------------------------------------------


class Line:
    """A fit of a line, as a program."""

    def __init__(self, dtype: str = "float32", **options: Any) -> None:
        with br.Program() as self.program:
            x = br.data("x", ["rows", 3], dtype)
            y = br.data("y", ["rows", 2], dtype)
            self.w = br.parameter("line.w", [3, 2], init=W, dtype=dtype)
            self.b = br.parameter("line.b", [2], init=B, dtype=dtype, **options)
            self.loss = br.mean(br.square(x @ self.w + self.b - y))
        self.feed = {"x": X.astype(dtype), "y": Y.astype(dtype)}

    def start(self, mode: str = "compile") -> None:
        """Make an executor and first values."""
        self.executor, self.scope = br.Executor(mode=mode), br.Scope()
        self.executor.init(self.program, self.scope)

    def step(self) -> Any:
        """Run once; the loss before the step."""
        return self.executor.run(self.program, self.scope, feed=self.feed, fetch=self.loss)

    def value(self, name: str) -> Any:
        """Return the values of the scope."""
        return self.scope.var(name).value


def train(made: Optimizer, mode: str, dtype: str = "float32") -> tuple[list[Any], Line]:
    """The losses of some steps."""
    line = Line(dtype)
    made.minimize(line.loss)
    line.start(mode)
    return [line.step() for _ in range(STEPS)], line


def jax_loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean(jnp.square(x @ params["w"] + params["b"] - y))


@contextlib.contextmanager
def wide() -> Iterator[None]:
    """64-bit numbers, as all kernels have them."""
    with jax.enable_x64(True):
        yield


def train_by_optax(made: Any, dtype: str = "float32") -> tuple[list[Any], Any]:
    """The same with optax alone."""
    x, y = X.astype(dtype), Y.astype(dtype)
    params = {"w": jnp.asarray(W, dtype), "b": jnp.asarray(B, dtype)}
    state, losses = made.init(params), []
    for _ in range(STEPS):
        loss, grads = jax.value_and_grad(jax_loss)(params, x, y)
        updates, state = made.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        losses.append(np.asarray(loss))
    return losses, {name: np.asarray(value) for name, value in params.items()}


def assert_same(made: Optimizer, wanted: Any, mode: str) -> None:
    """Losses and parameters are those of optax."""
    losses, line = train(made, mode)
    with wide():
        expected, params = train_by_optax(wanted)
    assert {p.dtype for p in params.values()} == {np.dtype("float32")}
    np.testing.assert_allclose(losses, expected, 1e-6, 1e-6)
    np.testing.assert_allclose(line.value("line.w"), params["w"], 1e-6, 1e-6)
    np.testing.assert_allclose(line.value("line.b"), params["b"], 1e-6, 1e-6)
    assert losses[-1] < losses[0]


# ---- optimizers ------------------------------------------------------------------------------

PAIRS: dict[str, Callable[[], tuple[Optimizer, Any]]] = {
    "sgd": lambda: (opt.sgd(0.1), optax.sgd(0.1)),
    "sgd with momentum": lambda: (opt.sgd(0.1, 0.8, True), optax.sgd(0.1, 0.8, True)),
    "momentum": lambda: (opt.momentum(0.05, 0.5), optax.sgd(0.05, 0.5)),
    "adam": lambda: (opt.adam(0.1), optax.adam(0.1)),
    "adam with options": lambda: (
        opt.adam(0.1, 0.8, 0.9, 1e-4, 1e-3, nesterov=True),
        optax.adam(0.1, 0.8, 0.9, 1e-4, 1e-3, nesterov=True),
    ),
    "nadam": lambda: (opt.nadam(0.1), optax.nadam(0.1)),
    "adamw": lambda: (opt.adamw(0.1, weight_decay=0.1), optax.adamw(0.1, weight_decay=0.1)),
    "lamb": lambda: (opt.lamb(0.05, weight_decay=0.1), optax.lamb(0.05, weight_decay=0.1)),
    "amsgrad": lambda: (opt.amsgrad(0.1), optax.amsgrad(0.1)),
    "adamax": lambda: (opt.adamax(0.1), optax.adamax(0.1)),
    "radam": lambda: (opt.radam(0.1), optax.radam(0.1)),
    "radam, few steps": lambda: (opt.radam(0.05, b2=0.9), optax.radam(0.05, b2=0.9)),
    "adan": lambda: (
        opt.adan(0.05, 0.9, 0.8, 0.95, weight_decay=0.1, mask=lambda p: p.ndim > 1),
        optax.adan(0.05, 0.9, 0.8, 0.95, weight_decay=0.1, mask={"w": True, "b": False}),
    ),
    "lars": lambda: (opt.lars(20.0), optax.lars(20.0)),
    "lars of matrices": lambda: (
        opt.lars(
            0.1, 0.5, True, trust_coefficient=0.2, weight_decay=0.1, mask=lambda p: p.ndim > 1
        ),
        optax.lars(
            0.1, 0.1, {"w": True, "b": False}, 0.2, 0.0, {"w": True, "b": False}, 0.5, True
        ),
    ),
    "adabelief": lambda: (opt.adabelief(0.05), optax.adabelief(0.05)),
    "lion": lambda: (opt.lion(0.01), optax.lion(0.01)),
    "rmsprop": lambda: (opt.rmsprop(0.01), optax.rmsprop(0.01)),
    "rmsprop with options": lambda: (
        opt.rmsprop(0.01, 0.8, initial_scale=0.5, centered=True, momentum=0.5),
        optax.rmsprop(0.01, 0.8, initial_scale=0.5, centered=True, momentum=0.5),
    ),
    "adagrad": lambda: (opt.adagrad(0.1), optax.adagrad(0.1)),
    "adagrad with options": lambda: (opt.adagrad(0.1, 0.5), optax.adagrad(0.1, 0.5)),
    "adadelta": lambda: (opt.adadelta(weight_decay=0.1), optax.adadelta(1.0, weight_decay=0.1)),
    "clipped by norm": lambda: (
        opt.chain(opt.clip_by_global_norm(0.5), opt.adam(0.1)),
        optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1)),
    ),
    "clipped by value": lambda: (
        opt.chain(opt.clip_by_value(0.2), opt.momentum(0.1)),
        optax.chain(optax.clip(0.2), optax.sgd(0.1, 0.9)),
    ),
    "chain of transformations": lambda: (
        opt.chain(
            opt.chain(
                opt.add_decayed_weights(0.1), opt.from_optax(optax.scale_by_rms(eps=0.1))
            ),
            opt.scale_by_learning_rate(0.05),
        ),
        optax.chain(
            optax.add_decayed_weights(0.1),
            optax.scale_by_rms(eps=0.1),
            optax.scale_by_learning_rate(0.05),
        ),
    ),
    "masked decay": lambda: (
        opt.adamw(0.1, weight_decay=0.5, mask=lambda p: p.ndim > 1),
        optax.adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False}),
    ),
    "schedule": lambda: (
        opt.adam(opt.cosine_decay_schedule(0.1, 4)),
        optax.adam(optax.cosine_decay_schedule(0.1, 4)),
    ),
    "schedule without a count": lambda: (
        opt.sgd(opt.exponential_decay(0.2, 2, 0.5)),
        optax.sgd(optax.exponential_decay(0.2, 2, 0.5)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_steps_are_those_of_optax(name: str, mode: str) -> None:
    made, wanted = PAIRS[name]()
    assert_same(made, wanted, mode)


def test_optax_without_64_bits_is_near() -> None:
    losses, _ = train(opt.adam(0.01), "compile")
    expected, _ = train_by_optax(optax.adam(0.01))
    np.testing.assert_allclose(losses, expected, 1e-6)


def test_minimize_gives_the_gradients_before_clipping() -> None:
    line = Line()
    pairs = opt.chain(opt.clip_by_global_norm(1e-3), opt.sgd(0.1)).minimize(line.loss)
    line.start()
    run = line.executor.run
    grad = run(line.program, line.scope, feed=line.feed, fetch=pairs[line.w])
    params = {"w": W.astype("f"), "b": B.astype("f")}
    expected = jax.grad(jax_loss)(params, X.astype("f"), Y.astype("f"))
    np.testing.assert_allclose(grad, expected["w"], 1e-5, 1e-6)
    assert list(pairs) == [line.w, line.b]


def test_gradients_of_ones_own_are_applied(mode: str) -> None:
    with br.Program() as program:
        p = br.parameter("p", [2], init=1.0)
        g = br.data("g", [2])
        after = opt.sgd(0.5).apply_gradients({p: g})
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope)
    found = executor.run(program, scope, feed={"g": np.array([1, 2], "f")}, fetch=after[p])
    np.testing.assert_array_equal(found, [0.5, 0.0])
    np.testing.assert_array_equal(scope.var("p").value, [0.5, 0.0])


def test_an_optimizer_serves_several_programs() -> None:
    made = opt.adam(0.1)
    first, second = train(made, "compile")[0], train(made, "compile")[0]
    np.testing.assert_array_equal(first, second)


# ---- what is kept ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (opt.sgd(0.1), ""),
        (opt.momentum(0.1), "trace"),
        (opt.adam(), "count mu nu"),
        (opt.adamw(), "count mu nu"),
        (opt.amsgrad(), "count mu nu nu_max"),
        (opt.lion(0.1), "mu"),
        (opt.rmsprop(0.1, momentum=0.9), "nu trace"),
        (opt.adagrad(0.1), "sum_of_squares"),
        (opt.adadelta(), "e_g e_x"),
        (opt.sgd(opt.linear_schedule(0.1, 0.0, 5)), "count"),
    ],
    ids=lambda given: given.parts[0].name if isinstance(given, Optimizer) else "",
)
def test_names_are_stable(made: Optimizer, wanted: str) -> None:
    line = Line()
    made.minimize(line.loss)
    line.start()
    name, roles = made.parts[0].name, wanted.split()
    expected = {"line.w", "line.b", f"{name}/learning_rate"}
    expected |= {f"{name}/{role}" for role in roles if role == "count"}
    expected |= {f"{name}/{r}/{p}" for r in roles if r != "count" for p in ("line.w", "line.b")}
    assert set(line.scope.names()) == expected


def test_a_second_optimizer_has_separate_names() -> None:
    line = Line()
    opt.adam().minimize(line.loss, [line.w])
    opt.adam().minimize(line.loss, ["line.b"])
    states = [info.name for info in line.program.persistables if info.kind == "state"]
    assert {"adam/mu/line.w", "adam_1/mu/line.b", "adam/count", "adam_1/count"} < set(states)


def test_a_name_can_be_chosen() -> None:
    line = Line()
    opt.chain(opt.clip_by_value(1.0), opt.adam(name="fit")).minimize(line.loss)
    assert "fit/nu/line.b" in line.program.vars


def test_counts_and_moments_are_those_of_optax() -> None:
    _, line = train(opt.adam(0.1), "compile")
    assert line.value("adam/count") == STEPS
    assert line.value("adam/count").dtype == np.int32
    made = optax.adam(0.1)
    params = {"w": jnp.asarray(W, "f"), "b": jnp.asarray(B, "f")}
    state = made.init(params)
    for _ in range(STEPS):
        grads = jax.grad(jax_loss)(params, X.astype("f"), Y.astype("f"))
        updates, state = made.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(line.value("adam/mu/line.w"), state[0].mu["w"], 1e-5, 1e-6)
    np.testing.assert_allclose(line.value("adam/nu/line.b"), state[0].nu["b"], 1e-5, 1e-6)


def test_training_goes_on_after_a_file(mode: str) -> None:
    line = Line()
    opt.chain(
        opt.clip_by_value(0.3), opt.adam(opt.piecewise_constant_schedule(0.1, {2: 0.5}))
    ).minimize(line.loss)
    line.start(mode)
    loaded = br.Program.from_bytes(line.program.to_bytes())
    assert loaded.definition == line.program.definition
    other = br.Scope()
    line.executor.init(loaded, other)
    for _ in range(3):
        again = line.executor.run(loaded, other, feed=line.feed, fetch=line.loss.name)
        np.testing.assert_array_equal(line.step(), again)


# ---- learning rates --------------------------------------------------------------------------


def test_the_learning_rate_is_read_and_set_by_name(mode: str) -> None:
    line = Line()
    opt.sgd(0.1).minimize(line.loss)
    line.start(mode)
    assert line.value("sgd/learning_rate") == np.float32(0.1)
    line.step()
    before = line.value("line.w")
    line.scope.var("sgd/learning_rate").set(0.0)
    line.step()
    np.testing.assert_array_equal(line.value("line.w"), before)
    line.scope.var("sgd/learning_rate").set(0.2)
    line.step()
    params = {"w": W.astype("f"), "b": B.astype("f")}
    for rate in (0.1, 0.2):
        grads = jax.grad(jax_loss)(params, X.astype("f"), Y.astype("f"))
        params = {name: p - np.float32(rate) * grads[name] for name, p in params.items()}
    np.testing.assert_allclose(line.value("line.w"), params["w"], 1e-6, 1e-6)


def test_a_scheduled_rate_can_be_read(mode: str) -> None:
    line = Line()
    opt.momentum(opt.linear_schedule(0.1, 0.0, 4)).minimize(line.loss)
    line.start(mode)
    seen = [line.value("momentum/learning_rate")]
    for _ in range(3):
        line.step()
        seen.append(line.value("momentum/learning_rate"))
    np.testing.assert_allclose(seen, [0.0, 0.1, 0.075, 0.05], 1e-6)


def test_a_learning_rate_may_be_a_variable(mode: str) -> None:
    line = Line()
    with line.program:
        rate = br.state("rate", [], init=0.1)
        opt.sgd(rate).minimize(line.loss)
    line.start(mode)
    line.step()
    expected = (
        W.astype("f")
        - np.float32(0.1)
        * jax.grad(jax_loss)(
            {"w": W.astype("f"), "b": B.astype("f")}, X.astype("f"), Y.astype("f")
        )["w"]
    )
    np.testing.assert_allclose(line.value("line.w"), expected, 1e-6, 1e-6)
    assert "sgd/learning_rate" not in line.program.vars


def test_a_learning_rate_may_be_any_function_of_the_count(mode: str) -> None:
    made = opt.sgd(lambda count: 0.1 / (br.cast(count, "float32") + 1.0))
    assert_same(made, optax.sgd(lambda count: 0.1 / (count + 1.0)), mode)


# ---- frozen parameters -----------------------------------------------------------------------


def test_frozen_parameters_stay(mode: str) -> None:
    line = Line(trainable=False)
    assert list(opt.adam(0.1).minimize(line.loss)) == [line.w]
    line.start(mode)
    line.step()
    np.testing.assert_array_equal(line.value("line.b"), B.astype("f"))
    assert not np.array_equal(line.value("line.w"), W.astype("f"))
    assert "adam/mu/line.b" not in line.scope.names()


def test_only_the_named_parameters_move() -> None:
    line = Line()
    opt.adam(0.1).minimize(line.loss, parameters=[line.b])
    line.start()
    line.step()
    np.testing.assert_array_equal(line.value("line.w"), W.astype("f"))
    assert not np.array_equal(line.value("line.b"), B.astype("f"))


def test_two_optimizers_share_the_parameters(mode: str) -> None:
    line = Line()
    pairs = br.append_backward(line.loss)
    opt.adam(0.1).apply_gradients({line.w: pairs[line.w]})
    opt.sgd(0.1).apply_gradients({line.b: pairs[line.b]})
    line.start(mode)
    losses = [line.step() for _ in range(STEPS)]
    made = optax.multi_transform(
        {"a": optax.adam(0.1), "s": optax.sgd(0.1)}, {"w": "a", "b": "s"}
    )
    with wide():
        expected, _ = train_by_optax(made)
    np.testing.assert_allclose(losses, expected, 1e-6, 1e-6)


# ---- dtypes ----------------------------------------------------------------------------------

EVERY = [
    opt.sgd(0.1), opt.momentum(0.1), opt.adam(0.1), opt.adamw(0.1), opt.nadam(0.1),
    opt.lamb(0.1), opt.amsgrad(0.1), opt.adamax(0.1), opt.radam(0.1), opt.adabelief(0.1),
    opt.lion(0.1), opt.rmsprop(0.1, centered=True), opt.adagrad(0.1), opt.adadelta(),
    opt.adan(0.1), opt.lars(20.0),
    opt.chain(
        opt.clip_by_global_norm(1.0), opt.clip_by_value(0.5),
        opt.sgd(opt.linear_schedule(0.1, 0.0, 4))
    ),
]  # fmt: skip


@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.parts[-1].name)
def test_dtypes_stay(made: Optimizer) -> None:
    with br.Program() as program:
        params = [
            br.parameter(dtype, [2], init=1.0, dtype=dtype)
            for dtype in ("float16", "bfloat16", "float32", "float64")
        ]
        made.apply_gradients({p: p * 0.5 for p in params})
    executor, scope = br.Executor(), br.Scope()
    executor.init(program, scope)
    executor.run(program, scope)
    for param in params:
        assert scope.var(param.name).dtype == param.dtype
        assert np.all(scope.var(param.name).value.astype("f") < 1.0)
    for name in scope.names():
        kept = program.vars[name].type
        assert scope.var(name).dtype == kept.dtype, name


@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.parts[-1].name)
def test_nothing_large_is_computed_in_another_dtype(made: Optimizer) -> None:
    line = Line()
    made.minimize(line.loss)
    types = [info.type for info in line.program.vars.values()]
    assert {str(type_.dtype) for type_ in types if type_.shape} <= {"float32", "bool"}


def test_16_bits_are_computed_with_in_32_and_rounded_once(mode: str) -> None:
    with br.Program() as program:
        p = br.parameter("p", [2], init=[1.0, -3.0], dtype="bfloat16")
        made = opt.chain(opt.add_decayed_weights(0.3), opt.sgd(0.1, 0.9))
        made.apply_gradients({p: br.data("g", [2], "bfloat16")})
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope)
    value, trace = np.array([1.0, -3.0], "f4"), np.zeros(2, "f4")
    for _ in range(3):
        given = (value * 0.7).astype(p.dtype)
        grads = given.astype("f4") + np.float32(0.3) * value
        moved = grads + np.float32(0.9) * trace
        value = (value - np.float32(0.1) * moved).astype(p.dtype).astype("f4")
        trace = moved.astype(p.dtype).astype("f4")
        executor.run(program, scope, {"g": given})
        np.testing.assert_array_equal(scope.var("p").value.astype("f4"), value)
        np.testing.assert_array_equal(scope.var("sgd/trace/p").value.astype("f4"), trace)


def test_float64_is_exact(mode: str) -> None:
    made = opt.adamw(opt.cosine_decay_schedule(0.1, 10), weight_decay=0.1)
    losses, line = train(made, mode, "float64")
    with wide():
        wanted = optax.adamw(optax.cosine_decay_schedule(0.1, 10), weight_decay=0.1)
        expected, params = train_by_optax(wanted, "float64")
    np.testing.assert_allclose(losses, expected, 1e-13)
    np.testing.assert_allclose(line.value("line.w"), params["w"], 1e-13)
    assert line.program.vars["adamw/learning_rate"].type.dtype == np.float64


# ---- gradients through a step ----------------------------------------------------------------


def test_a_step_has_a_gradient(mode: str) -> None:
    """Return the gradient of the loss after a step for learning rate and first parameters."""
    target = np.array([1.0, -2.0])
    with br.Program() as program:
        p = br.parameter("p", [2], init=[0.5, 0.25], dtype="float64")
        rate = br.data("rate", [], "float64")
        loss = br.sum(br.square(p - target) * br.exp(p))
        made = opt.chain(opt.clip_by_global_norm(1.0), opt.adam(rate, epsilon_root=1e-8))
        after = made.apply_gradients(br.append_backward(loss))[p]
        hyper = br.gradients([br.sum(br.square(after - target))], [rate, p])
    executor, scope = br.Executor(mode=mode), br.Scope()
    executor.init(program, scope)
    found = executor.run(program, scope, feed={"rate": np.float64(0.1)}, fetch=hyper)

    def outer(rate: Any, p: Any) -> Any:
        def loss(p: Any) -> Any:
            return jnp.sum(jnp.square(p - target) * jnp.exp(p))

        made = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, eps_root=1e-8))
        updates, _ = made.update(jax.grad(loss)(p), made.init(p), p)
        return jnp.sum(jnp.square(p + updates - target))

    with wide():
        expected = jax.grad(outer, (0, 1))(0.1, jnp.array([0.5, 0.25]))
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, np.asarray(want), 1e-9)
