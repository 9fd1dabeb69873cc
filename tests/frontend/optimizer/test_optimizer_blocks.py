"""The step of an optimizer is a block of its own: one operator, whose outputs move states."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import braces as br
from braces.extend.constructs import BlockView
from braces.frontend import optimizer as opt

pytestmark = pytest.mark.unoptimized

X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)


def fit(made: opt.Optimizer | None = None, layers: int = 1) -> tuple[br.Program, br.Var]:
    """Some layers, and an optimizer where there is one."""
    with br.Program() as prog:
        h = br.data("x", ["b", 3])
        for i in range(layers):
            h = br.fc(h, 3, act="tanh", name=f"fc{i}")
        loss = br.mean(br.square(h - 0.5))
        if made is not None:
            made.minimize(loss)
    return prog, loss


def step_of(prog: br.Program, name: str) -> BlockView:
    """The block that is called so."""
    return BlockView.of(next(op for op in prog.block(0).ops if op.name == name))


def path_of(prog: br.Program, feeds: list[dict[str, Any]], mode: str) -> dict[str, Any]:
    """Return the state after runs with these feeds."""
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=0)
    for feed in feeds:
        exe.run(prog, scope, feed)
    return {name: scope.var(name).value for name in scope.names()}


# ---- one operator ----------------------------------------------------------------------------


def test_a_step_is_one_operator_that_gives_the_next_values() -> None:
    prog, _ = fit(opt.adam(opt.linear_schedule(0.1, 0.0, 9)))
    step = prog.block(0).ops[-1]
    assert (step.type, step.name) == ("block", "adam")
    assert set(step.binds()) == set(prog.updates.values())
    assert {op.name.partition("/")[0] for op in BlockView.of(step).body.ops} == {"adam"}


def test_the_operators_of_a_program_do_not_grow_with_its_optimizer() -> None:
    few, many = (len(fit(opt.adam(), n)[0].block(0).ops) for n in (2, 12))
    plain = (len(fit(opt.sgd(0.1), n)[0].block(0).ops) for n in (2, 12))
    assert (few, many) == tuple(plain)


def test_a_second_step_is_another_block() -> None:
    prog, loss = fit()
    for name in ("fc0.w", "fc0.b"):
        opt.adam().minimize(loss, [name])
    assert step_of(prog, "adam").outputs
    assert step_of(prog, "adam_1").outputs
    assert {"adam/mu/fc0.w", "adam_1/mu/fc0.b"} < set(prog.updates)


def test_a_chain_is_called_as_the_part_that_has_the_learning_rate() -> None:
    parts = (
        opt.clip_by_value(1.0),
        opt.from_optax(optax.scale_by_adam()),
        opt.momentum(0.1, name="m"),
    )
    prog, _ = fit(opt.chain(*parts))
    assert prog.block(0).ops[-1].name == "m"
    prog, _ = fit(opt.chain(opt.clip_by_value(1.0), opt.from_optax(optax.adam(0.1))))
    assert prog.block(0).ops[-1].name == "optax"


def test_a_block_has_another_name_where_an_operator_has_that_of_the_states() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [2], init=1.0)
        opt.adam().minimize(br.sum(br.square(w), name="adam"))
    assert prog.block(0).ops[-1].name == "adam_1"
    assert "adam/mu/w" in prog.updates


def test_a_step_that_fails_leaves_no_block_behind() -> None:
    prog, loss = fit()
    text = str(prog)
    for bad in (opt.sgd(lambda count: 1 / 0), opt.adam(lambda count: [count])):
        with pytest.raises(br.BracesError):
            bad.minimize(loss)
        assert str(prog) == text
        assert not prog.updates


# ---- passes look into it ---------------------------------------------------------------------


def test_a_step_for_one_parameter_has_no_operators_of_the_others() -> None:
    whole, loss = fit(opt.adam(), 4)
    alone, other = fit(None, 4)
    opt.adam().minimize(other, ["fc3.b"])
    small = br.prune(whole, [loss, "fc3.b"])
    assert len(step_of(small, "adam").body.ops) == len(step_of(alone, "adam").body.ops)
    assert set(small.updates) == set(alone.updates)


def test_a_program_for_tests_has_no_step() -> None:
    prog, loss = fit(opt.adam())
    test = br.prune(prog.for_test(), [loss])
    assert "block" not in {op.type for op in test.block(0).ops}


def test_a_step_can_be_edited_in_the_text(mode: str) -> None:
    prog, _ = fit(opt.sgd(0.1))
    text = str(prog)
    assert text.count("f32[] -1.0") == 1
    faster = br.parse(text.replace("f32[] -1.0", "f32[] -2.0"))
    exe, ends = br.Executor(mode=mode), list[Any]()
    for one in (prog, faster):
        scope = br.Scope()
        exe.init(prog, scope, seed=0)
        begun = scope.var("fc0.w").value
        exe.run(one, scope, {"x": X})
        ends.append(scope.var("fc0.w").value - begun)
    np.testing.assert_allclose(ends[1], 2 * ends[0], 1e-5)


# ---- gradients through it --------------------------------------------------------------------


def test_a_gradient_of_a_gradient_goes_through_a_step(mode: str) -> None:
    """How the change of the loss after a step with the learning rate changes itself."""
    with br.Program() as prog:
        p = br.parameter("p", [2], init=[0.5, 0.25], dtype="float64")
        rate = br.data("rate", [], "float64")
        pairs = br.append_backward(br.sum(br.square(p) * br.exp(p)))
        after = opt.adam(rate, epsilon_root=1e-8).apply_gradients(pairs)[p]
        (first,) = br.gradients([br.sum(br.exp(after))], [rate])
        assert first is not None
        second = br.gradients([br.square(first)], [rate, p])
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    found = exe.run(prog, scope, {"rate": np.float64(0.1)}, second)

    def outer(rate: Any, p: Any) -> Any:
        made = optax.adam(rate, eps_root=1e-8)
        grads = jax.grad(lambda p: jnp.sum(jnp.square(p) * jnp.exp(p)))(p)
        return jnp.sum(jnp.exp(p + made.update(grads, made.init(p), p)[0]))

    def squared(rate: Any, p: Any) -> Any:
        return jnp.square(jax.grad(outer)(rate, p))

    with jax.enable_x64(True):
        wanted = jax.grad(squared, (0, 1))(0.1, jnp.array([0.5, 0.25]))
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, np.asarray(want), 1e-9)


# ---- a step in a block -----------------------------------------------------------------------


def boxed(calls: int) -> br.Program:
    """A whole step of training as a block, taken so many times in a run."""
    with br.Program() as prog:
        xs = [br.data(f"x{i}", [f"b{i}", 3]) for i in range(calls)]
        with br.block("step") as step:
            y = br.fc(xs[0], 2, name="fc")
            course = opt.exponential_decay(0.1, 1, 0.5)
            opt.adam(course).minimize(br.mean(br.square(y - 1.0)))
        for x in xs[1:]:
            step(x)
    return prog


def test_a_step_in_a_block_is_a_part_of_it(mode: str) -> None:
    prog = boxed(1)
    assert [op.name for op in prog.block(0).ops] == ["step"]
    assert prog.results == ("step/mean_0",)
    assert {"step/fc.w", "step/adam/mu/step/fc.w"} < set(prog.updates)
    with br.Program() as flat:
        y = br.fc(br.data("x0", ["b0", 3]), 2, name="step/fc")
        course = opt.exponential_decay(0.1, 1, 0.5)
        opt.adam(course).minimize(br.mean(br.square(y - 1.0)))
    feeds = [{"x0": X}] * 3
    np.testing.assert_array_equal(
        path_of(prog, feeds, mode)["step/fc.w"], path_of(flat, feeds, mode)["step/fc.w"]
    )


def test_a_step_in_a_block_that_is_called_again_is_a_second_step(mode: str) -> None:
    once, twice = boxed(1), boxed(2)
    one = path_of(once, [{"x0": X}, {"x0": -X[:2]}] * 2, mode)
    two = path_of(twice, [{"x0": X, "x1": -X[:2]}] * 2, mode)
    assert one["step/adam/count"] == 4
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, 1e-6, 1e-7, err_msg=name)


def test_a_second_step_fetches_the_loss_of_the_initial_parameters(mode: str) -> None:
    exe, scope = br.Executor(mode=mode), br.Scope()
    twice = boxed(2)
    exe.init(twice, scope, seed=0)
    losses = ["step/mean_0", "step_1/mean_0"]
    first, second = exe.run(twice, scope, {"x0": X, "x1": X}, losses)
    assert first == second
    assert exe.run(twice, scope, {"x0": X, "x1": X}, losses)[0] < first


def test_a_step_in_a_block_is_pruned_to_what_moves_a_parameter() -> None:
    prog = boxed(1)
    small = br.prune(prog, ["step/fc.b"])
    inside = {f"step/adam/{name}" for name in ("count", "learning_rate")}
    moments = {f"step/adam/{name}/step/fc.b" for name in ("mu", "nu")}
    assert set(small.updates) == {"step/fc.b"} | inside | moments
    assert len(small.block(2).ops) < len(prog.block(2).ops)


def test_steps_in_a_block_have_names_of_their_own_there() -> None:
    prog, loss = fit()
    with prog, br.block("step"):
        pairs = br.append_backward(loss)
        (first, second) = ({param: grad} for param, grad in pairs.items())
        opt.adam().apply_gradients(first)
        with pytest.raises(br.DuplicateNameError, match="`step/adam/…`"):
            opt.adam(name="adam").apply_gradients(second)
        opt.adam().apply_gradients(second)
    assert {"step/adam/mu/fc0.w", "step/adam_1/mu/fc0.b"} < set(prog.updates)
    assert [op.name for op in prog.block(1).ops if op.type == "block"] == [
        "step/adam",
        "step/adam_1",
    ]


def test_gradients_that_are_applied_in_a_block_are_a_part_of_it(mode: str) -> None:
    prog, loss = fit()
    with prog:
        pairs = br.append_backward(loss)
        with br.block("step"):
            opt.sgd(0.1).apply_gradients(pairs)
    other, _ = fit(opt.sgd(0.1))
    assert prog.block(0).ops[-1].name == "step"
    np.testing.assert_array_equal(
        path_of(prog, [{"x": X}], mode)["fc0.w"], path_of(other, [{"x": X}], mode)["fc0.w"]
    )
