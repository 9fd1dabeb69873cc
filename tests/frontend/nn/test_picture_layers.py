"""Image layers against PyTorch, in both layouts, and their errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

GIVEN = dict(np.load(Path(__file__).with_name("torch_pictures.npz")))
"""Written by scripts/torch_pictures.py."""
NAMES = ("x", "scale", "bias")
LAST = (0, 2, 3, 1)


def layers(x: Any, scale: Any, bias: Any, last: bool) -> dict[str, Any]:
    """Each layer, of channels that come first, or last and then first again."""
    layout: dict[str, Any] = {"layout": "NHWC"} if last else {}
    picture = br.permute_dims(x, LAST) if last else x

    def back(out: Any) -> Any:
        return br.permute_dims(out, (0, 3, 1, 2)) if last else out

    line, space = x[:, :, :, 0], br.expand_dims(x, axis=2)
    shuffled = br.image.pixel_shuffle(picture, 2, **layout)
    part = shuffled[:, :4, :6] if last else shuffled[:, :, :4, :6]
    return {
        "avg": back(br.layers.adaptive_avg_pool2d(picture, (3, 4), **layout)),
        "avg_even": back(br.layers.adaptive_avg_pool2d(picture, (None, 2), **layout)),
        "avg_line": br.layers.adaptive_avg_pool1d(line, 2),
        "avg_space": br.layers.adaptive_avg_pool3d(space, (1, 3, 2)),
        "max": back(br.layers.adaptive_max_pool2d(picture, (3, 4), **layout)),
        "max_line": br.layers.adaptive_max_pool1d(line, 4),
        "max_space": br.layers.adaptive_max_pool3d(space, (1, 2, 2)),
        "shuffle": back(shuffled),
        "unshuffle": back(br.image.pixel_unshuffle(part, 2, **layout)),
        "nearest": back(br.image.upsample(picture, 3, **layout)),
        "linear": back(br.image.upsample(picture, 2, "linear", **layout)),
        "corners": back(br.image.upsample(picture, 2, "linear", align_corners=True, **layout)),
        "cubic": back(br.image.upsample(picture, [2, 2], "cubic", **layout)),
        "instance": back(br.layers.instance_norm(picture, scale, bias, axis=3 if last else 1)),
        "mean": br.layers.global_avg_pool(picture, **layout),
        "largest": br.layers.global_max_pool(picture, **layout),
    }


@pytest.mark.unoptimized
def test_layers_of_pictures_and_their_gradients_are_those_of_torch(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4, 5, 6], dtype="float64")
        scale, bias = (br.data(name, [4], dtype="float64") for name in NAMES[1:])
        fetch: list[tuple[str, Any]] = []
        for last in (False, True):
            for name, out in layers(x, scale, bias, last).items():
                (grad,) = br.gradients([br.sum(br.sin(out))], [x])
                fetch += [(name, out), (f"{name}.grad", grad)]
    assert {name for name, _ in fetch} == {*GIVEN} - {*NAMES}
    feed = {name: GIVEN[name] for name in NAMES}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch=[var for _, var in fetch])
    for (name, _), value in zip(fetch, got, strict=True):
        np.testing.assert_allclose(value, GIVEN[name], rtol=1e-6, atol=1e-7, err_msg=name)


def test_pictures_are_pooled_in_steps_and_their_padding_reaches_nothing(mode: str) -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["t", "b", 2, 4, 3]), br.data("n", ["b"], dtype="int32")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            picture = net.add_input(x)
            pooled = br.layers.adaptive_avg_pool2d(
                br.layers.instance_norm(picture, name="norm"), [2, None]
            )
            net.add_output(br.layers.global_max_pool(pooled, keepdims=True))
        (grad,) = br.gradients([br.sum(rnn())], [x])
    xs = np.random.default_rng(0).normal(size=(3, 2, 2, 4, 3)).astype("f4")
    xs[1:, 1] = np.nan
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    feed = {"x": xs, "n": np.array([3, 1], "i4")}
    got, slope = exe.run(prog, scope, feed, fetch=[rnn(), grad])
    normal = (xs - xs.mean((-2, -1), keepdims=True)) / np.sqrt(
        xs.var((-2, -1), keepdims=True) + 1e-5
    )
    wanted = normal.reshape(3, 2, 2, 2, 2, 3).mean(-2).max((-2, -1), keepdims=True)
    np.testing.assert_allclose(got[:, 0], wanted[:, 0], rtol=1e-4, atol=1e-5)
    assert np.isfinite(slope).all()
    assert not slope[1:, 1].any()


def test_transposed_convolutions_make_the_weights_that_they_take(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [2, 4, 3, 3])
        last = br.permute_dims(x, LAST)
        first = br.layers.conv_transpose2d(
            x, 6, [3, 2], stride=2, groups=2, act="tanh", name="up"
        )
        w, b = br.get_variable("up.w"), br.get_variable("up.b")
        given = br.layers.conv_transpose2d(x, w, bias=b + 1.0, stride=2, groups=2)
        other = br.layers.conv_transpose2d(last, 6, 3, output_padding=1, stride=2, groups=2,
                                    layout="NHWC", bias=False, name="last")  # fmt: skip
    sizes = [str(prog.var(name).type) for name in ("up.w", "up.b", "last.w")]
    assert sizes == ["f32[4,3,3,2]", "f32[6]", "f32[3,3,3,4]"]
    assert str(other.type) == "f32[2,8,8,6]"
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope, seed=1)
    xs = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype("f4")
    left, right, kernel = exe.run(prog, scope, {"x": xs}, fetch=[first, given, w])
    wanted = np.zeros((2, 6, 7, 6), "f4")
    for h, i, j, k in np.ndindex(3, 3, 3, 2):
        for group in range(2):
            part = xs[:, 2 * group : 2 * group + 2, h, i] @ kernel[2 * group :, :, j, k][:2]
            wanted[:, 3 * group : 3 * group + 3, 2 * h + j, 2 * i + k] += part
    np.testing.assert_allclose(left, np.tanh(wanted), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(right, wanted + 1, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "error", "what"),
    [
        (
            lambda x: br.layers.adaptive_avg_pool2d(x, [1, 2, 3]),
            br.ShapeError,
            "expected 2 sizes",
        ),
        (lambda x: br.layers.adaptive_max_pool2d(x, 0), br.ShapeError, "2 sizes of at least 1"),
        (
            lambda x: br.layers.adaptive_avg_pool2d(x, [3, 2]),
            br.ShapeError,
            "to size 3 is unsupported",
        ),
        (
            lambda x: br.layers.adaptive_avg_pool1d(x, 2),
            br.ShapeError,
            "`x` in adaptive_avg_pool1d",
        ),
        (
            lambda x: br.layers.global_avg_pool(x, layout="NCH"),
            br.ShapeError,
            "`x` in global_avg_pool",
        ),
        (lambda x: br.image.upsample(x, 0), br.ProgramError, "2 factors of at least 1"),
        (lambda x: br.image.upsample(x, 2, "area"), br.ProgramError, "unsupported mode 'area'"),
        (lambda x: br.image.pixel_shuffle(x, 2), br.ShapeError, r"divisible by 2 \* 2, got 3"),
        (lambda x: br.image.pixel_unshuffle(x, 4), br.ShapeError, "divisible by 4"),
        (
            lambda x: br.layers.conv_transpose2d(x, 4, 3, groups=3),
            br.ShapeError,
            "4 filters into 3",
        ),
        (lambda x: br.layers.conv_transpose2d(x, 4), br.ShapeError, "needs a window size"),
        (
            lambda x: br.layers.instance_norm(x, axis=2),
            br.ShapeError,
            "instance_norm needs a constant size",
        ),
    ],
)
def test_invalid_arguments_raise_errors_at_the_users_line(
    build: Callable[[Any], Any], error: type[br.BracesError], what: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3, "h", 6])
        before = prog.to_bytes()
        with pytest.raises(error, match=what) as refused:
            build(x)
        assert prog.to_bytes() == before
    assert "test_picture_layers.py" in str(refused.value.at)
