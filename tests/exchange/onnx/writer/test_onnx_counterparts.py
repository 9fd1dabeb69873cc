"""Operators with a counterpart of ONNX: one node, the same values, and the operator again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import braces as br
from tests.support.onnx_round_trip import function_of, run_model

pytestmark = pytest.mark.unoptimized

POINTS = np.array([
    0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 20.0, -20.0, 88.0, -88.0, 1e-20, -1e-20,
    1e20, -1e20, np.inf, -np.inf, np.nan,
], np.float32)  # fmt: skip
FUNCTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "celu": ("Celu", {"alpha": 0.5}),
    "clip": ("Clip", {"min": -1.0, "max": 2.0}),
    "elu": ("Elu", {"alpha": 0.5}),
    "gelu": ("Gelu", {"approximate": True}),
    "hard_sigmoid": ("HardSigmoid", {}),
    "hard_swish": ("HardSwish", {}),
    "leaky_relu": ("LeakyRelu", {"negative_slope": 0.2}),
    "mish": ("Mish", {}),
    "selu": ("Selu", {}),
    "softplus": ("Softplus", {}),
    "softsign": ("Softsign", {}),
}
"""Each function with its ONNX operator and attributes."""
Layer = Callable[[br.Var], br.Var]


def nodes(path: Path) -> list[str]:
    """The operators of a model and of its functions, without constants."""
    model = onnx.load(path)
    groups = [model.graph.node, *(function.node for function in model.functions)]
    own = {function.name for function in model.functions}
    found = (node.op_type for group in groups for node in group)
    return [name for name in found if name != "Constant" and name not in own]


def types(program: br.Program) -> list[str]:
    """The operators of a program, without constants."""
    return [op.type for op in program.definition.main.ops if op.type != "constant"]


def exported(
    layer: Layer, shape: Any, folder: Path, dtype: str = "float32", **options: Any
) -> tuple[br.Program, br.Scope, br.Var, Path]:
    """A layer as a model."""
    with br.Program() as program:
        out = layer(br.data("x", shape, dtype=dtype))
    scope = br.Executor(mode="interpret").init(program, br.Scope(), seed=3)
    path = folder / "model.onnx"
    br.to_onnx(program, path, scope=scope, fetches=out, **options)
    return program, scope, out, path


def check(made: Any, x: Any, tolerance: float = 1e-5) -> None:
    """The model gives the same in ONNX Runtime, and after its import."""
    program, scope, out, path = made
    exe = br.Executor(mode="interpret")
    want = exe.run(program.for_test(), scope, {"x": x}, fetch=out)
    (got,) = run_model(path, {"x": x}).values()
    again, values = br.from_onnx(path)
    loaded = br.Scope()
    loaded.update(values)
    (back,) = exe.run(again, loaded, {"x": x}, fetch=list(again.fetches))
    assert got.dtype == back.dtype == want.dtype
    for found in (got, back):
        pair = (np.asarray(each, "float64") for each in (found, want))
        np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance)


def layer_of(name: str, attrs: Mapping[str, Any]) -> Layer:
    """A function with attributes."""
    return lambda x: function_of(name)(x, **attrs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_one_node_and_the_same_function_again(name: str, tmp_path: Path) -> None:
    kind, attrs = FUNCTIONS[name]
    made = exported(layer_of(name, attrs), ["batch"], tmp_path)
    assert nodes(made[-1]) == [kind]
    check(made, POINTS)
    again, _ = br.from_onnx(made[-1])
    (op,) = (op for op in again.definition.main.ops if op.type == name)
    for attr, value in attrs.items():
        assert op.attrs[attr] == pytest.approx(value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision_is_computed_by_the_same_node(name: str, tmp_path: Path) -> None:
    kind, attrs = FUNCTIONS[name]
    made = exported(layer_of(name, attrs), ["batch"], tmp_path, "float16")
    assert set(nodes(made[-1])) - {"Cast"} == {kind}
    check(made, POINTS[np.abs(POINTS) < 100].astype("float16"), 2e-3)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"clip"}))
def test_float64_is_composed_of_nodes_that_onnx_runtime_has(name: str, tmp_path: Path) -> None:
    kind, attrs = FUNCTIONS[name]
    made = exported(layer_of(name, attrs), ["batch"], tmp_path, "float64")
    assert kind not in nodes(made[-1])
    check(made, POINTS[np.isfinite(POINTS)].astype("float64"), 1e-12)


def test_integers_are_computed_as_floats(tmp_path: Path) -> None:
    made = exported(br.gelu, ["batch"], tmp_path, "int32")
    assert nodes(made[-1]) == ["Cast", "Gelu"]
    check(made, np.arange(-3, 4, dtype="int32"))


LAYERS: Mapping[str, tuple[Layer, list[Any], list[str], str]] = {
    "layer norm": (br.layer_norm, ["b", "t", 6], ["LayerNormalization"], "layer_norm"),
    "layer norm over two axes": (
        lambda x: br.layer_norm(x, axis=(1, 2)), ["b", 4, 6], ["LayerNormalization"],
        "layer_norm",
    ),
    "layer norm without parameters": (
        lambda x: br.layer_norm(x, scale=False, bias=False), ["b", 6], ["LayerNormalization"],
        "layer_norm",
    ),
    "instance norm": (
        br.layers.instance_norm, ["b", 4, "h", "w"], ["InstanceNormalization"], "group_norm",
    ),
    "batch norm": (br.batch_norm, ["b", 4, "h"], ["BatchNormalization"], "batch_norm"),
    "logsumexp": (
        lambda x: br.logsumexp(x, axis=1), ["b", 4], ["ReduceLogSumExp"], "logsumexp",
    ),
    "norm": (lambda x: br.linalg.norm(x, axis=-1), ["b", 4], ["ReduceL2"], "norm"),
    "mean of images": (
        lambda x: br.mean(x, axis=(2, 3), keepdims=True), ["b", 3, "h", "w"],
        ["GlobalAveragePool"], "mean",
    ),
    "convolution": (
        lambda x: br.conv2d(x, 6, 3, stride=2, padding=(0, 1, 1, 2), groups=2),
        ["b", 4, "h", "w"], ["Conv"], "conv2d",
    ),
    "same convolution": (
        lambda x: br.conv1d(x, 6, 4, padding="same"), ["b", 4, "t"], ["Conv"], "conv1d",
    ),
    "dilated convolution": (
        lambda x: br.conv3d(x, 2, 2, dilation=2), ["b", 1, 5, 5, "d"], ["Conv"], "conv3d",
    ),
    "transposed convolution": (
        lambda x: br.layers.conv_transpose2d(
            x, 6, 3, stride=2, padding=(0, 1, 1, 2), output_padding=1, dilation=(1, 2), groups=2
        ),
        ["b", 4, "h", "w"], ["ConvTranspose"], "conv_transpose2d",
    ),
    "transposed convolution of a line": (
        lambda x: br.layers.conv_transpose1d(x, 3, 2, stride=3, bias=False), ["b", 4, "t"],
        ["ConvTranspose"], "conv_transpose1d",
    ),
    "upper triangle": (lambda x: br.triu(x, k=-1), ["b", 4, "m"], ["Trilu"], "triu"),
    "lower triangle": (lambda x: br.tril(x, k=1), ["b", 4, "m"], ["Trilu"], "tril"),
    "max pool": (
        lambda x: br.max_pool2d(x, window=3, stride=2, padding=1), ["b", 3, "h", "w"],
        ["MaxPool"], "max_pool2d",
    ),
    "average pool": (
        lambda x: br.avg_pool2d(x, window=(2, 3), padding=1), ["b", 3, "h", "w"],
        ["AveragePool"], "avg_pool2d",
    ),
    "average pool of padding": (
        lambda x: br.avg_pool1d(x, window=3, padding=1, count_include_pad=True),
        ["b", 3, "t"], ["AveragePool"], "avg_pool1d",
    ),
}  # fmt: skip
"""A layer, its shape, its ONNX operators, and the operator after the import."""


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_one_node_and_the_same_operator_again(name: str, tmp_path: Path) -> None:
    layer, shape, kinds, op_type = LAYERS[name]
    made = exported(layer, shape, tmp_path)
    assert nodes(made[-1]) == kinds
    rng = np.random.default_rng(0)
    sizes = [size if isinstance(size, int) else 7 for size in shape]
    for size in (2, 1):
        check(made, rng.normal(3, 2, [size, *sizes[1:]]).astype("float32"))
    again, _ = br.from_onnx(made[-1])
    assert op_type in types(again)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float64"])
def test_triangles_and_parts_of_all_dtypes_are_one_node(dtype: str, tmp_path: Path) -> None:
    def layer(x: br.Var) -> br.Var:
        first, second = br.split(x, [1, 3], axis=-1)
        return br.concat([br.triu(second, k=1), first], axis=-1)

    made = exported(layer, ["b", "n", 4], tmp_path, dtype)
    assert [kind for kind in nodes(made[-1]) if kind != "Cast"] == ["Split", "Trilu", "Concat"]
    for shape in ((2, 3, 4), (0, 3, 4), (2, 0, 4)):
        x = (np.arange(np.prod(shape)).reshape(shape) % 3).astype(dtype)
        check(made, x)


def test_special_values_are_found_by_one_node(tmp_path: Path) -> None:
    for function, kind in ((br.isnan, "IsNaN"), (br.isinf, "IsInf")):
        made = exported(function, ["batch"], tmp_path)
        assert nodes(made[-1]) == [kind]
        check(made, POINTS)
        check(exported(function, ["batch"], tmp_path, "int32"), np.arange(3, dtype="int32"))


def test_channels_last_are_moved_to_the_front(tmp_path: Path) -> None:
    def layer(x: br.Var) -> br.Var:
        h = br.conv2d(x, 4, 3, padding="same", layout="NHWC")
        h = br.group_norm(br.batch_norm(h, axis=-1), 2, axis=-1)
        return br.max_pool2d(h, window=2, layout="NHWC")

    made = exported(layer, ["b", "h", "w", 3], tmp_path)
    found = nodes(made[-1])
    assert {"Conv", "BatchNormalization", "InstanceNormalization", "MaxPool"} <= set(found)
    rng = np.random.default_rng(1)
    check(made, rng.normal(size=(2, 6, 8, 3)).astype("float32"))


@pytest.mark.parametrize("groups", [1, 2])
def test_a_group_norm_keeps_its_digits_at_large_means(groups: int, tmp_path: Path) -> None:
    made = exported(lambda x: br.group_norm(x, groups), ["b", 4, "t"], tmp_path)
    assert "InstanceNormalization" in nodes(made[-1])
    rng = np.random.default_rng(2)
    check(made, rng.normal(1000, 1, (3, 4, 64)).astype("float32"), 1e-3)


def test_a_batch_norm_in_training_is_composed(tmp_path: Path) -> None:
    with br.Program() as program:
        out = br.batch_norm(br.data("x", ["b", 3]))
    scope = br.Executor(mode="interpret").init(program, br.Scope())
    path = tmp_path / "model.onnx"
    br.to_onnx(program, path, scope=scope, fetches=out, updates=True)
    assert "BatchNormalization" not in nodes(path)


# ---- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "opset", "kind", "op_type"),
    [(br.rms_norm, 23, "RMSNormalization", "rms_norm"), (br.silu, 24, "Swish", "silu")],
)
def test_a_newer_version_has_more_operators(
    layer: Layer, opset: int, kind: str, op_type: str, tmp_path: Path
) -> None:
    x = np.random.default_rng(3).normal(size=(3, 6)).astype("float32")
    made = exported(layer, ["b", 6], tmp_path, opset=opset)
    assert nodes(made[-1]) == [kind]
    (version,) = onnx.load(made[-1]).opset_import
    assert version.version == opset
    check(made, x)
    assert op_type in types(br.from_onnx(made[-1])[0])
    made = exported(layer, ["b", 6], tmp_path, opset=opset - 1)
    assert kind not in nodes(made[-1])
    check(made, x)


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(br.ProgramError, match=r"version 20\b.*\n.*\n?.*21 to 24"):
        exported(br.relu, ["b"], tmp_path, opset=20)


def test_the_functions_of_a_model_have_its_version(tmp_path: Path) -> None:
    def layer(x: br.Var) -> br.Var:
        with br.block("norm"):
            return br.rms_norm(x)

    made = exported(layer, ["b", 6], tmp_path, opset=23)
    model = onnx.load(made[-1])
    versions = [
        entry.version for f in model.functions for entry in f.opset_import if not entry.domain
    ]
    assert versions == [23] * len(model.functions) != []
    check(made, np.ones((2, 6), "float32"))


# ---- whole nets ------------------------------------------------------------------------------


def test_a_transformer_has_few_nodes(tmp_path: Path) -> None:
    def layer(x: br.Var) -> br.Var:
        h = x + br.multi_head_attention(br.layer_norm(x), 2)
        return h + br.fc(br.gelu(br.fc(br.layer_norm(h), 16)), 8)

    made = exported(layer, ["b", 5, 8], tmp_path)
    found = nodes(made[-1])
    assert found.count("LayerNormalization") == 2
    assert found.count("Gelu") == 1
    assert len(found) < 45
    check(made, np.random.default_rng(4).normal(size=(2, 5, 8)).astype("float32"))
