"""Programs on several devices: values, shardings, and errors."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pytest

import braces as br
from braces.runtime.backend.compiled import CompiledPlan
from tests.support.sharded_models import (
    MODELS,
    batch,
    classifier,
    code_of,
    collectives,
    layouts,
    train,
)

pytestmark = pytest.mark.unoptimized

DATA = br.Layout(br.Mesh({"data": -1}), {"batch": "data"})
KINDS = "data", "fsdp", "tensor", "both"
CHEAP = {("perceptron", "tensor"), ("dropout", "both"), ("with_lengths", "fsdp")}


def every() -> list[Any]:
    """Each model on each layout; what costs much is left to `make thorough`."""
    thorough = pytest.mark.thorough
    return [
        pytest.param(model, kind, marks=() if (model, kind) in CHEAP else thorough)
        for model in MODELS
        for kind in KINDS
    ]


def test_nothing_is_gathered_where_steps_come_before_rows(rng: np.random.Generator) -> None:
    with br.Program() as program:
        x = br.data("x", ["time", "batch", 16])
        h = br.fc(x, 32, act="relu", name="up")
        loss = br.mean(br.fc(h, 8, name="down") ** 2)
        br.optimizer.adam(1e-2).minimize(loss)
    exe, fed = br.Executor(layout=DATA), {"x": rng.normal(size=[6, 16, 16])}
    found = train(program, loss, exe, fed)
    assert collectives(exe, program) == {"all-reduce": 1}
    alone = train(program, loss, br.Executor(), fed)
    np.testing.assert_allclose(found.losses, alone.losses, rtol=1e-6)


@pytest.mark.parametrize(("model", "kind"), every())
def test_results_are_those_of_one_device(
    model: str, kind: str, rng: np.random.Generator
) -> None:
    program, loss = classifier(model)
    fed = batch(program, rng)
    fingerprint = br.fingerprint(program)
    alone = train(program, loss, br.Executor(), fed)
    found = train(program, loss, br.Executor(layout=layouts(program)[kind]), fed)
    np.testing.assert_allclose(found.losses, alone.losses, atol=1e-6)
    for name in alone.scope.names():
        np.testing.assert_allclose(
            found.scope[name], alone.scope[name], atol=1e-6, err_msg=name
        )
    assert br.fingerprint(program) == fingerprint


@pytest.mark.parametrize("kind", KINDS)
def test_interpreted_results_are_those_of_one_device(
    kind: str, rng: np.random.Generator
) -> None:
    program, loss = classifier("perceptron")
    fed, layout = batch(program, rng), layouts(program)[kind]
    exe = br.Executor(mode="interpret", layout=layout)
    found, compiled = train(program, loss, exe, fed), br.Executor(layout=layout)
    np.testing.assert_allclose(
        found.losses, train(program, loss, br.Executor(), fed).losses, atol=1e-6
    )
    assert len(found.scope.var("up.w").raw.sharding.device_set) == 8
    compiled.run(program, found.scope, fed, loss)  # goes on where the other left off


COUNTS = {
    "data": {"all-reduce": 2},
    "fsdp": {"all-reduce": 2, "all-gather": 5},
    "tensor": {"all-reduce": 3},
    "both": {"all-reduce": 3, "all-gather": 4},
}


@pytest.mark.parametrize("kind", KINDS)
def test_devices_tell_each_other_what_they_must(kind: str, rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    exe = br.Executor(layout=layouts(program)[kind])
    train(program, loss, exe, batch(program, rng), steps=1)
    assert collectives(exe, program) == COUNTS[kind]


def test_optimizer_state_has_the_sharding_of_its_parameter(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    exe = br.Executor(layout=layouts(program)["both"])
    scope = train(program, loss, exe, batch(program, rng), steps=1).scope

    def lies(name: str) -> Any:
        return scope.var(name).raw.sharding.spec

    assert tuple(lies("up.w")) == ("data", "model")  # the largest free axis that divides
    assert tuple(lies("down.w")) == ("model", "data")
    for name in ("up.w", "up.b", "down.w", "down.b"):
        assert lies(f"adam/mu/{name}") == lies(f"adam/nu/{name}") == lies(name)


def test_init_makes_values_where_they_lie() -> None:
    program, _ = classifier("perceptron")
    scopes = br.Scope(), br.Scope()
    exe = br.Executor(layout=layouts(program)["both"])
    exe.init(program, scopes[0], seed=3)
    br.Executor().init(program, scopes[1], seed=3)
    assert len(scopes[0].var("up.w").raw.addressable_shards) == 8
    for name in scopes[1].names():
        np.testing.assert_array_equal(scopes[0][name], scopes[1][name], name)


def test_memory_is_taken_over(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    exe = br.Executor(layout=layouts(program)["both"])
    train(program, loss, exe, batch(program, rng), steps=1)
    memory = code_of(exe, program).memory_analysis()
    kept = sum(info.dtype.itemsize * int(np.prod(info.shape)) for info in _kept(program)) / 8
    assert memory.alias_size_in_bytes >= 0.99 * kept


def _kept(program: br.Program) -> list[Any]:
    return [info for info in program.definition.main.vars.values() if info.persistable]


def test_values_of_a_scope_are_brought_to_where_they_belong(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    fed = batch(program, rng)
    scope = train(program, loss, br.Executor(), fed, steps=1).scope
    exe = br.Executor(layout=layouts(program)["both"])
    exe.run(program, scope, fed, loss)
    assert len(scope.var("up.w").raw.sharding.device_set) == 8
    scope.update(scope.state_dict())  # and back
    br.Executor().run(program, scope, fed, loss)


def test_a_bad_id_fails_the_run_and_changes_nothing(rng: np.random.Generator) -> None:
    program, loss = classifier("embedded")
    fed = batch(program, rng)
    exe = br.Executor(layout=layouts(program)["both"])
    scope = train(program, loss, exe, fed, steps=1).scope
    before = scope.state_dict()
    bad = {**fed, "x": fed["x"].copy()}
    bad["x"][7, 2] = 99
    with pytest.raises(br.IndexRangeError, match=r"sharded_models\.py"):
        exe.run(program, scope, bad, loss)
    for name, value in before.items():
        np.testing.assert_array_equal(scope[name], value, name)
    exe.run(program, scope, fed, loss)


def test_a_nan_is_found(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    fed = batch(program, rng)
    exe = br.Executor(layout=DATA)
    scope = train(program, loss, exe, fed, steps=1).scope
    fed["x"][0, 0] = np.nan
    with pytest.raises(br.NaNError, match="matmul_0"):
        exe.run(program, scope, fed, loss, check_nan=True)


def test_batches_are_brought_to_devices_ahead(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    fed = batch(program, rng)
    exe = br.Executor(layout=DATA)
    scope = train(program, loss, exe, fed, steps=0).scope
    with exe.feeds(program, [fed] * 3) as feeds:
        found = [exe.run(program, scope, one, loss).item() for one in feeds]
    np.testing.assert_allclose(found, train(program, loss, exe, fed).losses, atol=1e-6)


def test_an_executor_with_a_layout_is_copied(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    exe = pickle.loads(pickle.dumps(br.Executor(layout=DATA)))
    assert exe.layout == DATA
    assert hash(exe.layout) == hash(DATA)
    train(program, loss, exe, batch(program, rng), steps=1)


# ---- what is refused -------------------------------------------------------------------------


def test_a_batch_with_no_equal_parts_is_refused(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    exe = br.Executor(layout=DATA)
    fed = batch(program, rng)
    scope = train(program, loss, exe, fed, steps=1).scope
    with pytest.raises(
        br.FeedError,
        match=r"(?s)`[xy]` does not divide into equal shards.*batch=9 on 8 devices",
    ):
        exe.run(program, scope, {name: value[:9] for name, value in fed.items()}, loss)
    with pytest.raises(br.FeedError, match="shape mismatch of the feed `x`"):
        exe.run(program, scope, {**fed, "x": fed["x"][0]}, loss)


def test_one_device_refuses_values_on_several_devices(
    mode: str, rng: np.random.Generator
) -> None:
    program, loss = classifier("perceptron")
    fed = batch(program, rng)
    scope = train(program, loss, br.Executor(layout=layouts(program)["both"]), fed, 1).scope
    with pytest.raises(br.DeviceError, match=r"sharded over 8 devices.*Use|state_dict"):
        br.Executor(mode).run(program, scope, fed, loss)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (
            br.Layout(DATA.mesh, {"bach": "data"}),
            "rule for size 'bach', which is not in the program",
        ),
        (br.Layout(DATA.mesh, params={"up.v": (None, "data")}), "'up.v'.*matches no"),
        (br.Layout(DATA.mesh, params={"up.w": ("data",)}), "1 axes; `up.w` has 2"),
        (
            br.Layout(br.Mesh({"a": 3}), params={"up.w": ("a", None)}),
            "`up.w` cannot be sharded evenly on 3 devices",
        ),
        (
            br.Layout(DATA.mesh, params={"up.*": (None, "data"), "*.w": ("data", None)}),
            "two rules",
        ),
    ],
)
def test_rules_that_fit_no_program_are_refused(
    layout: br.Layout, said: str, rng: np.random.Generator
) -> None:
    program, loss = classifier("perceptron")
    fed, scope = batch(program, rng), br.Scope()
    br.Executor().init(program, scope)
    before = scope.state_dict()
    with pytest.raises(br.LayoutError, match=said):
        br.Executor(layout=layout).run(program, scope, fed, loss)
    assert before.keys() == scope.state_dict().keys()


def test_a_layout_without_a_rule_runs(rng: np.random.Generator) -> None:
    program, loss = classifier("perceptron")
    layout = br.Layout(DATA.mesh, {"batch": "data", "time": "data"}, {"none": ("data",)})
    exe = br.Executor(layout=layout.without("time", "none"))
    train(program, loss, exe, batch(program, rng), steps=1)
    with pytest.raises(br.LayoutError, match=r"(?s)no rule 'tim'.*time"):
        layout.without("tim")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: br.Mesh({}), br.LayoutError),
        (lambda: br.Mesh({"a": 0}), br.LayoutError),
        (lambda: br.Mesh({"a": -2}), br.LayoutError),
        (lambda: br.Mesh({"a": True}), br.LayoutError),
        (lambda: br.Mesh({"a": 10**12}), br.LayoutError),
        (lambda: br.Mesh({"a": -1, "b": -1}), br.LayoutError),
        (lambda: br.Mesh({3: 1}), br.LayoutError),  # type: ignore[dict-item]
        (lambda: br.Mesh(8), br.LayoutError),  # type: ignore[arg-type]
        (lambda: br.Layout(8), br.LayoutError),  # type: ignore[arg-type]
        (lambda: br.Layout(DATA.mesh, {"batch": "dat"}), br.LayoutError),
        (lambda: br.Layout(DATA.mesh, {"batch": ("data", "data")}), br.LayoutError),
        (lambda: br.Layout(DATA.mesh, {"batch": 3}), br.LayoutError),  # type: ignore[dict-item]
        (lambda: br.Layout(DATA.mesh, params={"w": "data"}), br.LayoutError),
        (lambda: br.Layout(DATA.mesh, params={"w": ("data", "data")}), br.LayoutError),
        (lambda: br.Layout(DATA.mesh, "batch"), br.LayoutError),  # type: ignore[arg-type]
        (lambda: br.Layout(DATA.mesh, fsdp="model"), br.LayoutError),
        (lambda: br.Executor(layout=DATA.mesh), br.LayoutError),  # type: ignore[arg-type]
        (lambda: br.Executor(layout=DATA, device="cpu:0"), br.LayoutError),
        (lambda: br.Executor(layout=br.Layout(br.Mesh({"a": 9}))), br.DeviceError),
        (lambda: br.Executor(layout=br.Layout(br.Mesh({"a": 3, "b": -1}))), br.DeviceError),
    ],
)
def test_what_is_no_layout_is_refused(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_two_sizes_that_share_an_axis_of_the_mesh() -> None:
    layout = br.Layout(DATA.mesh, {"batch": "data", "time": "data"})
    with br.Program() as program:
        x = br.data("x", ["batch", "time", 8])
        y = br.exp(x) - br.permute_dims(x, [1, 0, 2])[0, 0]
    fed = {"x": np.ones([8, 8, 8], "float32")}
    found = br.Executor(layout=layout).run(program, br.Scope(), fed, y)
    np.testing.assert_allclose(found, np.e - np.ones([8, 8, 8]), rtol=1e-6)


def test_collectives_that_break_in_a_run_are_a_cluster_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["rows"])
        total = br.sum(x)
        prog.update("seen", (br.state("seen", [], init=0.0) + 1.0).name)
    layout = br.Layout(br.Mesh({"data": -1}), dims={"rows": "data"})
    exe, scope = br.Executor(layout=layout), br.Scope()
    exe.init(prog, scope)

    def broken(*_: object) -> None:
        monkeypatch.setattr("braces.runtime.backend.compiled.jax.process_count", lambda: 2)
        raise jax.errors.JaxRuntimeError("UNKNOWN: Gloo context initialization failed")

    monkeypatch.setattr(CompiledPlan, "_run", broken)
    for fetch in (total, "seen"):
        with pytest.raises(br.ClusterError, match="Gloo context initialization failed"):
            exe.run(prog, scope, {"x": np.ones(8, "f4")}, fetch=fetch)
