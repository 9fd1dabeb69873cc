"""Steps with parameters of their own, and pipelines made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.testing.differences import central_differences
from tests.support.sharded_models import collectives

pytestmark = pytest.mark.unoptimized

STAGES, WIDTH = 3, 4
FLOAT = {"dtype": "float64"}


def mix(h: Any) -> Any:
    """A layer that gives what it takes."""
    w = br.parameter("w", [WIDTH, WIDTH], br.init.normal(0.5), **FLOAT)
    b = br.parameter("b", [WIDTH], br.init.normal(0.5), **FLOAT)
    return h + br.tanh(h @ w + b)


def mixed(h: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """All layers in a row."""
    for one, more in zip(w, b, strict=True):
        h = h + np.tanh(h @ one + more)
    return h


def stacked(h: Any) -> Any:
    """Layers as steps."""
    return br.scan(lambda h, _: (mix(h), None), h, length=STAGES, own_parameters=True)[0]


def test_each_stage_has_separate_parameters(mode: str, rng: np.random.Generator) -> None:
    with br.Program() as program:
        y = stacked(br.data("x", ["rows", WIDTH], **FLOAT))
    exe, scope, x = br.Executor(mode), br.Scope(), rng.normal(size=(5, WIDTH))
    exe.init(program, scope, seed=1)
    w, b = scope["w"], scope["b"]
    assert w.shape == (STAGES, WIDTH, WIDTH)
    assert len({*w.ravel()}) == w.size
    np.testing.assert_allclose(exe.run(program, scope, {"x": x}, y), mixed(x, w, b), 1e-12)


def test_first_values_are_those_of_each_layer_alone() -> None:
    with br.Program() as program:
        br.scan(
            lambda h, _: (br.fc(h, 8, name="a"), None),
            br.data("x", ["rows", 8]), length=2, own_parameters=True,
        )  # fmt: skip
    with br.Program() as alone:
        for step in range(2):
            br.parameter(f"a.w@{step}", [8, 8])
    scopes = br.Scope(), br.Scope()
    for one, scope in zip((program, alone), scopes, strict=True):
        br.Executor().init(one, scope, seed=7)
    for step in range(2):
        np.testing.assert_array_equal(scopes[0]["a.w"][step], scopes[1][f"a.w@{step}"])


def test_parts_are_shared_found_and_nested(mode: str) -> None:
    def layer(h: Any) -> Any:
        once = br.fc(h, WIDTH, name="a")
        choice = br.create_if_else(br.mean(once) > 1e9)
        with choice.true_block() as t:
            t.add_output(t.add_input(once))
        with choice.false_block() as f:  # made where another block is open
            f.add_output(f.add_input(once) + br.parameter("c", [], init=1.0))
        again = br.fc(choice(), params=["a.w", "a.b"])
        assert br.get_variable("a.w").shape == (WIDTH, WIDTH)
        return again

    def inner(h: Any) -> Any:
        return br.scan(lambda h, _: (layer(h), None), h, length=2, own_parameters=True)[0]

    with br.Program() as program:
        x = br.data("x", ["rows", WIDTH])
        y = br.scan(lambda h, _: (inner(h), None), x, length=3, own_parameters=True)[0]
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(program, scope)
    assert scope["a.w"].shape == (3, 2, WIDTH, WIDTH)
    h = fed = np.ones([2, WIDTH], "float32")
    for w in scope["a.w"].reshape(6, WIDTH, WIDTH):
        h = (h @ w + 1) @ w
    np.testing.assert_allclose(exe.run(program, scope, {"x": fed}, y), h, 1e-5)


def test_a_layer_that_fails_leaves_nothing() -> None:
    def layer(h: Any, _: Any) -> tuple[Any, None]:
        with pytest.raises(br.BracesError):
            br.fc(h, WIDTH, act="nothing", name="a")
        return br.fc(h, WIDTH, name="a"), None

    with br.Program() as program:
        x = br.data("x", ["rows", WIDTH])
        br.scan(layer, x, length=2, own_parameters=True)
    assert [info.name for info in program.parameters] == ["a.w", "a.b"]


@pytest.mark.parametrize("checkpoint_every", [None, 2])
def test_gradients_are_those_of_layers_in_a_row(
    mode: str, checkpoint_every: int | None, rng: np.random.Generator
) -> None:
    with br.Program() as program:
        x = br.data("x", ["rows", WIDTH], **FLOAT)
        rnn = br.create_rnn(
            steps=STAGES, own_parameters=True, checkpoint_every=checkpoint_every
        )
        with rnn.stepnet() as net:
            h = net.add_memory(init=x)
            h.update(mix(h))
        grads = br.gradients([br.sum(rnn.final(h) ** 2)], [br.get_variable("w"), x])
    _check_gradients(program, grads, mode, rng.normal(size=(3, WIDTH)))


def _check_gradients(program: br.Program, grads: list[Any], mode: str, x: np.ndarray) -> None:
    """Derivatives by a weight of each step, and by an input, are differences."""
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(program, scope, seed=2)
    by_w, by_x = exe.run(program, scope, {"x": x}, grads)
    w, b = (scope[name.name] for name in program.parameters)

    def loss(values: Any) -> Any:
        return {"loss": (mixed(values["x"], values["w"], b) ** 2).sum()}

    for name, grad in (("w", by_w), ("x", by_x)):
        slopes = central_differences(loss, {"w": w, "x": x}, name, ["loss"], step=1e-6)
        np.testing.assert_allclose(grad, slopes["loss"], rtol=1e-6, atol=1e-7)


# ---- pipelines -------------------------------------------------------------------------------


@pytest.mark.parametrize("recompute", [False, True])
def test_a_pipeline_is_its_stages_in_a_row(
    mode: str, recompute: bool, rng: np.random.Generator
) -> None:
    with br.Program() as program:
        x = br.data("x", ["parts", "rows", WIDTH], **FLOAT)
        y = br.pipeline(mix, x, STAGES, recompute=recompute)
        grads = br.gradients([br.sum(y**2)], [br.get_variable("stages/w"), x])
    exe, scope = br.Executor(mode), br.Scope()
    exe.init(program, scope, seed=2)
    w, b = scope["stages/w"], scope["stages/b"]
    for parts in (5, 1, 0):
        fed = rng.normal(size=(parts, 2, WIDTH))
        found, *slopes = exe.run(program, scope, {"x": fed}, [y, *grads])
        np.testing.assert_allclose(found, mixed(fed, w, b), 1e-12)
        assert parts or not np.any(slopes[0])
    _check_gradients(program, grads, mode, rng.normal(size=(2, 3, WIDTH)))


def test_a_pipeline_hands_on_whatever_its_stages_need(mode: str) -> None:
    def stage(given: dict[str, Any]) -> dict[str, Any]:
        return {"h": given["h"] * 2 + given["mask"], "mask": given["mask"]}

    with br.Program() as program:
        h = br.data("h", ["parts", 2])
        mask = br.data("mask", ["parts", 2])
        y = br.pipeline(stage, {"h": h, "mask": mask}, 1)["h"]
        z = br.pipeline(stage, {"h": h, "mask": mask}, 4)["h"]
    fed = {"h": [[1.0, 2.0]], "mask": [[0.0, 1.0]]}
    found = br.Executor(mode).run(program, br.Scope(), fed, [y, z])
    np.testing.assert_array_equal(found, [[[2, 5]], [[16, 47]]])


@pytest.mark.parametrize(
    "layer", ["mlp", pytest.param("attention", marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize("recompute", [False, True])
def test_stages_lie_on_devices_of_their_own(
    layer: str, recompute: bool, rng: np.random.Generator
) -> None:
    def mlp(h: Any) -> Any:
        wide = br.fc(h, 32, act="relu", name="up")
        return h + br.dropout(br.fc(wide, 16, name="down"), 0.1)

    def attention(h: Any) -> Any:
        return br.layers.transformer_encoder_layer(h, 4, 32, name="layer")

    with br.Program() as program:
        x = br.data("x", ["parts", "batch", "time", 16])
        stage = mlp if layer == "mlp" else attention
        y = br.pipeline(stage, x, 4, recompute=recompute)
        loss = br.mean((y - 1) ** 2)
        br.optimizer.sgd(0.1).minimize(loss)
    rules = {p.name: ("pipe", *[None] * (len(p.shape) - 1)) for p in program.parameters}
    mesh = br.Mesh({"pipe": 4, "data": 2})
    across = br.Executor(layout=br.Layout(mesh, {"batch": "data"}, rules))
    fed = {"x": rng.normal(size=(5, 4, 3, 16))}
    losses = list[list[float]]()
    for exe in (br.Executor(), across):
        scope = br.Scope()
        exe.init(program, scope, seed=0)
        losses.append([exe.run(program, scope, fed, loss).item() for _ in range(3)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=4e-6)
    told = collectives(across, program)
    assert told.keys() == {"all-reduce", "collective-permute"}
    assert told["collective-permute"] == 4


# ---- what is refused -------------------------------------------------------------------------


def _rows() -> Any:
    return br.data("x", ["rows", WIDTH])


def _with_lengths() -> None:
    br.create_rnn(steps=3, own_parameters=True, lengths=br.data("n", ["b"], dtype="int32"))


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: br.pipeline(mix, _rows(), 0), br.ProgramError, "stages=0"),
        (lambda: br.pipeline(mix, _rows(), True), br.ProgramError, "stages=True"),
        (lambda: br.pipeline(3, _rows(), 2), br.ProgramError, "a stage, got 3"),  # type: ignore[arg-type]
        (
            lambda: br.pipeline(mix, br.constant(1.0), 2),
            br.ShapeError,
            "a leading axis of micro-batches",
        ),
        (
            lambda: br.pipeline(lambda h: br.fc(h, 5), _rows(), 2),
            br.ShapeError,
            r"(?s)differs from its input type.*input f32\[4\]; output f32\[5\]",
        ),
        (lambda: br.create_rnn(own_parameters=True), br.ProgramError, "number of steps"),
        (lambda: br.create_rnn(steps=0, own_parameters=True), br.ProgramError, "number of"),
        (_with_lengths, br.ProgramError, "lengths= of batch elements"),
    ],
)
def test_what_cannot_be_is_refused(build: Any, error: type[Exception], said: str) -> None:
    with br.Program(), pytest.raises(error, match=said):
        build()


def test_rows_do_not_stop_where_steps_have_their_own() -> None:
    with br.Program():
        x = _rows()
        with br.create_rnn(steps=3, own_parameters=True).stepnet() as net:
            h = net.add_memory(init=x)
            with pytest.raises(br.ProgramError, match="stop_when of batch elements"):
                net.stop_when(br.mean(h, axis=1) > 0)
            h.update(h)
