"""Models of ONNX as programs: names, sizes, parameters, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import braces as br

pytestmark = pytest.mark.unoptimized


def model(text: str, version: int = 18) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {version}]> {text}')


LAYER = """layer (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
    product = MatMul(x, w)
    y = Relu(product)
}"""


def run(found: Any, fed: dict[str, Any], **options: Any) -> list[Any]:
    prog, values = br.from_onnx(found, **options)
    feed = dict(zip(prog.feeds, fed.values(), strict=True))
    return br.testing.assert_modes_agree(prog, feed, list(prog.fetches), values=values)


def test_quotients_of_sizes_as_floats_are_not_cut_off() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]>
        mean (float[N, 3] x) => (float[N, 3] y) {
            shape = Shape <start = 0, end = 1> (x)
            count = Cast <to = 1> (shape)
            one = Constant <value = float {1.0}> ()
            part = Div (one, count)
            y = Mul (x, part)
        }"""
    prog, _ = br.from_onnx(onnx.parser.parse_model(text))
    x = np.ones((4, 3), "f4")
    (found,) = br.Executor(mode="interpret").run(prog, br.Scope(), feed={"x": x}, fetch=["y"])
    np.testing.assert_array_equal(found, x / 4)


def test_values_and_sizes_keep_their_names() -> None:
    prog, values = br.from_onnx(model(LAYER))
    assert (prog.feeds, prog.fetches, list(values)) == (("x",), ("y",), ["w"])
    assert str(prog.var("product").type) == "f32[N,2]"
    assert prog.var("w").info.trainable


def test_a_model_that_was_read_trains_at_once() -> None:
    prog, values = br.from_onnx(model(LAYER))
    scope, exe = br.Scope(), br.Executor()
    scope.update(values)
    with prog:
        loss = br.mean(br.square(prog.var("y") - 1.0))
        br.optimizer.sgd(0.01).minimize(loss)
    exe.init(prog, scope)
    np.testing.assert_array_equal(scope.get_var("w").value, values["w"])
    feed = {"x": np.ones((4, 3), "float32")}
    losses = [exe.run(prog, scope, feed=feed, fetch=loss) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_sizes_that_shapes_compute_are_no_operators() -> None:
    prog, _ = br.from_onnx(
        model("""flat (float[N, 3, 4] x) => (float[N, 12] y) {
            shape = Shape(x)
            zero = Constant<value = int64[1] {0}>()
            batch = Gather(shape, zero)
            rest = Constant<value = int64[1] {-1}>()
            wanted = Concat<axis = 0>(batch, rest)
            y = Reshape(x, wanted)
        }""")
    )
    assert [op.type for op in prog.block(0).ops] == ["reshape"]


PAIRS = """pairs (float[N, M] x) => (float[K, 2, 4] y) {
    wanted = Constant<value = int64[3] {-1, 2, 4}>()
    y = Reshape(x, wanted)
}"""


def test_sizes_that_only_sensible_inputs_have_are_looked_at_in_the_run() -> None:
    (y,) = run(model(PAIRS), {"x": np.arange(16, dtype="float32").reshape(2, 8)})
    assert y.shape == (2, 2, 4)
    prog, _ = br.from_onnx(model(PAIRS))
    with pytest.raises(br.errors.RunError, match="pairs:2"):
        br.Executor().run(prog, br.Scope(), feed={"x": np.ones((3, 3), "float32")}, fetch="y")


def test_a_size_can_be_fixed() -> None:
    prog, _ = br.from_onnx(model(LAYER), sizes={"N": 4})
    assert str(prog.var("y").type) == "f32[4,2]"


@pytest.mark.parametrize(
    ("options", "word"), [({"sizes": {"M": 1}}, "M"), ({"inputs": {"z": [1.0]}}, "z")]
)
def test_a_name_that_the_model_has_not_is_refused(options: Any, word: str) -> None:
    with pytest.raises(br.errors.UnknownNameError, match=word):
        br.from_onnx(model(LAYER), **options)


SQUEEZED = """squeezed (float[N, M] x) => (float[N] y) {
    last = Constant<value = int64[1] {1}>()
    y = Squeeze(x, last)
}"""

ASKED = """asked (float[N, M] x) => (y) {
    shape = Shape(x)
    last = Constant<value = int64[1] {1}>()
    found = Gather(shape, last)
    single = Equal(found, last)
    flat = If (single) <
        then_branch = yes () => (a) { a = Squeeze(x, last) },
        else_branch = no () => (b) { b = Identity(x) }
    >
    y = Exp(flat)
}"""


@pytest.mark.parametrize(("text", "function"), [(SQUEEZED, np.positive), (ASKED, np.exp)])
def test_an_axis_that_is_squeezed_has_the_size_1_in_a_run(text: str, function: Any) -> None:
    x = np.array([[0.5], [2.0]], "float32")
    (y,) = run(model(text), {"x": x})
    np.testing.assert_allclose(y, function(x[:, 0]), rtol=1e-6)
    prog, _ = br.from_onnx(model(text))
    with pytest.raises(br.errors.RunError, match="differs from the shape of ensure_shape"):
        br.Executor().run(prog, br.Scope(), feed={"x": x.reshape(1, 2)}, fetch="y")


def test_a_branch_on_a_size_whose_results_do_not_follow_from_it_is_looked_at_too() -> None:
    other = ASKED.replace("a = Squeeze(x, last)", "a = Constant<value = float {1.0}>()")
    prog, _ = br.from_onnx(model(other))
    with pytest.raises(br.errors.RunError, match="differs from the shape of ensure_shape"):
        br.Executor().run(prog, br.Scope(), feed={"x": np.ones((1, 2), "float32")}, fetch="y")


BRANCH = """branch (float[N] x, bool flag) => (float[N] y) {
    y = If (flag) <
        then_branch = more () => (float[N] a) { a = Exp(x) },
        else_branch = less () => (float[N] b) { b = Neg(x) }
    >
}"""


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_is_a_switch(flag: bool) -> None:
    x = np.array([0.5, 2.0], "float32")
    (y,) = run(model(BRANCH), {"x": x, "flag": np.bool_(flag)})
    np.testing.assert_allclose(y, np.exp(x) if flag else -x, rtol=1e-6)


def test_a_branch_on_what_is_known_is_the_case_alone() -> None:
    known = BRANCH.replace(", bool flag", "").replace(
        "y = If", "flag = Constant<value = bool {1}>()\n    y = If"
    )
    prog, _ = br.from_onnx(model(known))
    assert [op.type for op in prog.block(0).ops] == ["exp", "identity"]


LOOP = """powers (int64 trips, float[2] x) => (float[2] last, float[K, 2] rows) {
    go = Constant<value = bool {1}>()
    last, rows = Loop (trips, go, x) <
        body = step (int64 i, bool on, float[2] v) => (bool out, float[2] w, float[2] row) {
            w = Mul(v, x)
            row = Identity(w)
            out = Identity(on)
        }
    >
}"""


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_loop_whose_trips_only_a_run_knows_collects_rows(trips: int) -> None:
    x = np.array([2.0, -1.5], "float32")
    last, rows = run(model(LOOP), {"trips": np.int64(trips), "x": x})
    np.testing.assert_allclose(last, x ** (trips + 1), rtol=1e-6)
    assert rows.shape == (trips, 2)


def test_what_an_example_says_makes_a_loop_counted() -> None:
    prog, _ = br.from_onnx(model(LOOP), inputs={"trips": np.int64(3)})
    assert prog.feeds == ("x",)
    assert str(prog.var(prog.fetches[1]).type) == "f32[3,2]"


def test_all_that_cannot_be_read_is_said_at_once() -> None:
    text = """strange (float[N] x) => (float[N] y) {
        a = ai.other.Spin (x)
        b = ai.other.Spin (a)
        c = ai.other.Turn (b)
        y = Add(c, x)
    }"""
    found = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18, "ai.other" : 2]> {text}'
    )
    with pytest.raises(br.errors.ProgramError) as caught:
        br.from_onnx(found)
    said = str(caught.value)
    assert "ai.other.Spin-2, 2 times" in said
    assert "ai.other.Turn-2, 1 time:" in said


def test_an_error_of_a_run_names_the_node() -> None:
    text = """pick (float[3] x, int64[N] i) => (float[N] y) { y = Gather(x, i) }"""
    prog, _ = br.from_onnx(model(text))
    with pytest.raises(br.errors.IndexRangeError, match="pick:1"):
        br.Executor().run(
            prog, br.Scope(), feed={"x": np.ones(3, "float32"), "i": [7]}, fetch="y"
        )


# ---- files -----------------------------------------------------------------------------------


def test_weights_beside_the_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "layer.onnx"
    onnx.save(
        model(LAYER), path, save_as_external_data=True, location="layer.bin", size_threshold=0
    )
    _, values = br.from_onnx(path)
    np.testing.assert_array_equal(values["w"], np.arange(1.0, 7.0).reshape(3, 2))


@pytest.mark.parametrize("place", ["../secret.bin", "/etc/hostname", "", "missing.bin"])
def test_weights_outside_of_the_folder_are_refused(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [3, 2], bytes(24), raw=True)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=place)
    found = model(LAYER)
    found.graph.initializer[0].CopyFrom(tensor)
    (folder / "layer.onnx").write_bytes(found.SerializeToString())
    with pytest.raises(br.errors.FileFormatError, match="external data of tensor `w`"):
        br.from_onnx(folder / "layer.onnx")


@pytest.mark.parametrize("content", [b"", b"\x08", b"no model at all", bytes(100)])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(br.errors.FileFormatError):
        br.from_onnx(path)


@pytest.mark.parametrize("passed", ["CastLike(c, x)", "Identity(c)", "Sum(c)", "Max(c)"])
def test_a_constant_that_an_operator_passes_on_can_be_read_again(passed: str) -> None:
    text = f"""twice (float[N] x) => (float[N] y, float[N] z, float[N] w) {{
        c = Constant <value = float[2] {{1, 2}}> ()
        a = {passed}  b = {passed}
        y = Add(x, a)  z = Mul(x, b)  w = Sub(x, c)
    }}"""
    x = np.array([3.0, 5.0], "float32")
    for got, want in zip(run(model(text), {"x": x}), ([4, 7], [3, 10], [2, 3]), strict=True):
        assert got.tolist() == want
