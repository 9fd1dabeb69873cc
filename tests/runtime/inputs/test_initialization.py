"""Initial values: seeds of startup programs, scopes that receive them, and kept values."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
FEED = {"x": np.ones((4, 3), "float32")}


def model(optimizer: Any = None) -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        loss = br.mean((br.fc(x, 1, name="fc") - 1.0) ** 2)
        (br.optimizer.adam(1e-3) if optimizer is None else optimizer).minimize(loss)
    return prog


def trained(mode: str, prog: br.Program) -> tuple[br.Executor, br.Scope]:
    exe = br.Executor(mode)
    scope = exe.init(prog, seed=3)
    exe.run(prog, scope, FEED)
    return exe, scope


def test_a_run_of_the_startup_program_initializes_as_init_does(mode: str) -> None:
    prog, exe = model(), br.Executor(mode)
    for seed in (None, 5):
        scope = br.Scope()
        exe.run(prog.startup, scope, seed=seed)
        wanted = exe.init(prog, seed=seed or 0)
        assert scope.names() == wanted.names()
        np.testing.assert_array_equal(scope["fc.w"], wanted["fc.w"])
    read = br.Program.from_bytes(prog.to_bytes())
    exe.run(read.startup, scope, {"seed": np.uint32(7)})
    np.testing.assert_array_equal(scope["fc.w"], exe.init(prog, seed=7)["fc.w"])


def test_init_in_a_child_scope_leaves_the_parent_unchanged(mode: str) -> None:
    prog = model()
    exe, scope = trained(mode, prog)
    before = scope.state_dict()
    child = exe.init(prog, scope.new_scope(), seed=9)
    assert child.names() == scope.names()
    assert (child["fc.w"] != before["fc.w"]).any()
    exe.run(prog, child, FEED)
    after = scope.state_dict()
    assert all((after[name] == value).all() for name, value in before.items())


def test_an_init_that_fails_creates_no_variables() -> None:
    with br.Program() as prog:
        br.parameter("w", [2], init=lambda shape, dtype, name: br.sqrt(br.full(shape, -1.0)))  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    scope = br.Scope()
    with pytest.raises(br.ProgramError, match="seed"):
        br.Executor().init(prog, scope, seed=-1)
    assert scope.names() == []


def test_a_kept_learning_rate_of_another_program_is_reported(mode: str) -> None:
    exe, scope = trained(mode, model())
    with pytest.warns(br.BracesWarning) as caught:
        exe.init(model(br.optimizer.adam(1e-4)), scope, missing_only=True)
    message = str(caught[0].message)
    assert caught[0].filename == __file__
    assert "`adam/learning_rate` keeps the value" in message
    assert "0.001 in the scope, initial value 1e-04" in message
    assert "name=" in message
    assert "scope['adam/learning_rate'] = 1e-04" in message
    assert scope["adam/learning_rate"] == np.float32(1e-3)


def test_the_last_rate_of_a_schedule_is_reported(mode: str) -> None:
    prog = model(br.optimizer.adam(lambda count: 0.1 / (br.cast(count, "float32") + 1.0)))
    exe, scope = trained(mode, prog)
    with pytest.warns(br.BracesWarning, match="adam/learning_rate"):
        exe.init(model(br.optimizer.adam(1e-4)), scope, missing_only=True)


def by_hand(exe: br.Executor, scope: br.Scope) -> br.Program:
    scope["adam/learning_rate"] = 5e-4
    return model(br.optimizer.adam(1e-4))


def of_own_name(exe: br.Executor, scope: br.Scope) -> br.Program:
    return model(br.optimizer.adam(1e-4, name="second"))


def restored(exe: br.Executor, scope: br.Scope) -> br.Program:
    values = scope.state_dict()
    scope["adam/learning_rate"] = 5e-4
    scope.load_state_dict(values | {"adam/learning_rate": np.float32(2e-4)})
    return model()


SILENT: list[Callable[[br.Executor, br.Scope], br.Program]] = [
    lambda exe, scope: model(),
    lambda exe, scope: model(br.optimizer.adam(1e-4)).for_test(),
    lambda exe, scope: model().frozen("fc.w"),
    lambda exe, scope: model().freeze("fc.b"),
    by_hand,
    of_own_name,
    restored,
]


@pytest.mark.parametrize("change", SILENT)
def test_resumed_changed_and_derived_programs_cause_no_warning(
    mode: str, change: Callable[[br.Executor, br.Scope], br.Program]
) -> None:
    exe, scope = trained(mode, model())
    prog = change(exe, scope)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exe.init(prog, scope, missing_only=True)
        exe.run(prog, scope, FEED)
        exe.init(prog, scope, missing_only=True)


def test_a_random_initial_value_that_is_kept_causes_no_warning(mode: str) -> None:
    with br.Program() as prog:
        noise = br.state("noise", [], br.init.normal(1.0))
        prog.give((noise + 1.0).name)
    exe = br.Executor(mode)
    scope = exe.init(prog, seed=0)
    first = scope["noise"]
    exe.init(prog, scope, seed=1, missing_only=True)
    assert scope["noise"] == first
