"""Layers that a rule builds bring their first values and their updates along."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from braces.extend.programs import Op, ProgramDef
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite

Build = Callable[[Any], Any]
X = np.arange(24.0).reshape(2, 3, 4) / 24.0


def in_place_of_tanh(build: Build) -> br.passes.Pass:
    def rule(op: Op, place: InsertionPoint) -> Replacement:
        if op.type != "tanh":
            return op
        with place.building():
            made = build(place.var(op.inputs["x"][0]))
        return {op.outputs["out"][0]: made.name}

    def run(program: ProgramDef) -> ProgramDef:
        return rewrite(program, rule)

    return br.passes.Pass("mine", run)


def plain() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["n", 3, 4])
        prog.give(br.tanh(br.fc(x, 4, name="first"), name="act").name)
    return prog


def looped() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["t", 3, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3, 4])
            h.update(br.tanh(h + br.fc(net.add_input(x), 4, name="first")))
            net.add_output(h.next)
        prog.give(rnn().name)
    return prog


LAYERS: dict[str, tuple[Build, list[str]]] = {
    "fc": (lambda x: br.fc(x, 4, name="new"), ["new.w", "new.b"]),
    "two": (
        lambda x: br.fc(br.fc(x, 9, name="new"), 4, name="up"),
        ["new.w", "new.b", "up.w", "up.b"],
    ),
    "layer norm": (lambda x: br.layer_norm(x, name="norm"), ["norm.scale", "norm.bias"]),
    "nothing": (lambda x: br.sin(x), []),
}


@pytest.mark.parametrize("make", [plain, looped])
@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_rule_builds_has_first_values(mode: str, make: Any, layer: str) -> None:
    build, names = LAYERS[layer]
    prog = make()
    before = prog.definition, prog.startup.definition
    new = in_place_of_tanh(build)(prog)
    assert (prog.definition, prog.startup.definition) == before
    assert (new.startup is prog.startup) == (not names)
    assert [*new.startup.updates] == ["first.w", "first.b", *names]
    exe = br.Executor(mode=mode)
    scope = exe.init(prog, seed=1)
    trained = scope["first.w"]
    exe.init(new, scope, seed=1, missing_only=True)
    assert (scope["first.w"] == trained).all()
    assert set(names) <= set(scope.names())
    assert np.isfinite(exe.run(new, scope, {"x": X})[0]).all()


def test_several_passes_add_to_one_another() -> None:
    first = in_place_of_tanh(lambda x: br.tanh(br.fc(x, 4, name="one")))
    second = in_place_of_tanh(lambda x: br.fc(x, 4, name="two"))
    new = second(first(plain()))
    assert [*new.startup.updates] == [
        "first.w", "first.b", "one.w", "one.b", "two.w", "two.b",
    ]  # fmt: skip


def test_running_statistics_that_a_rule_builds_run(mode: str) -> None:
    new = in_place_of_tanh(lambda x: br.batch_norm(x, axis=-1, name="norm"))(plain())
    assert [*new.updates] == ["norm.mean", "norm.var"]
    exe = br.Executor(mode=mode)
    scope = exe.init(new)
    before = scope["norm.mean"]
    exe.run(new, scope, {"x": X})
    assert (scope["norm.mean"] != before).any()


@pytest.mark.parametrize("make", [plain, looped])
def test_draws_that_a_rule_builds_go_on_from_run_to_run(mode: str, make: Any) -> None:
    new = in_place_of_tanh(lambda x: br.dropout(x + 1.0, 0.5))(make())
    assert [*new.updates] == ["random_state"]
    exe = br.Executor(mode=mode)
    scope = exe.init(new)
    one, other = (exe.run(new, scope, {"x": X})[0] for _ in range(2))
    assert ((one == 0.0) != (other == 0.0)).any()


@pytest.mark.parametrize("make", [plain, looped])
def test_a_rule_that_fails_leaves_nothing_behind(make: Any) -> None:
    def rule(op: Op, place: InsertionPoint) -> Replacement:
        if op.type == "tanh":
            with contextlib.suppress(ZeroDivisionError), place.building():
                br.fc(br.dropout(place.var(op.inputs["x"][0]), 0.5), 4, name="new")
                raise ZeroDivisionError
        return op

    prog = make()
    new = br.passes.Pass("failing", lambda program: rewrite(program, rule))(prog)
    assert new.definition == prog.definition
    assert new.startup is prog.startup


def test_a_run_refuses_a_pass_that_makes_parameters(mode: str) -> None:
    prog = plain()
    the_pass = in_place_of_tanh(LAYERS["fc"][0])
    exe = br.Executor(mode=mode, passes=(the_pass,))
    scope = exe.init(prog)
    with pytest.raises(ProgramError, match=r"`new\.w`(?s:.*)missing_only=True"):
        exe.run(prog, scope, {"x": X})
