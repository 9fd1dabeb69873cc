"""Files in the form of old and other exporters, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

import braces as br
from tests.exchange.onnx.onnx_runtime import by_onnxruntime, by_us

pytestmark = pytest.mark.unoptimized

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], "f4")


def model(text: str, opset: int = 9, ir: int = 4) -> Any:
    return parser.parse_model(f'<ir_version: {ir}, opset_import: ["" : {opset}]> {text}')


def agree(found: Any, fed: Mapping[str, Any]) -> None:
    """Hold a model against ONNX Runtime, compiled and interpreted."""
    wanted = by_onnxruntime(found, fed)
    for mode in ("compile", "interpret"):
        for got, want in zip(by_us(found, fed, mode), wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5)


LAYER = """layer (float[N, 3] x) => (float[N, 2] y)
    <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {-1, 1}, int64[2] s = {0, -1}> {
    p = MatMul(x, w)
    q = Add(p, b)
    y = Reshape(q, s)
}"""


def test_initializers_that_are_inputs_too_are_no_feeds() -> None:
    found = model(LAYER, ir=3)
    for tensor in found.graph.initializer:
        entry = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        found.graph.input.append(entry)
    agree(found, {"x": X})
    prog, values = br.from_onnx(found)
    assert (prog.feeds, list(values)) == (("x",), ["w", "b"])


def test_initializers_that_are_inputs_may_stand_before_them() -> None:
    found = model(LAYER, ir=3)
    entries = [
        helper.make_tensor_value_info(one.name, one.data_type, one.dims)
        for one in found.graph.initializer
    ]
    entries += found.graph.input
    del found.graph.input[:]
    found.graph.input.extend(entries)
    agree(found, {"x": X})


def test_outputs_without_types_and_sizes_with_odd_names() -> None:
    found = model(LAYER.replace("N, 3", "N, 3"))
    found.graph.output[0].ClearField("type")
    found.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch size (0)"
    agree(found, {"x": X})
    found.graph.input[0].type.tensor_type.shape.dim[0].dim_param = ""
    agree(found, {"x": X})
    found.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    agree(found, {"x": X})


@pytest.mark.parametrize(
    ("text", "fed"),
    [
        (
            "g (float a, float[1] b) => (float[1] y, float z) { y = Mul(a, b) z = Exp(a) }",
            {"a": np.array(2, "f4"), "b": np.ones(1, "f4")},
        ),
        (
            """g (float[N, 3] x) => (float[1, 3] y, float[M, 3] z, int64[2] s, float[M, 3] e) {
                y = ReduceSum<axes = [0]>(x)
                z = Concat<axis = 0>(x, x)
                s = Shape(z)
                e = Exp(z)
            }""",
            {"x": np.zeros((0, 3), "f4")},
        ),
        (
            """g (float[2, 3] x) => (float[0, 3] y, float[2, 3] z) <float[0, 3] none = {}> {
                y = Slice<starts = [1], ends = [1]>(x)
                z = Concat<axis = 0>(x, none)
            }""",
            {"x": X},
        ),
        (
            """g (float[2, 0] a, float[0, 3] b) => (float[2, 3] y, float[2, 1] z) {
                y = MatMul(a, b)
                z = ReduceSum<axes = [1]>(a)
            }""",
            {"a": np.zeros((2, 0), "f4"), "b": np.zeros((0, 3), "f4")},
        ),
    ],
    ids=["scalars", "no rows", "an initializer of nothing", "a product of nothing"],
)
def test_scalars_and_arrays_of_nothing(text: str, fed: Mapping[str, Any]) -> None:
    agree(model(text), fed)


SPREAD = """g (float[N, 2] x) => (float[3, 2] y) {
    s = Constant<value = int64[2] {3, 2}>()
    y = Expand(x, s)
}"""
SQUEEZED = "g (float[N, 1, 2] x) => (float[N, 2] y) { y = Squeeze(x) }"


@pytest.mark.parametrize(("text", "shape"), [(SPREAD, (3, 2)), (SQUEEZED, (3, 1, 2))])
def test_a_size_of_1_that_would_change_the_result_is_said_by_the_run(
    text: str, shape: tuple[int, ...]
) -> None:
    agree(model(text), {"x": np.arange(6, dtype="f4").reshape(shape)})
    prog, _ = br.from_onnx(model(text))
    assert str(prog.var("y").type) in ("f32[3,2]", "f32[N,2]")
    one_row = np.ones((1, *shape[1:]), "f4")
    with pytest.raises(br.errors.RunError, match="differs from the shape of ensure_shape"):
        br.Executor().run(prog, br.Scope(), feed={"x": one_row}, fetch="y")


SHADOWED = """g (bool c, float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> {
    t = Mul(x, w)
    y = If (c) <
        then_branch = a () => (float[3] t2) <float[3] v = {4, 5, 6}> {
            s = Mul(t, v)
            t2 = Identity(s)
        },
        else_branch = b () => (float[3] t2) <float[3] v = {7, 8, 9}> {
            s = Sub(t, v)
            t2 = Neg(s)
        }
    >
}"""


@pytest.mark.parametrize("flag", [True, False])
def test_names_that_two_graphs_have_are_two_values(flag: bool) -> None:
    agree(model(SHADOWED), {"c": np.array(flag), "x": X[0]})


def test_the_inner_one_of_two_values_with_one_name_is_read() -> None:
    """ONNX forbids it, and ONNX Runtime refuses it; files have it, and mean the inner one."""
    found = model(SHADOWED.replace("t2", "r").replace("s =", "t =").replace("(s)", "(t)"))
    for flag, want in (
        (True, X[0] * [1, 2, 3] * [4, 5, 6]),
        (False, [7, 8, 9] - X[0] * [1, 2, 3]),
    ):
        (y,) = by_us(found, {"c": np.array(flag), "x": X[0]}, "interpret")
        np.testing.assert_allclose(y, want)


def test_nodes_and_graphs_without_names_and_outputs_that_nobody_wants() -> None:
    found = model(
        """g (float[2, 3] x) => (float[2, 2] v) <int64[1] k = {2}> {
            v, at = TopK(x, k)
            a, b, c = Split<axis = 1>(x)
            d = Clip<min = 0.0>(b)
        }""",
        opset=10,
    )
    agree(found, {"x": X})
    found.graph.name = found.graph.node[0].output[1] = found.graph.node[1].output[0] = ""
    (got,) = by_us(found, {"x": X}, "interpret")
    np.testing.assert_array_equal(got, [[3, 1], [4, 0.5]])


def test_one_value_is_two_outputs_and_an_input_is_one() -> None:
    found = model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }")
    found.graph.output.append(found.graph.input[0])
    wanted = [np.maximum(X, 0), X]
    for got, want in zip(by_us(found, {"x": X}, "interpret"), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


# ---- tensors ---------------------------------------------------------------------------------

FIELDS = {
    "float_data": ("FLOAT", "COMPLEX64"),
    "double_data": ("DOUBLE", "COMPLEX128"),
    "int64_data": ("INT64",),
    "uint64_data": ("UINT32", "UINT64"),
    "int32_data": (
        "INT32", "INT16", "INT8", "INT4", "INT2", "UINT16", "UINT8", "UINT4", "UINT2", "BOOL",
        "FLOAT16", "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
        "FLOAT8E5M2FNUZ", "FLOAT8E8M0", "FLOAT4E2M1",
    ),
}  # fmt: skip
"""The fields of the numbers of tensors, unless stored as bytes."""
NUMBERS = {"BOOL": [1, 0, 1], "INT2": [1, -2, 0], "UINT2": [1, 3, 0], "FLOAT8E8M0": [1, 2, 4]}


def numbers_of(name: str) -> Any:
    """Numbers that a dtype has."""
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    found = NUMBERS.get(name, [1, 6, 3] if name.startswith("U") else [1, -6, 3])
    return np.array(found).astype(dtype)


@pytest.mark.parametrize("raw", [False, True], ids=["fields", "bytes"])
def test_initializers_of_all_dtypes_as_bytes_and_as_numbers(raw: bool) -> None:
    graph = onnx.GraphProto(name="g")
    wanted = list[Any]()
    for field, names in FIELDS.items():
        for name in names:
            array, code = numbers_of(name), getattr(TensorProto, name)
            if raw:
                tensor = onnx.numpy_helper.from_array(array, f"w{name}")
            else:
                given = array.tolist() if array.dtype.kind in "biufc" else array.astype("f4")
                tensor = helper.make_tensor(f"w{name}", code, [3], given)
            assert len(getattr(tensor, "raw_data" if raw else field)) > 0
            graph.initializer.append(tensor)
            graph.node.append(helper.make_node("Identity", [tensor.name], [f"y{name}"]))
            graph.output.append(helper.make_tensor_value_info(f"y{name}", code, [3]))
            wanted.append(array)
    opset = [helper.make_opsetid("", onnx.defs.onnx_opset_version())]
    found = helper.make_model(graph, opset_imports=opset)
    for mode in ("compile", "interpret"):
        for got, want in zip(by_us(found, {}, mode), wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


def test_a_sparse_initializer_is_the_array_that_it_stands_for() -> None:
    found = model("g (float[2, 3] x) => (float[2, 2] y) { y = MatMul(x, w) }", opset=11, ir=6)
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [2.0, -1.0])
    places = helper.make_tensor("", TensorProto.INT64, [2], [1, 4])
    found.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [3, 2]))
    agree(found, {"x": X})
    _, weights = br.from_onnx(found)
    np.testing.assert_array_equal(weights["w"], [[0, 2], [0, 0], [-1, 0]])


@pytest.mark.parametrize(
    ("places", "shape"),
    [
        ([1, 9], [3, 2]),
        ([1, -1], [3, 2]),
        ([1, 2, 3], [3, 2]),
        ([1, 4], [1 << 40, 1 << 20]),
        ([1, 4], [-3, 2]),
        ([0, 0], [1] * 100),
    ],
)
def test_a_sparse_initializer_that_makes_no_sense_is_refused(places: Any, shape: Any) -> None:
    found = model("g (float[2, 3] x) => (float[2, 2] y) { y = MatMul(x, w) }", opset=11, ir=6)
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [2.0, -1.0])
    where = helper.make_tensor("", TensorProto.INT64, [len(places)], places)
    found.graph.sparse_initializer.append(helper.make_sparse_tensor(values, where, shape))
    with pytest.raises(br.errors.ProgramError, match="sparse tensor `w`"):
        br.from_onnx(found)
