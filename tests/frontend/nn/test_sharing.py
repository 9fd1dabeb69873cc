"""Parameter sharing: `params=` of each layer lists its parameters, in one order."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.support.layer_examples import public_layers

pytestmark = pytest.mark.unoptimized

Layer = Callable[..., Any]

IMAGES, VECTORS = [4, 2, 5, 5], [4, 6]
LAYERS: dict[str, tuple[list[int], Layer]] = {
    "batch_norm": (VECTORS, lambda x, **given: br.batch_norm(x, **given)),
    "bilinear": (VECTORS, lambda x, **given: br.layers.bilinear(x, br.sin(x), 3, **given)),
    "conditional_random_field": (VECTORS, lambda x, **given: _tagged(x, **given)),
    "conv1d": ([4, 2, 5], lambda x, **given: br.conv1d(x, 3, 2, **given)),
    "conv2d": (IMAGES, lambda x, **given: br.conv2d(x, 3, 2, **given)),
    "conv3d": ([4, 2, 5, 5, 5], lambda x, **given: br.conv3d(x, 3, 2, **given)),
    "conv_lstm_cell": (IMAGES, lambda x, **given: _conv_lstm(x, **given)),
    "conv_transpose1d": (
        [4, 2, 5],
        lambda x, **given: br.layers.conv_transpose1d(x, 3, 2, **given),
    ),
    "conv_transpose2d": (
        IMAGES,
        lambda x, **given: br.layers.conv_transpose2d(x, 3, 2, **given),
    ),
    "conv_transpose3d": (
        [4, 2, 3, 3, 3],
        lambda x, **given: br.layers.conv_transpose3d(x, 3, 2, **given),
    ),
    "depthwise_conv1d": (
        [4, 2, 5],
        lambda x, **given: br.layers.depthwise_conv1d(x, 2, **given),
    ),
    "depthwise_conv2d": (IMAGES, lambda x, **given: br.layers.depthwise_conv2d(x, 2, **given)),
    "embedding": (VECTORS, lambda x, **given: br.embedding(_ids(x), [7, 3], **given)),
    "embedding_bag": (
        VECTORS,
        lambda x, **given: br.layers.embedding_bag(_ids(x), [7, 3], **given),
    ),
    "fc": (VECTORS, lambda x, **given: br.fc(x, 3, **given)),
    "group_norm": (IMAGES, lambda x, **given: br.group_norm(x, 2, **given)),
    "instance_norm": (IMAGES, lambda x, **given: br.layers.instance_norm(x, **given)),
    "gru_cell": (VECTORS, lambda x, **given: br.layers.gru_cell(x, br.sin(x), **given)),
    "layer_norm": (VECTORS, lambda x, **given: br.layer_norm(x, **given)),
    "lstm_cell": (
        VECTORS,
        lambda x, **given: br.layers.lstm_cell(x, [br.sin(x), x], **given)[0],
    ),
    "prelu": (IMAGES, lambda x, **given: br.layers.prelu(x, **given)),
    "rms_norm": (VECTORS, lambda x, **given: br.rms_norm(x, **given)),
    "simple_rnn_cell": (
        VECTORS,
        lambda x, **given: br.layers.simple_rnn_cell(x, br.sin(x), **given),
    ),
    "viterbi": (VECTORS, lambda x, **given: br.layers.viterbi(_scores(x), **given)[1]),
}
ROLES = {
    "batch_norm": ["scale", "bias", "mean", "var"],
    "conditional_random_field": ["transitions", "start", "end"],
    "conv_lstm_cell": ["w", "u", "b"],
    "embedding": ["w"],
    "embedding_bag": ["w"],
    "group_norm": ["scale", "bias"],
    "gru_cell": ["w", "u", "b", "b_reset"],
    "instance_norm": ["scale", "bias"],
    "layer_norm": ["scale", "bias"],
    "lstm_cell": ["w", "u", "b"],
    "prelu": ["slope"],
    "rms_norm": ["scale"],
    "simple_rnn_cell": ["w", "u", "b"],
    "viterbi": ["transitions", "start", "end"],
}
"""The order in which documentation says them; `w` and `b` for the rest."""
BLOCKS = {
    "conv_lstm",
    "gru",
    "lstm",
    "multi_head_attention",
    "separable_conv1d",
    "separable_conv2d",
    "simple_rnn",
    "transformer_decoder_layer",
    "transformer_encoder_layer",
}
"""Layers that are made of layers: plain blocks, which `br.shared` calls again."""
WITHOUT = {
    "AttentionCache",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "alpha_dropout",
    "attention_cache",
    "channel_shuffle",
    "ctc_greedy_decode",
    "ctc_loss",
    "dropout",
    "gaussian_dropout",
    "gaussian_noise",
    "global_avg_pool",
    "global_max_pool",
    "maxout",
    "pixel_shuffle",
    "pixel_unshuffle",
    "positional_encoding",
    "rotary_embedding",
    "rrelu",
    "scaled_dot_product_attention",
    "upsample",
}
"""The layers without parameters."""
OF_WEIGHTS = {"spectral_norm", "weight_norm"}
"""The layers with weights; `test_torch_layers.py` shares them."""
by_layer = pytest.mark.parametrize("layer", LAYERS)


def _ids(x: Any) -> Any:
    return br.cast(br.abs(x) * 2.0, "int32") % 7


def _conv_lstm(x: Any, **given: Any) -> Any:
    return br.layers.conv_lstm_cell(x, (br.sin(x), x), 3, **given)[0]


def _scores(x: Any) -> Any:
    return br.reshape(x, [4, 2, 3])


def _tagged(x: Any, **given: Any) -> Any:
    labels = br.argmin(_scores(x), axis=-1)
    return br.layers.conditional_random_field(_scores(x), labels, reduction="none", **given)


def roles_of(layer: str) -> list[str]:
    return ROLES.get(layer, ["w", "b"])


def test_every_layer_with_parameters_is_tested_here() -> None:
    assert {*LAYERS, *BLOCKS, *WITHOUT, *OF_WEIGHTS} == {*public_layers()}


@by_layer
def test_a_layer_used_twice_has_its_parameters_once_and_sums_its_gradients(layer: str) -> None:
    shape, build = LAYERS[layer]
    names = [f"one.{role}" for role in roles_of(layer)]
    with br.Program() as program:
        x, y = br.data("x", shape), br.data("y", shape)
        first = build(x, name="one")
        assert [info.name for info in program.persistables] == names
        second = build(y, params=names)
        assert [info.name for info in program.persistables] == names
        losses = [br.sum(first * first * first), br.sum(br.sin(second))]
        trained = [program.var(info.name) for info in program.parameters]
        apart = [br.gradients([loss], trained) for loss in losses]
        both = br.gradients([losses[0] + losses[1]], trained)
    rng, scope = np.random.default_rng(1), br.Scope()
    br.Executor().init(program, scope, seed=3)
    for info in program.parameters:  # a bias that is 0 makes some gradients 0
        value = scope.var(info.name).value
        scope.var(info.name).set((value + rng.normal(size=value.shape)).astype(value.dtype))
    feed = {name: rng.normal(size=shape).astype("float32") for name in ("x", "y")}
    for mode in ("interpret", "compile"):
        found = br.Executor(mode=mode).run(
            br.Program.from_bytes(program.to_bytes()),
            scope,
            feed=feed,
            fetch=[g.name for group in (both, *apart) for g in group],
        )
        count = len(trained)
        groups = found[:count], found[count : 2 * count], found[2 * count :]
        for whole, left, right in zip(*groups, strict=True):
            assert np.any(left)
            assert np.any(right)
            np.testing.assert_allclose(whole, left + right, rtol=1e-3, atol=1e-3)


@by_layer
def test_a_layer_makes_the_parameters_that_are_not_there(layer: str) -> None:
    shape, build = LAYERS[layer]
    names = [f"my_{role}" for role in roles_of(layer)]
    with br.Program() as program:
        build(br.data("x", shape), params=names)
    assert [info.name for info in program.persistables] == names


@by_layer
def test_the_advice_of_a_name_that_is_taken_can_be_followed(layer: str) -> None:
    shape, build = LAYERS[layer]
    with br.Program() as program:
        x = br.data("x", shape)
        build(x, name="one")
        before = len(program.persistables)
        with pytest.raises(
            br.DuplicateNameError, match=r"@br\.shared.*instead of the name"
        ) as refused:
            build(x, name="one")
        advised = re.search(r"params=(\[.*?\])", str(refused.value))
        assert advised is not None
        build(x, params=ast.literal_eval(advised[1]))
    assert len(program.persistables) == before


@by_layer
@pytest.mark.parametrize("params", ["one", [], ["a", "b", "c", "d", "e"], [1, 2, 3, 4]])
def test_names_that_do_not_fit_are_refused_with_what_they_are_for(
    layer: str, params: Any
) -> None:
    shape, build = LAYERS[layer]
    with br.Program() as program:
        x = br.data("x", shape)
        with pytest.raises(br.ProgramError, match=", ".join(roles_of(layer))):
            build(x, params=params)
    assert not program.persistables


@by_layer
def test_parameters_of_other_sizes_are_not_shared(layer: str) -> None:
    shape, build = LAYERS[layer]
    with br.Program():
        x = br.data("x", shape)
        names = [f"small_{role}" for role in roles_of(layer)]
        for name in names:
            br.parameter(name, [1] if layer not in ("fc",) else [2])
        with pytest.raises(br.ShapeError, match="small_"):
            build(x, params=names)


# ---- running statistics ----------------------------------------------------------------------


def shared_norms(momentum: float) -> tuple[Any, list[Any]]:
    with br.Program() as program:
        outs = [br.batch_norm(br.data("x0", ["b", 2]), name="norm", momentum=momentum)]
        for i in (1, 2):
            names = [info.name for info in program.persistables]
            x = br.data(f"x{i}", ["b", 2])
            outs.append(br.batch_norm(x, params=names, momentum=momentum))
    return program, outs


@pytest.mark.parametrize("mode", ["interpret", "compile"])
@pytest.mark.parametrize("momentum", [0.9, 0.25])
def test_shared_statistics_move_once_for_each_layer_and_are_committed_once(
    mode: Any, momentum: float
) -> None:
    program, outs = shared_norms(momentum)
    scope, exe, rng = br.Scope(), br.Executor(mode=mode), np.random.default_rng(0)
    exe.init(program, scope)
    mean, var = np.zeros(2), np.ones(2)
    for _ in range(2):
        feed = {f"x{i}": rng.normal(i, 1 + i, [5, 2]).astype("float32") for i in range(3)}
        found = exe.run(program, scope, feed=feed, fetch=outs)
        for value, x in zip(found, feed.values(), strict=True):
            wanted = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)
            mean = momentum * mean + (1 - momentum) * x.mean(0)
            var = momentum * var + (1 - momentum) * x.var(0)
        np.testing.assert_allclose(scope.var("norm.mean").value, mean, rtol=1e-5)
        np.testing.assert_allclose(scope.var("norm.var").value, var, rtol=1e-5)


def test_one_of_the_layers_that_share_statistics_is_tested_without_the_others() -> None:
    program, outs = shared_norms(0.9)
    scope, exe = br.Scope(), br.Executor()
    exe.init(program, scope)
    scope.var("norm.mean").set(np.float32([1, 2]))
    small = br.prune(br.for_test(program), [outs[2]])
    (found,) = exe.run(small, scope, feed={"x2": np.float32([[3, 4]])}, fetch=[outs[2].name])
    np.testing.assert_allclose(found, [[2, 2]], rtol=1e-4)


def test_a_scale_and_a_bias_are_shared_without_the_statistics() -> None:
    with br.Program() as program:
        x = br.data("x", ["b", 2])
        br.batch_norm(x, name="one")
        br.batch_norm(x * 2.0, params=["one.scale", "one.bias"], name="two")
    assert [info.name for info in program.persistables] == [
        *("one.scale", "one.bias", "one.mean", "one.var", "two.mean", "two.var"),
    ]
    assert set(program.updates) == {"one.mean", "one.var", "two.mean", "two.var"}


def test_statistics_are_not_shared_with_what_does_not_outlive_a_run() -> None:
    with br.Program():
        x = br.data("x", ["b", 2])
        br.constant([0.0, 0.0])
        names = ["s", "b", x.name, x.name]
        with pytest.raises(br.ProgramError, match="`x`: it is not persistable"):
            br.batch_norm(x, params=names)
