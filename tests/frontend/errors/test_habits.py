"""Habits from other libraries meet errors that name the spelling of Braces."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import braces as br
from braces.hints.table_files import objects

HABITS = {kind: hints for kind, hints in objects().items() if kind != "Var"}


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("model")
    with br.Program() as program:
        out = br.tanh(br.data("x", [2]))
    scope = br.Scope()
    br.save_model(folder / "m", program, scope, feeds=["x"], fetches=[out])
    model = br.load_model(folder / "m")
    assert isinstance(model, br.Model)
    with br.Program() as trained:
        w = br.parameter("w", [], init=1.0)
        sgd = br.optimizer.sgd(0.1)
        sgd.minimize(w * br.mean(br.data("x", ["n"])))
        rnn, loop = br.create_rnn(steps=2), br.create_while()
        with rnn.stepnet() as net:
            net.add_output(br.constant(1.0))
    with br.Program():
        metric = br.metrics.mean(br.data("m", ["n"]))
    batches = [{"x": [1.0]}]
    run = br.fit(trained, batches, quiet=True)
    return {
        "Program": program,
        "Scope": scope,
        "Executor": br.Executor(),
        "Model": model,
        "Fit": run,
        "History": run.history,
        "Stats": run.exe.stats,
        "Metric": metric,
        "TrainingSteps": br.training(trained, batches),
        "Optimizer": sgd,
        "Distribution": br.distributions.Normal(0.0, 1.0),
        "Batches": br.batches({"x": [1.0, 2.0]}, 1),
        "Rnn": rnn,
        "StepNet": net,
        "While": loop,
    }


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in HABITS.items() for name in names]
)
def test_a_habit_is_answered(things: dict[str, Any], kind: str, name: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(things[kind], name)
    assert str(refused.value) == f"{kind} has no attribute `{name}`. Use {HABITS[kind][name]}."
    assert refused.value.name == name


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("Program", "paramters", "`parameters`"),
        ("Scope", "new_scop", "`new_scope`"),
        ("Executor", "runn", "`run`"),
        ("Model", "fetch", "`fetches`"),
        ("Fit", "histroy", "`history`"),
        ("TrainingSteps", "scop", "`scope`"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    things: dict[str, Any], kind: str, name: str, near: str
) -> None:
    with pytest.raises(AttributeError, match=near):
        getattr(things[kind], name)


@pytest.mark.parametrize("kind", HABITS)
def test_what_looks_for_an_attribute_still_may(things: dict[str, Any], kind: str) -> None:
    assert not hasattr(things[kind], "shape")
    assert not hasattr(things[kind], "__array__")
    assert getattr(things[kind], "_nothing", 3) == 3


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("init_params", r"exe\.init\(prog, seed=0\)"),
        ("initialize", r"exe\.init\(prog, seed=0\)"),
        ("Trainer", r"br\.fit\(prog, data"),
        ("train", r"br\.fit\(prog, data"),
        ("DataLoader", r"br\.batches"),
        ("Dataset", r"br\.batches"),
        ("ModelCheckpoint", r"folder="),
        ("SummaryWriter", r"log_files="),
        ("summary", r"prog\.summary"),
        ("predict", r"exe\.evaluate"),
    ],
)
def test_functions_of_training_loops_of_other_libraries_are_answered(
    name: str, words: str
) -> None:
    with pytest.raises(AttributeError, match=words):
        getattr(br, name)


def test_a_definition_is_still_copied(things: dict[str, Any]) -> None:
    definition = things["Program"].definition
    assert copy.copy(definition) == definition
