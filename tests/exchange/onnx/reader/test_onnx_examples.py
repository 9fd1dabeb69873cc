"""Example values of a model's inputs: `br.from_onnx(model, inputs=...)`."""

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
