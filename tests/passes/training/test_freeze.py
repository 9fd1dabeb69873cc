"""Programs with frozen parameters: frozen, unfrozen, and updated alternately."""

from __future__ import annotations

import numpy as np
import pytest

import braces as br
from braces.errors import UnknownNameError

pytestmark = pytest.mark.unoptimized

opt = br.optimizer
X = np.linspace(-1, 1, 12).reshape(4, 3)


def model(made: opt.Optimizer) -> br.Program:
    """An encoder, with running statistics, and a head."""
    with br.Program() as prog:
        x = br.data("x", ["n", 3], "float64")
        with br.block("enc"):
            h = br.tanh(br.batch_norm(br.fc(x, 4, name="fc"), name="norm"))
        made.minimize(br.mean(br.square(br.fc(h, 2, name="head") - 1.0), name="loss"))
    return prog


def test_what_is_frozen_does_not_move_and_goes_on_later(mode: str) -> None:
    prog = model(opt.adam(opt.linear_schedule(0.1, 0.0, 9)))
    still = prog.frozen("enc/*")
    assert not any("enc/" in name for name in still.updates)
    assert {"head.w", "adam/mu/head.w", "adam/count", "adam/learning_rate"} <= set(
        still.updates
    )
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)

    def after(one: br.Program) -> tuple[set[str], dict[str, np.ndarray]]:
        before = {name: scope.var(name).value for name in scope.names()}
        exe.run(one, scope, {"x": X})
        now = {name: scope.var(name).value for name in scope.names()}
        return {name for name in now if np.any(now[name] != before[name])}, now

    moved, _ = after(still)
    assert moved == set(still.updates)
    again, now = after(prog)
    assert {"enc/fc.w", "adam/mu/enc/fc.w", "head.w"} <= again <= set(prog.updates)
    assert now["adam/count"] == 2


@pytest.mark.thorough
def test_the_rest_moves_as_it_does_alone(mode: str) -> None:
    """Steps of the head are those of an optimizer that has only the head."""
    prog = model(opt.momentum(0.1))
    with br.Program() as alone:
        x = br.data("x", ["n", 3], "float64")
        with br.block("enc"):
            h = br.tanh(br.batch_norm(br.fc(x, 4, name="fc"), name="norm"))
        loss = br.mean(br.square(br.fc(h, 2, name="head") - 1.0), name="loss")
        opt.momentum(0.1).minimize(loss, ["head.w", "head.b"])
    found = list[np.ndarray]()
    for one in (prog.frozen("enc/fc.*", "enc/norm.scale", "enc/norm.bias"), alone):
        exe, scope = br.Executor(mode=mode), br.Scope()
        exe.init(alone, scope, seed=1)
        for _ in range(3):
            exe.run(one, scope, {"x": X})
        found.append(scope.var("head.w").value)
    np.testing.assert_allclose(found[0], found[1], 1e-12)


def test_all_of_an_optimizer_that_is_frozen_stays_and_is_not_computed() -> None:
    with br.Program() as prog:
        a, b = (br.parameter(n, [2], init=1.0) for n in "ab")
        opt.adam(opt.linear_schedule(0.1, 0.0, 9)).minimize(br.sum(a * a), [a])
        opt.momentum(0.1).minimize(br.sum(b * b), [b])
        opt.ema([a, b])
    still = prog.frozen(a)
    kept = {"b", "momentum/trace/b", "ema/a", "ema/b", "ema/count"}
    assert set(still.updates) == kept
    assert br.Program.from_bytes(still.to_bytes()).updates == still.updates


def test_two_players_move_by_turns(mode: str) -> None:
    """Each turn moves one player and what its optimizer keeps, and computes no more."""
    with br.Program() as prog:
        a, b = (br.parameter(n, [], init=1.0, dtype="float64") for n in "ab")
        low = opt.adam(0.5, name="low").minimize(a * b, [a])
        high = opt.momentum(0.25, name="high").minimize(-(a * b), [b])
    turns = [br.prune(prog, list(low)), br.prune(prog, list(high))]
    assert set(turns[0].updates) == {"a", "low/count", "low/mu/a", "low/nu/a"}
    assert set(turns[1].updates) == {"b", "high/trace/b"}
    assert not any("high" in info.name for info in turns[0].persistables)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    one, other, trace = 1.0, 1.0, 0.0
    for _ in range(2):
        exe.run(turns[0], scope)
        one = float(scope.var("a").value)
        exe.run(turns[1], scope)
        trace = -one + 0.9 * trace
        other -= 0.25 * trace
        np.testing.assert_allclose(scope.var("b").value, other, 1e-12)
    assert scope.var("low/count").value == 2


def test_what_does_not_move_cannot_be_frozen() -> None:
    prog = model(opt.sgd(0.1))
    with pytest.raises(UnknownNameError, match="`dec/\\*`"):
        prog.frozen("dec/*")
    with pytest.raises(UnknownNameError, match=r"head\.w"):
        prog.frozen("head.v")
