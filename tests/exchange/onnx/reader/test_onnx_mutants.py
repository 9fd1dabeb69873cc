"""Models of ONNX made to hurt: each is refused with an error that says so, or is a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import braces as br
from braces.errors import BracesError, FileFormatError, ProgramError
from braces.exchange.onnx.reader import reader

FUZZ = Path(__file__).parents[4] / "scripts" / "fuzz_onnx.py"


def test_random_damage_is_refused_or_becomes_a_program() -> None:
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--count", "300", "--seed", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout


def model(body: str, *functions: str) -> Any:
    text = '<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>'
    return onnx.parser.parse_model(f"{text} graph {body} {' '.join(functions)}")


def refused(found: Any, kind: type[BracesError] = ProgramError) -> str:
    with pytest.raises(kind) as raised:
        br.from_onnx(found)
    return str(raised.value)


FUNCTION = """<domain: "mine", opset_import: ["" : 18, "mine" : 1]>
{name} (x) => (y) {{ a = mine.{calls}(x) y = mine.{calls}(a) }}"""


def test_functions_that_call_themselves_are_refused_at_once() -> None:
    found = model(
        "(float[2] x) => (float[2] y) { y = mine.first(x) }",
        FUNCTION.format(name="first", calls="second"),
        FUNCTION.format(name="second", calls="first"),
    )
    assert "function `first` is recursive" in refused(found)


def test_functions_that_double_their_nodes_again_and_again_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "MOST_NODES", 500)
    levels = [FUNCTION.format(name=f"f{i}", calls=f"f{i + 1}") for i in range(30)]
    last = FUNCTION.format(name="f30", calls="last").replace("mine.last", "Neg")
    found = model("(float[2] x) => (float[2] y) { y = mine.f0(x) }", *levels, last)
    assert "has more than 500 nodes" in refused(found)
    monkeypatch.setattr(reader, "MOST_NODES", 1 << 17)
    assert "has more than 131072 nodes" in refused(found)  # at once: none of them is read


@pytest.mark.parametrize(
    ("node", "word"),
    [
        ('y = Softmax<axis = "last">(x)', "Softmax: expected attribute `axis` of type int"),
        ("y = Relu(x, x)", "Relu: expected 1 inputs, got 2"),
        ("y = Cast(x)", "Cast: missing required attribute `to`"),
        ("y = Transpose<perm = [0, 7]>(x)", "Transpose"),
        ("y = Concat<axis = 5>(x, x)", "axis 5"),
    ],
)
def test_a_node_that_onnx_does_not_allow_is_named(node: str, word: str) -> None:
    assert word in refused(model(f"(float[2, 3] x) => (float[2, 3] y) {{ {node} }}"))


def test_an_attribute_that_the_operator_does_not_have_means_nothing() -> None:
    found = model('(float[2] x) => (float[2] y) { y = Relu<hint = "fast">(x) }')
    assert br.from_onnx(found)[0].fetches == ("y",)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    found = model("(float[2] xx) => (float[2] y) { y = Relu(xx) }").SerializeToString()
    (tmp_path / "m.onnx").write_bytes(found.replace(b"xx", b"\xff\xfe"))
    assert "is not UTF-8" in refused(tmp_path / "m.onnx", FileFormatError)


def test_a_tensor_that_does_not_hold_its_numbers_is_refused() -> None:
    found = model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    found.graph.initializer[0].dims[:] = [1 << 40]
    assert "does not match its shape" in refused(found)


@pytest.mark.parametrize("place", ["../w", "/etc/passwd", "", "w\0x", "."])
def test_weights_elsewhere_are_refused(place: str, tmp_path: Path) -> None:
    (tmp_path.parent / "w").write_bytes(bytes(8))
    found = model("(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    weights = found.graph.initializer[0]
    weights.CopyFrom(TensorProto(name="w", dims=[2], data_type=TensorProto.FLOAT))
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=place)
    onnx.save(found, tmp_path / "m.onnx")
    assert "external data of tensor `w`" in refused(tmp_path / "m.onnx", FileFormatError)


def test_a_row_of_numbers_too_long_to_write_down_is_refused() -> None:
    ends = [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in
            (("first", 0), ("last", 1 << 60), ("step", 1))]  # fmt: skip
    found = model("() => (int64[N] y) { y = Range(first, last, step) }")
    found.graph.initializer.extend(ends)
    assert "the range has more than" in refused(found)


def test_more_sizes_than_fit_into_memory_are_refused() -> None:
    found = model(
        "(float[2] x, int64[1099511627776] k) => (float[M] y, int64[M] i) { y, i = TopK(x, k) }"
    )
    assert "expected at most" in refused(found)


def test_long_axes_of_nothing_are_not_computed_while_reading() -> None:
    zeros = helper.make_tensor("nothing", TensorProto.INT64, [0, 1 << 40], [])
    found = model("() => (int64[1, M] y) { y = ReduceSum <keepdims = 1> (nothing, axis) }")
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [0])
    found.graph.initializer.extend([zeros, axis])
    prog, _ = br.from_onnx(found)
    assert str(prog.var("y").type) == "i64[1,1099511627776]"
