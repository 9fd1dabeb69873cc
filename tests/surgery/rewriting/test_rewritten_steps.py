"""`prog.rewrite` of training steps: they are differentiated again, and updates follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import optimizer as opt

pytestmark = pytest.mark.unoptimized
DRAW = np.random.default_rng(0)
FEED = {
    "x": DRAW.normal(size=(4, 5, 3)).astype("f"),
    "lens": np.array([1, 5, 3, 2], "int32"),
}


def net(act: Callable[..., Any] = br.tanh) -> br.Var:
    """A loss with lengths, a row-wise branch, dropout, batch norm and a while in a loop."""
    x, lens = br.data("x", ["b", "t", 3]), br.data("lens", ["b"], "int32")
    rnn = br.create_rnn(lengths=lens)
    with rnn.stepnet() as step:
        row, h = step.add_input(x, axis=1), step.add_memory(shape=[4], batch_like=x)
        u = br.fc(br.concat([row, h.pre(1)], axis=-1), 4, name="cell")
        h.update(act(br.dropout(u, 0.2), name="act"))
    final = br.batch_norm(rnn.final(h), name="norm")
    choice = br.create_if_else(br.sum(final, axis=1) > 0.0)
    with choice.true_block() as case:
        case.add_output(act(br.fc(case.add_input(final), 2, name="yes"), name="gate"))
    with choice.false_block() as case:
        case.add_output(br.fc(case.add_input(final), 2, name="no"))
    chosen = choice()
    shrunk = br.while_loop(lambda z: z > 0.5, lambda z: act(z) * 0.7, br.sum(br.square(chosen)))
    scale = br.parameter("scale", [], 1.0)
    with br.block("tail"):
        end = act(shrunk * scale, name="end")
    return br.add(br.mean(chosen**2), end, name="loss")


def sigmoid(x: Any, name: str | None = None) -> Any:
    return br.sigmoid(x, name=name) if name else br.sigmoid(x)


def step_of(act: Callable[..., Any], finish: Callable[[br.Var], Any]) -> br.Program:
    with br.Program() as prog:
        finish(net(act))
    return prog


def run(prog: br.Program, mode: str, fetch: Any = "loss", steps: int = 3) -> list[Any]:
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    values = [exe.run(prog, scope, FEED, fetch) for _ in range(steps)]
    return [values, {p.name: np.asarray(scope.var(p.name).value) for p in prog.persistables}]


def agree(new: br.Program, anew: br.Program, mode: str, fetch: Any = "loss") -> None:
    """Three steps of both give the same values, and leave the same values in the scope."""
    assert str(br.parse(str(new))) == str(new)
    assert str(br.Program.from_bytes(new.to_bytes())) == str(new)
    (left, left_state), (right, right_state) = run(new, mode, fetch), run(anew, mode, fetch)
    np.testing.assert_allclose(
        np.hstack([np.ravel(v) for v in left]), np.hstack([np.ravel(v) for v in right]),
        rtol=2e-5, atol=1e-6,
    )  # fmt: skip
    assert left_state.keys() == right_state.keys()
    for name, value in right_state.items():
        np.testing.assert_allclose(left_state[name], value, rtol=2e-5, atol=1e-6)


def mask(param: br.Var) -> bool:
    return param.ndim > 1


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: opt.sgd(0.1),
    "clipped adam with a schedule": lambda: opt.chain(
        opt.clip_by_global_norm(0.5), opt.adam(opt.cosine_decay_schedule(0.1, decay_steps=10))
    ),
    "adamw with a mask": lambda: opt.adamw(0.05, weight_decay=0.1, mask=mask),
    "accumulation": lambda: opt.multi_steps(opt.momentum(0.1), every=2),
    "loss scale": lambda: opt.dynamic_loss_scale(opt.adam(0.05), init_scale=8.0),
    "groups": lambda: opt.partition(
        {"matrix": opt.adamw(1e-2), "vector": None}, lambda p: "matrix" if mask(p) else "vector"
    ),
    "named": lambda: opt.adam(0.1, name="mine"),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_rewritten_step_equals_the_step_written_anew(name: str, mode: str) -> None:
    made = OPTIMIZERS[name]
    prog = step_of(br.tanh, lambda loss: made().minimize(loss))
    before, startup = prog.definition, prog.startup.definition
    new = prog.rewrite(br.tanh, br.sigmoid)
    assert len(new.report) == 4
    assert prog.definition is before
    assert prog.startup.definition is startup
    anew = step_of(sigmoid, lambda loss: made().minimize(loss))
    assert new.updates.keys() == prog.updates.keys() == anew.updates.keys()
    assert [p.name for p in new.persistables] == [p.name for p in prog.persistables]
    assert new.fetches == prog.fetches
    agree(new, anew, mode)


def test_a_step_from_a_file_follows_too(mode: str) -> None:
    made = OPTIMIZERS["clipped adam with a schedule"]
    prog = step_of(br.tanh, lambda loss: made().minimize(loss))
    anew = step_of(sigmoid, lambda loss: made().minimize(loss))
    loaded = br.Program.from_bytes(prog.to_bytes())
    agree(loaded.rewrite(br.tanh, br.sigmoid), anew, mode)
    twice = br.Program.from_bytes(loaded.rewrite(br.tanh, br.sin).to_bytes())
    agree(twice.rewrite(br.sin, br.sigmoid), anew, mode)


def test_a_scope_of_the_old_step_continues(mode: str) -> None:
    prog = step_of(br.tanh, lambda loss: opt.adam(0.1).minimize(loss))
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    exe.run(prog, scope, FEED)
    moments = np.asarray(scope.var("adam/mu/cell.w").value)
    new = prog.rewrite(br.tanh, br.sigmoid)
    exe.init(new, scope, seed=0, missing_only=True)
    np.testing.assert_array_equal(scope.var("adam/mu/cell.w").value, moments)
    exe.run(new, scope, FEED)
    assert int(scope.var("adam/count").value) == 2


def test_new_parameters_are_trained_with_states_of_their_own(mode: str) -> None:
    def lora(x: Any, w: Any, *, match: Any) -> Any:
        name = match["w"].name
        a = br.parameter(f"{name}.a", [w.shape[0], 2], br.init.normal(0.1))
        return x @ w + x @ a @ br.parameter(f"{name}.b", [2, w.shape[1]], 0.0)

    prog = step_of(br.tanh, lambda loss: opt.adam(0.1).minimize(loss))
    linear = br.pattern(lambda x, w: x @ w, where=lambda m: m["w"].name.endswith(".w"))
    new = prog.rewrite(linear, lora)
    parts = {f"{layer}.w.{end}" for layer in ("cell", "yes", "no") for end in "ab"}
    assert parts <= set(new.updates)
    assert {f"adam/mu/{part}" for part in parts} <= set(new.startup.updates)
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, br.Scope(), seed=0)
    exe.init(new, scope, seed=0, missing_only=True)
    first = np.asarray(scope.var("cell.w.b").value)
    exe.run(new, scope, FEED)
    assert (np.asarray(scope.var("cell.w.b").value) != first).any()
    fixed = step_of(br.tanh, lambda loss: opt.sgd(0.1).minimize(loss, parameters=["cell.w"]))
    assert "cell.w.a" not in fixed.rewrite(linear, lora).updates


def by_hand(loss: br.Var) -> None:
    """Gradients, a norm of them, and updates written by hand; a metric that nothing reads."""
    prog = loss.program
    params = [p for p in prog.parameters if p.trainable]
    grads = br.gradients(loss, params)
    norm = br.sqrt(sum(br.sum(g * g) for g in grads) + 1e-6)
    br.identity(norm, name="grad_norm")
    br.multiply(loss, 2.0, name="metric")
    for param, grad in zip(params, grads, strict=True):
        prog.update(param, param - 0.1 * br.tanh(grad / norm))
    prog.give("loss")


def test_updates_written_by_hand_follow_and_are_rewritten_too(mode: str) -> None:
    prog = step_of(br.tanh, by_hand)
    gate = br.pattern(br.tanh, where=lambda m: m.path.rpartition("/")[2] in ("gate", "act"))
    new = prog.rewrite(gate, br.sin)
    assert len(new.report) == 2
    kept = [name for name in prog.vars if name.endswith("_grad") or "grad" in name]
    assert {"grad_norm", "metric"} <= {*new.vars, *kept}

    def act(x: Any, name: str | None = None) -> Any:
        if name in ("gate", "act"):
            return br.sin(x, name=name)
        return br.tanh(x, name=name) if name else br.tanh(x)

    fetch = ["loss", "grad_norm", "metric"]
    agree(new, step_of(act, by_hand), mode, fetch)
    whole = prog.rewrite(br.tanh, br.sin)
    updates = len([p for p in prog.parameters if p.trainable])
    assert len(whole.report) == 4 + updates


def applied(loss: br.Var) -> None:
    params = [p for p in loss.program.parameters if p.trainable]
    grads = dict(zip(params, br.gradients(loss, params), strict=True))
    opt.adam(0.1).apply_gradients({p: br.clip(g, -0.1, 0.1) for p, g in grads.items()})


def averaged(loss: br.Var) -> None:
    pairs = opt.momentum(0.1).minimize(loss)
    opt.ema(list(pairs), 0.5)


def freed(loss: br.Var) -> None:
    opt.schedule_free(opt.adam(0.1, b1=0.0), b1=0.9).minimize(loss)
    prog = loss.program
    w = prog.var("scale")
    br.subtract(w, 0.1 * prog.var("adam/z/scale"), name="slow")


def penalized(loss: br.Var) -> None:
    (grad,) = br.gradients(loss, loss.program.var("x"))
    opt.sgd(0.05).minimize(br.add(loss, 0.1 * br.mean(grad * grad), name="total"))


def in_turns(loss: br.Var) -> None:
    pairs = opt.adam(0.1).minimize(loss, parameters=["cell.w", "cell.b"])
    opt.adam(0.01).minimize(
        br.identity(loss * 2.0, name="again"), parameters=["yes.w", "scale"]
    )
    for param, grad in pairs.items():
        br.sum(grad * grad, name=f"square.{param.name}")


def forwards(loss: br.Var) -> None:
    prog = loss.program
    x = prog.var("x")
    (slope,) = br.jvp(loss, x, br.ones_like(x))
    br.identity(slope, name="slope")
    opt.sgd(0.1).minimize(loss)


def rated(loss: br.Var) -> None:
    rate = loss.program.table.vars.get("rate") or br.parameter("rate", [], 0.1, trainable=False)
    opt.sgd(rate).minimize(loss)


STEPS: dict[Callable[[br.Var], None], Any] = {
    applied: "loss",
    averaged: "loss",
    freed: ["loss", "slow"],
    penalized: "total",
    in_turns: ["loss", "again", "square.cell.w"],
    forwards: ["loss", "slope"],
    rated: "loss",
}


@pytest.mark.parametrize("finish", STEPS)
@pytest.mark.parametrize("loaded", [False, True])
def test_what_reads_derivatives_follows(finish: Any, loaded: bool, mode: str) -> None:
    prog = step_of(br.tanh, finish)
    prog = br.Program.from_bytes(prog.to_bytes()) if loaded else prog
    pattern = br.pattern(br.tanh, where=lambda m: "tanh" not in m.path.rpartition("/")[2])
    agree(prog.rewrite(br.tanh, br.sigmoid), step_of(sigmoid, finish), mode, STEPS[finish])
    assert len(prog.rewrite(pattern, br.sigmoid).report) == 3


def test_a_line_search_reads_the_rewritten_loss(mode: str) -> None:
    def fit(act: Any) -> br.Program:
        with br.Program() as prog:
            x, w = br.data("x", ["b", "t", 3]), br.parameter("w", [3], init=[0.5, -0.5, 1.0])
            br.data("lens", ["b"], "int32")
            opt.lbfgs().minimize(br.mean((act(br.sum(x * w, axis=2)) - 0.3) ** 2, name="loss"))
        return prog

    agree(fit(br.tanh).rewrite(br.tanh, br.sigmoid), fit(br.sigmoid), mode)


def test_rules_and_places_after_the_step(mode: str) -> None:
    def rule(op: Any, place: Any) -> Any:
        if op.type != "tanh":
            return op
        with place.building():
            return br.sigmoid(place.var(op.inputs["x"][0]))

    def finish(loss: br.Var) -> None:
        opt.adam(0.1).minimize(loss)
        br.exp(loss, name="after")

    prog = step_of(br.tanh, finish)
    agree(prog.rewrite(rule), step_of(sigmoid, finish), mode, ["loss", "after"])
    report = prog.rewrite(br.exp, br.sin).report
    assert report.paths == ("after",)
    pruned = prog.rewrite(lambda op, place: _merged(op)).rewrite(br.tanh, br.sigmoid)
    agree(pruned, step_of(sigmoid, finish), mode, ["loss", "after"])


def _merged(op: Any) -> Any:
    """Remove the identities of a program."""
    return {op.outputs["out"][0]: op.inputs["x"][0]} if op.type == "identity" else op


def test_copies_and_pickles_follow() -> None:
    import copy
    import pickle

    prog = step_of(
        br.tanh, lambda loss: opt.adamw(0.1, mask=lambda p: p.ndim > 1).minimize(loss)
    )
    assert len(copy.copy(prog).rewrite(br.tanh, br.sin).report) == 4
    with pytest.raises(br.ProgramError, match="has no stored form"):
        pickle.loads(pickle.dumps(prog)).rewrite(br.tanh, br.sin)


# ---- what cannot follow ----------------------------------------------------------------------


def refused(prog: br.Program, *parts: str) -> None:
    definition = prog.definition
    with pytest.raises(br.BracesError) as caught:
        prog.rewrite(br.tanh, br.sigmoid)
    for part in parts:
        assert part in str(caught.value)
    assert prog.definition is definition
    assert len(prog.rewrite(br.tanh, lambda x: br.tanh(x) * 1.0, exact=True).report) > 0


def test_what_is_not_recorded_is_refused_with_the_reason() -> None:
    prog = step_of(br.tanh, lambda loss: opt.sgd(0.1).minimize(loss))
    place = "`loop_0/body/partition_0/cases[0]/act` is already differentiated"
    fix = "Rewrite br.prune(prog, [loss]) and differentiate the new program, or pass exact=True"
    refused(br.parse(str(prog)), place, "the program does not record how", fix)
    refused(
        br.prune(prog, ["loss", "cell.w"]), place, "the update of", "is not that of minimize"
    )
    refused(prog.frozen("cell.*"), place, "the update of `cell.", fix)
    lambda_ = step_of(
        br.tanh, lambda loss: opt.sgd(lambda count: 0.1 / (count + 1.0)).minimize(loss)
    )
    refused(
        br.Program.from_bytes(lambda_.to_bytes()),
        "the file does not contain the optimizer: `sgd(<function>)` has no stored form",
        "while the rewritten program is differentiated again",
    )
    assert len(lambda_.rewrite(br.tanh, br.sigmoid).report) == 4


def test_derivatives_that_are_not_repeated_are_refused() -> None:
    with br.Program() as prog:
        x = br.data("x", [3])
        prog.give(br.sum(br.jacobian(br.tanh(x), x)).name)
    refused(prog, "br.jacobian is not repeated")
    with br.Program() as prog:
        w = br.parameter("w", [3], 1.0)
        with br.block("inner"):
            opt.sgd(0.1).minimize(br.sum(br.tanh(w)))
    refused(prog, "minimize was called in an inner block")


def test_a_loss_that_depends_on_no_parameter_any_more_is_refused() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3], 1.0)
        opt.sgd(0.1).minimize(br.sum(br.tanh(w)))
    definition = prog.definition
    with pytest.raises(br.GradientError) as caught:
        prog.rewrite(br.tanh, lambda x: br.zeros([3]))
    assert "does not depend on a trainable parameter" in str(caught.value)
    assert "`tanh`, while the rewritten program is differentiated again" in str(caught.value)
    assert prog.definition is definition
    with br.Program() as prog:
        v, w = br.data("v", [3]), br.data("w", [3])
        loss = br.sum(br.tanh(v) * br.exp(w))
        grads = br.gradients(loss, [v, w])
        prog.give(br.sum(grads[0] + grads[1], name="both").name)
    with pytest.raises(br.GradientError, match="does not exist after the rewriting"):
        prog.rewrite(br.tanh, lambda x: br.zeros([3]))


def test_derivatives_that_were_one_variable_are_refused() -> None:
    with br.Program() as prog:
        v, w = br.data("v", [3]), br.data("w", [3])
        grads = br.gradients(br.sum(br.tanh(v + w)), [v, w])
        assert grads[0] is grads[1]
        prog.give(br.sum(grads[0] * 2.0).name)
    same = prog.rewrite(br.tanh, br.sin)
    assert len(same.report) == 1
    with pytest.raises(br.GradientError, match="cannot keep their names"):
        prog.rewrite(lambda v, w: br.tanh(v + w), lambda v, w: br.tanh(v + 2.0 * w))


def test_a_name_of_a_state_or_of_a_derivative_is_refused() -> None:
    with br.Program() as prog:
        w = br.parameter("w", [3], 1.0)
        pairs = opt.adam(0.1).minimize(br.sum(br.tanh(w)))
    for name in ("adam/mu/w", pairs[w].name):
        with pytest.raises(br.DuplicateNameError, match=f"duplicate variable `{name}`"):
            prog.rewrite(br.tanh, lambda x, name=name: x * br.parameter(name, [3], 1.0))


def test_statistics_of_a_layer_in_a_plain_block_are_updated(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        with br.block("outer"), br.block("inner"):
            h = br.tanh(br.fc(x, 4, name="first"))
        opt.adam(0.1).minimize(br.mean(h * h, name="loss"))

    def normed(x: Any) -> Any:
        return br.dropout(br.batch_norm(br.fc(x, 4, name="new"), name="norm"), 0.5)

    new = prog.rewrite(br.tanh, normed)
    names = {name.rpartition("/")[2] for name in new.updates}
    assert {"norm.mean", "norm.var", "new.w", "new.b", "random_state"} <= names
    exe = br.Executor(mode=mode)
    scope, feed = exe.init(new, br.Scope(), seed=0), {"x": np.eye(3, 4, dtype="f")}
    mean = next(name for name in new.updates if name.endswith("norm.mean"))
    losses = [float(exe.run(new, scope, feed, "loss")) for _ in range(3)]
    assert len(set(losses)) == 3
    assert np.abs(scope[mean]).max() > 0
    assert str(br.Program.from_bytes(new.to_bytes())) == str(new)
