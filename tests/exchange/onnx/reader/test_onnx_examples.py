"""Examples and constants of inputs: `br.from_onnx(model, inputs=..., constants=...)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import braces as br

TEXT = """<ir_version: 10, opset_import: ["" : 18]>
reshape (float[N, 3] x, int64[2] s, float[M] unused) => (float[A, B] y)
<float[1] w = {1}> { y = Reshape(x, s) }"""
X, SHAPE = np.ones((2, 3), "float32"), np.array([3, 2])


def reshape() -> Any:
    return onnx.parser.parse_model(TEXT)


@pytest.mark.parametrize(
    "inputs",
    [
        {"s": SHAPE},
        {"s": [3, 2]},
        [None, SHAPE],
        [X, SHAPE],
        (X, [3, 2], np.ones(4, "float32")),
        [None, SHAPE.astype("int32")],
    ],
    ids=str,
)
def test_examples_are_given_by_name_or_in_order(inputs: Any) -> None:
    prog, _ = br.from_onnx(reshape(), inputs=inputs)
    assert prog.feeds == ("x", "unused")
    assert str(prog.var("y").type) == "f32[3,2]"


def test_initializers_that_are_inputs_too_are_not_in_the_order() -> None:
    proto = reshape()
    entry = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [1])
    proto.graph.input.insert(0, entry)
    prog, _ = br.from_onnx(proto, inputs=[None, SHAPE])
    assert str(prog.var("y").type) == "f32[3,2]"


@pytest.mark.parametrize(
    ("inputs", "error", "says"),
    [
        ([X, SHAPE, X[0], X], br.ProgramError, "4 examples; the model has 3 inputs"),
        (SHAPE, br.ProgramError, "expected a list or a mapping as `inputs`"),
        ("s", br.ProgramError, "the inputs of the model: `x`, `s`, `unused`"),
        ({"t": SHAPE}, br.UnknownNameError, "unknown input `t`"),
        ([None, [3.5, 2.5]], br.FeedError, "cannot convert the feed `s` to i64\\[2\\]"),
        ({"s": [[3], [1, 2]]}, br.FeedError, "cannot convert the feed `s`"),
        ({"x": "text"}, br.FeedError, "expected an array for the feed `x`, got str"),
        ({"s": 6}, br.ShapeError, "`s` has rank 0; expected 1"),
    ],
    ids=str,
)
def test_examples_that_do_not_fit_are_refused(inputs: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        br.from_onnx(reshape(), inputs=inputs)


def test_an_example_of_a_sequence_is_a_list() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
    join (seq(float[N]) xs) => (float[M] y) { y = ConcatFromSequence <axis = 0> (xs) }""")
    prog, _ = br.from_onnx(proto, inputs=[[X[0], X[1]]])
    assert prog.feeds == ("xs.0", "xs.1")
    with pytest.raises(br.FeedError, match="a list as the example of sequence input `xs`"):
        br.from_onnx(proto, inputs={"xs": X})


# ---- constants -------------------------------------------------------------------------------

RATES = """<ir_version: 10, opset_import: ["" : 18]>
hear (float[A, B] x, int64 rate) => (float[M] y)
<int64 high = {16}, int64[1] all = {-1}, float[4, 1] w4 = {1, 2, 3, 4}, float[2, 1] w2 = {5, 6}>
{
    wide = Equal(rate, high)
    y = If(wide) <
        then_branch = four () => (float[M] a) { p = MatMul(x, w4)  a = Reshape(p, all) },
        else_branch = two () => (float[M] b) { q = MatMul(x, w2)  b = Reshape(q, all) }>
}"""


def outside(prog: br.Program, columns: int) -> br.Program:
    """A program with a fixed frame that calls the imported one."""
    with br.Program() as host:
        frame = br.data("frame", [1, columns])
        rest = [br.data("rate", [], "int64")][len(prog.feeds) < 2 :]
        host.give(br.call(prog, frame, *rest, name="net").name)
    return host


@pytest.mark.parametrize(("rate", "columns", "wanted"), [(16, 4, 10.0), (8, 2, 11.0)])
def test_a_constant_condition_leaves_one_branch_with_sizes_of_its_own(
    rate: int, columns: int, wanted: float, mode: str
) -> None:
    prog, values = br.from_onnx(onnx.parser.parse_model(RATES), constants={"rate": rate})
    assert prog.feeds == ("x",)
    assert list(values) == [f"w{columns}"]
    assert not prog.find(type="switch")
    host, scope = outside(prog, columns), br.Scope()
    scope.update(values, prefix="net/")
    feed = {"frame": np.ones((1, columns), "float32")}
    (found,) = br.Executor(mode=mode).run(host, scope, feed)
    assert found.tolist() == [wanted]


def test_a_call_with_sizes_for_one_branch_names_the_constant() -> None:
    prog, _ = br.from_onnx(onnx.parser.parse_model(RATES))
    with pytest.raises(br.ShapeError, match=r"from_onnx\(model, constants=") as caught:
        outside(prog, 4)
    assert "Pass a symbolic size" in str(caught.value)
    only, _ = br.from_onnx(onnx.parser.parse_model(RATES), constants={"rate": 16})
    assert str(outside(only, 4).find(type="matmul")[0].outputs[0].type) == "f32[1,1]"


@pytest.mark.parametrize(
    ("constants", "error", "says"),
    [
        ({"rates": 16}, br.UnknownNameError, "unknown input `rates`"),
        ({"rate": [16]}, br.ShapeError, "`rate` has rank 1; expected 0"),
        ({"rate": 0.5}, br.FeedError, "cannot convert the feed `rate`"),
        ([None, 16], br.ProgramError, "expected a mapping for `constants`"),
        ({"rate": 16}, br.ProgramError, "`rate` is both in `inputs` and in `constants`"),
    ],
    ids=str,
)
def test_constants_that_do_not_fit_are_refused(constants: Any, error: Any, says: str) -> None:
    inputs = {"rate": 16} if "both" in says else None
    with pytest.raises(error, match=says):
        br.from_onnx(onnx.parser.parse_model(RATES), inputs=inputs, constants=constants)
