"""Layers with weights against PyTorch, noise by its moments, and errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

GIVEN = dict(np.load(Path(__file__).with_name("torch_layers.npz")))
"""Written by scripts/torch_layers.py."""
NAMES = [
    name for name in GIVEN if name in "x w deep point bias slope scale u table pair factors ids"
]
NORMS = {"spectral_1_1_True": 1, "spectral_2_3_True": 3, "spectral_1_1_False": 1}
"""The number of state updates of each layer in a run."""


def layers(v: dict[str, Any]) -> dict[str, Any]:
    """Each layer, of weights that are given."""
    x, w, ids, table = v["x"], v["w"], v["ids"], v["table"]
    deep = br.conv2d(x, v["deep"], groups=4)
    bag: dict[str, Any] = {"mask": ids != 0}
    norms = {
        key: br.layers.spectral_norm(w, iterations=n, name=key) for key, n in NORMS.items()
    }
    return norms | {
        "prelu": br.layers.prelu(x, v["slope"]),
        "depthwise": br.conv2d(x, v["deep"], groups=4, stride=2, padding=[1, 1]),
        "separable": br.conv2d(deep, v["point"], bias=v["bias"]),
        "bilinear": br.layers.bilinear(x, br.flip(x, 1), v["pair"], bias=v["bias"][:2]),
        "shuffle": br.layers.channel_shuffle(x, 2),
        "padded": br.embedding(ids, table, padding_index=0),
        "bag_mean": br.layers.embedding_bag(ids, table, **bag),
        "bag_sum": br.layers.embedding_bag(ids, table, mode="sum", **bag),
        "bag_max": br.layers.embedding_bag(ids, table, mode="max", **bag),
        "bag_weights": br.layers.embedding_bag(
            ids, table, mode="sum", weights=v["factors"], **bag
        ),
        "weight_norm_0": br.layers.weight_norm(w, v["scale"], axis=0),
        "weight_norm_None": br.layers.weight_norm(w, v["scale"][0], axis=None),
    }


def given(key: str) -> br.Var:
    """Data, of which what has examples may have any number."""
    sizes = GIVEN[key].shape
    shape = ["b", *sizes[1:]] if key in ("x", "ids", "factors") else sizes
    return br.data(key, shape, dtype=str(GIVEN[key].dtype))


@pytest.mark.unoptimized
def test_layers_and_their_gradients_are_those_of_torch(mode: str) -> None:
    with br.Program() as prog:
        v = {key: given(key) for key in NAMES if key != "u"}
        fetch = layers(v)
        for name, out in [*fetch.items()]:
            sources = [key for key in v if f"{name}.{key}" in GIVEN]
            grads = br.gradients([br.sum(br.sin(out))], [v[key] for key in sources])
            fetch |= {f"{name}.{key}": grad for key, grad in zip(sources, grads, strict=True)}
    assert {*fetch} == {*GIVEN} - {*NAMES}
    exe, feed = br.Executor(mode=mode), {key: GIVEN[key] for key in v}

    def begun() -> br.Scope:
        scope = br.Scope()
        exe.init(prog, scope)
        scope.update({f"{key}.u": GIVEN["u"] for key in NORMS})
        return scope

    def check(prog: br.Program, scope: br.Scope, wanted: Callable[[str], bool]) -> None:
        asked = {name: var for name, var in fetch.items() if wanted(name)}
        for name, value in exe.run(prog, scope, feed, asked).items():
            np.testing.assert_allclose(value, GIVEN[name], 1e-6, 1e-8, err_msg=name)

    scope = begun()
    check(prog, scope, lambda name: "False" not in name and "_2_" not in name)
    check(prog, scope, lambda name: "_2_" in name)
    scope = begun()
    for _ in range(2):  # nothing moves
        check(prog.for_test(), scope, lambda name: "False" in name or name == "prelu")


# ---- what they make --------------------------------------------------------------------------


def test_layers_make_their_weights_and_share_them() -> None:
    with br.Program() as prog:
        x, ids = br.data("x", ["b", 4, 5, 6]), br.data("ids", ["b", 3], dtype="int32")
        br.layers.prelu(x, name="slopes")
        br.layers.prelu(x, params=["slopes.slope"])
        br.layers.prelu(x, axis=None, name="one", init=0.1)
        br.layers.depthwise_conv2d(x, 3, multiplier=2, name="deep")
        br.layers.depthwise_conv1d(x[:, :, 0], 3, name="line", bias=False)
        br.layers.separable_conv1d(x[:, :, 0], 7, 2, name="both", act="relu")
        br.layers.separable_conv2d(
            br.permute_dims(x, (0, 2, 3, 1)), 7, 2, layout="NHWC", name="last"
        )
        br.layers.bilinear(x, x[..., :2], 3, name="pair")
        br.layers.embedding_bag(ids, [7, 2], name="bag")
        w = br.get_variable("deep.w")
        br.layers.spectral_norm(w, name="sn")
        br.layers.spectral_norm(w, params=["sn.u"])
        br.layers.weight_norm(w, axis=0, name="wn")
    assert {info.name: str(info.type) for info in prog.persistables} == {
        "slopes.slope": "f32[4]", "one.slope": "f32[]",
        "deep.w": "f32[8,1,3,3]", "deep.b": "f32[8]", "line.w": "f32[4,1,3]",
        "both/depthwise.w": "f32[4,1,2]", "both/pointwise.w": "f32[7,4,1]",
        "both/pointwise.b": "f32[7]", "last/depthwise.w": "f32[2,2,1,4]",
        "last/pointwise.w": "f32[1,1,4,7]", "last/pointwise.b": "f32[7]",
        "pair.w": "f32[3,6,2]", "pair.b": "f32[3]", "bag.w": "f32[7,2]",
        "sn.u": "f32[8]", "wn.scale": "f32[8]",
    }  # fmt: skip
    assert [*prog.updates] == ["sn.u"]


def test_normed_weights_begin_as_they_are_and_find_the_largest_singular_value(
    mode: str, tmp_path: Path
) -> None:
    with br.Program() as prog:
        w = br.parameter("w", [6, 3, 4])
        same = br.layers.weight_norm(w, axis=1, name="wn")
        divided = br.layers.spectral_norm(w, axis=1, iterations=50)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=0)
    value = np.asarray(scope.find_var("w").value)
    largest = np.linalg.svd(np.moveaxis(value, 1, 0).reshape(3, -1), compute_uv=False)[0]
    test = prog.for_test()
    for part in (prog, test):
        got = exe.run(part, scope, {}, [same, divided])
        np.testing.assert_allclose(got[0], value, 1e-5, 1e-7)
        np.testing.assert_allclose(got[1], value / largest, 1e-4, 1e-7)
    br.save_model(tmp_path / "model", prog, scope, [], [divided])
    model = br.load_model(tmp_path / "model", mode=mode)
    np.testing.assert_allclose(model.run(), got[1], 1e-6)


# ---- noise -----------------------------------------------------------------------------------


def noisy(x: Any) -> dict[str, Any]:
    return {
        "alpha_dropout": br.layers.alpha_dropout(x, 0.3),
        "alpha_channels": br.layers.alpha_dropout(x, 0.3, shared_axes=2),
        "gaussian_dropout": br.layers.gaussian_dropout(x, 0.2),
        "gaussian_noise": br.layers.gaussian_noise(x, 0.5),
        "rrelu": br.layers.rrelu(x),
        "channels": br.dropout(x, 0.25, shared_axes=(2,)),
        "examples": br.dropout(x, 0.25, shared_axes=(-2, -1), name="paths"),
    }


def test_noise_has_its_moments_and_is_still_in_tests(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 20, 50])
        fetch = noisy(x)
        (grad,) = br.gradients([br.sum(fetch["channels"])], [x])
    xs = np.random.default_rng(0).normal(size=(40, 20, 50)).astype("f4")
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=3)
    first, again = (exe.run(prog, scope, {"x": xs}, fetch | {"grad": grad}) for _ in range(2))
    still = exe.run(prog.for_test(), scope, {"x": xs}, fetch)
    for name, value in still.items():
        assert np.any(first[name] != again[name]), name
        wanted = np.where(xs >= 0, xs, xs * np.float32(11 / 48)) if name == "rrelu" else xs
        np.testing.assert_allclose(value, wanted, 1e-6, err_msg=name)
    for name in ("alpha_dropout", "alpha_channels"):
        assert abs(first[name].mean()) < 0.1, name
        assert abs(first[name].std() - 1) < 0.05, name
    whole = first["alpha_channels"] == first["alpha_channels"][:, :, :1]
    assert {*whole.all(2).ravel()} == {True, False}
    assert abs((first["gaussian_dropout"] / xs).std() - 0.5) < 0.02
    assert abs((first["gaussian_noise"] - xs).std() - 0.5) < 0.02
    slopes = (first["rrelu"] / xs)[xs < 0]
    assert (slopes.min().round(3), slopes.max().round(3)) == (0.125, 0.333)
    for name, axes in (("channels", 2), ("examples", (1, 2))):
        kept = first[name] != 0
        assert (kept.all(axes) | ~kept.any(axes)).all()
        np.testing.assert_allclose(first[name][kept], (xs / np.float32(0.75))[kept], 1e-6)
        assert abs(kept.mean() - 0.75) < 0.2
    np.testing.assert_array_equal(first["grad"] != 0, first["channels"] != 0)


def test_noise_is_drawn_in_each_trip(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            step = net.add_input(x)
            together = br.layers.prelu(br.dropout(step, 0.5, shared_axes=1), axis=None)
            net.add_output(br.where(step > 0.0, br.layers.alpha_dropout(step, 0.5), together))
        (grad,) = br.gradients([br.sum(rnn())], [x])
    xs = np.tile(np.array([[1.0], [-1.0]], "f4"), (12, 1, 4))
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=1)
    got, slope = exe.run(prog, scope, {"x": xs}, [rnn(), grad])
    assert len({*got[:, 0].ravel().round(4)}) == 2
    assert len({tuple(step) for step in got[:, 0].tolist()}) > 4
    assert {*map(tuple, got[:, 1].tolist())} == {(-0.5,) * 4, (0.0,) * 4}
    np.testing.assert_array_equal(slope[:, 1] != 0, got[:, 1] != 0)


# ---- what is refused -------------------------------------------------------------------------


_var = br.get_variable


@pytest.mark.parametrize(
    ("build", "error", "what"),
    [
        (lambda x, n: br.dropout(x, 0.5, shared_axes=4), br.ShapeError, "dropout"),
        (lambda x, n: br.layers.alpha_dropout(x, 1.0), br.ProgramError, "expected a rate in"),
        (
            lambda x, n: br.layers.alpha_dropout(n, 0.5),
            br.DTypeError,
            "alpha_dropout: expected floats",
        ),
        (
            lambda x, n: br.layers.gaussian_dropout(x, -0.1),
            br.ProgramError,
            "expected a rate in",
        ),
        (
            lambda x, n: br.layers.gaussian_noise(n, 0.1),
            br.DTypeError,
            "gaussian_noise: expected floats",
        ),
        (
            lambda x, n: br.layers.rrelu(x, 0.5, 0.1),
            br.ProgramError,
            "low <= high, got 0.5 and 0.1",
        ),
        (
            lambda x, n: br.in_training(x, n),
            br.ShapeError,
            "in_training: expected two equal shapes",
        ),
        (
            lambda x, n: br.in_training(x, br.get_variable("m")),
            br.DTypeError,
            "inputs of equal dtype",
        ),
        (
            lambda x, n: br.layers.prelu(x, axis=2),
            br.ShapeError,
            "prelu needs a constant size",
        ),
        (lambda x, n: br.layers.prelu(x, [1.0, 2.0]), br.ShapeError, "multiply"),
        (
            lambda x, n: br.layers.maxout(x, 2),
            br.ShapeError,
            "maxout cannot divide 3 channels by 2",
        ),
        (lambda x, n: br.layers.channel_shuffle(x, 0), br.ShapeError, "3 channels by 0"),
        (
            lambda x, n: br.layers.depthwise_conv2d(x, 2, multiplier=0),
            br.ShapeError,
            "positive multiplier",
        ),
        (
            lambda x, n: br.layers.depthwise_conv1d(x, 2),
            br.ShapeError,
            "`x` in depthwise_conv1d",
        ),
        (
            lambda x, n: br.layers.separable_conv2d(x, x, 2),
            br.ShapeError,
            "expected a number of filters",
        ),
        (
            lambda x, n: br.layers.bilinear(x, x, x, init=0.0),
            br.ProgramError,
            "does not use init",
        ),
        (lambda x, n: br.layers.bilinear(x, n, 3), br.ShapeError, "einsum cannot broadcast"),
        (
            lambda x, n: br.layers.embedding_bag(n, [4, 2], mode="min"),
            br.ProgramError,
            "mode 'min'",
        ),
        (
            lambda x, n: br.layers.embedding_bag(n, [4, 2], weights=n),
            br.ProgramError,
            "'mean' with weights",
        ),
        (
            lambda x, n: br.layers.embedding_bag(n, [4, 2], mask=[True]),
            br.ShapeError,
            "mask= of the shape of the ids",
        ),
        (
            lambda x, n: br.layers.embedding_bag(n, [4, 2], mask=n),
            br.DTypeError,
            "a bool mask",
        ),
        (
            lambda x, n: br.layers.spectral_norm(_var("v")),
            br.ShapeError,
            "rank 2 or more",
        ),
        (
            lambda x, n: br.layers.spectral_norm(x, axis=1, iterations=0),
            br.ProgramError,
            "at least one iteration, got 0",
        ),
        (lambda x, n: br.layers.weight_norm(x, axis=1), br.ProgramError, "parameter, got `x`"),
        (
            lambda x, n: br.scan(lambda c, w: (c, br.layers.spectral_norm(w)), 0.0, x),
            br.ProgramError,
            "cannot update its state in an inner block",
        ),
    ],
)
def test_invalid_arguments_raise_errors_at_the_users_line(
    build: Callable[[Any, Any], Any], error: type[br.BracesError], what: str
) -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["b", 3, "h", 6]), br.data("n", ["b", 5], dtype="int32")
        br.data("m", ["b", 3, "h", 6], dtype="int32")
        br.data("v", [3])
        before = prog.to_bytes()
        with pytest.raises(error, match=what) as refused:
            build(x, n)
        assert prog.to_bytes() == before
    assert "test_torch_layers.py" in str(refused.value.at)
