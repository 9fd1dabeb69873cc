"""Plain blocks as functions of ONNX's models, and functions as plain blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import braces as br
from braces.exchange.common.model.names import FUNCTIONS
from braces.exchange.onnx.runtime import session
from braces.extend.programs import all_bodies
from braces.ir.records import BLOCK
from tests.support.onnx_round_trip import block_names, check_back, run_model

pytestmark = pytest.mark.unoptimized
HEAD = '<ir_version: 10, opset_import: ["" : 18, "pkg.net" : 1, "pkg.lib" : 1]> net '
X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)


def blocks(program: br.Program) -> list[str]:
    bodies = all_bodies(program.definition.main)
    return [op.name for body, _ in bodies for op in body.ops if op.type == BLOCK]


def calls(model: Any) -> list[tuple[str, str]]:
    """The functions that the main graph calls, and the names of the nodes."""
    nodes = model.graph.node
    return [(node.op_type, node.name) for node in nodes if node.domain == FUNCTIONS]


def agrees(
    text: str, feeds: Sequence[Mapping[str, Any]], **given: Any
) -> tuple[br.Program, list[str]]:
    """A model gives in both modes what it gives in ONNX Runtime; it, and its blocks."""
    model = onnx.parser.parse_model(HEAD + text)
    onnx.checker.check_model(model, full_check=True)
    program, values = br.from_onnx(model, **given)
    br.verify(program, all=True)
    assert str(br.Program.from_bytes(program.to_bytes())) == str(program)
    scope = br.Scope()
    scope.update(values)
    wanted = session(model.SerializeToString())
    for mode in ("interpret", "compile"):
        for feed in feeds:
            left = {name: feed[name] for name in program.feeds}
            found = br.Executor(mode=mode).run(
                program, scope, feed=left, fetch=list(program.fetches)
            )
            for got, want in zip(found, wanted.run(None, feed), strict=True):
                assert (got.dtype, got.shape) == (want.dtype, want.shape)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return program, blocks(program)


def refused(text: str) -> str:
    with pytest.raises(br.ProgramError) as found:
        br.from_onnx(onnx.parser.parse_model(HEAD + text))
    return str(found.value)


# ---- out -------------------------------------------------------------------------------------


def test_a_block_called_again_is_one_function_with_several_calls(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, other = br.data("x", ["b", 4]), br.data("other", ["c", 4])
        with br.block("cell") as cell:
            h = br.tanh(br.fc(x, 4, name="q"))
            y = br.reshape(h * h, [-1, 2])
        z = cell(other)
        with br.block("cell"):  # of the same name, and computes something else
            u = br.tanh(y)
    scope, path = br.Scope(), tmp_path / "m.onnx"
    exe = br.Executor(mode="interpret")
    exe.init(prog, scope, seed=0)
    br.to_onnx(prog, path, scope=scope, fetches=[h, y, z, u])
    model = onnx.load(path)
    assert [(f.domain, f.name) for f in model.functions] == [
        (FUNCTIONS, "cell"), (FUNCTIONS, "cell_1")
    ]  # fmt: skip
    assert calls(model) == [("cell", "cell"), ("cell", "cell_1"), ("cell_1", "cell_2")]
    function = model.functions[0]
    assert list(function.input) == ["x", "q.w", "q.b"]
    assert {"matmul_0", "q", "tanh_0"} <= {name for n in function.node for name in n.output}
    feed = {"x": X, "other": X[:2] * 2}
    want = exe.run(prog, scope, feed=feed, fetch=[h, y, z, u])
    for got, wanted in zip(run_model(path, feed).values(), want, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    again, values = br.from_onnx(path)
    assert blocks(again) == ["cell", "cell_1", "cell_2"]
    assert values.keys() == {"cell/q.w", "cell/q.b"}


def test_sizes_go_into_functions_and_come_out_of_them(tmp_path: Path) -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["b", 4]), br.data("n", [], dtype="int64")
        with br.block("wide"):
            w = br.broadcast_to(br.sum(x), ["b", 2])
        with br.block("inner"):  # no input of its own says the size
            y = br.broadcast_to(br.sum(w), ["b", 3])
        with br.block("search"):
            loop = br.create_while()
            with loop.block() as body:
                i = body.add_memory(init=br.cast(br.zeros([]), "int64"))
                body.set_condition(i < n)
                i.update(i + 1)
                body.add_output(x[0] * br.cast(i.pre(1), "float32"))
            rows = loop()
        with br.block("used"):
            ones = br.broadcast_to(br.sum(rows), [rows.shape[0], 2])
        fetch = [y, ones, rows + 1.0]
    feeds = [{"x": X.astype(np.float32), "n": np.array(k)} for k in (0, 3)]
    again = check_back(prog, feeds, fetch, tmp_path)
    assert block_names(again) == ["inner", "search", "used", "wide"]


def test_blocks_that_run_again_do_so_after_they_came_back(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", [4])
        with br.block("kept"):
            y = br.sin(x)
        with br.block("again", recompute=True), br.block("inner"):
            z = br.tanh(br.sin(y))
    br.to_onnx(prog, path, fetches=[z])
    text = str(br.from_onnx(path)[0])
    assert text.count("{recompute=true}") == 1
    assert text.count("{recompute=false}") == 2


def test_a_training_step_comes_back_with_its_blocks(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        with br.block("layer", recompute=True) as layer:
            h = br.tanh(br.fc(x, 4, name="q"))
        loss = br.mean(br.square(layer(layer(h)) - 1.0))
        br.optimizer.adam(0.1).minimize(loss)
    exe, scope, other = br.Executor(mode="interpret"), br.Scope(), br.Scope()
    exe.init(prog, scope, seed=0)
    br.to_onnx(prog, path, scope=scope, fetches=[loss], updates=True)
    model = onnx.load(path)
    assert [name for name, _ in calls(model)].count("layer") == 3
    assert [name for name, _ in calls(model)].count(
        "layer_grad"
    ) == 2  # the first has no x_grad
    again, values = br.from_onnx(path)
    other.update(values)
    assert block_names(again) == block_names(prog)
    for _ in range(3):
        (want,) = exe.run(prog, scope, feed={"x": X}, fetch=[loss])
        (got,) = exe.run(again, other, feed={"x": X}, fetch=[loss.name])
        np.testing.assert_allclose(got, want, rtol=1e-5)


# ---- in --------------------------------------------------------------------------------------


def test_functions_are_blocks_and_what_is_known_goes_through_them() -> None:
    program, found = agrees(
        """(float[N,4] x) => (float[M,2] y, float[N,4] z) <int64[2] s = {-1, 2}> {
            ["/net/first"] a = pkg.lib.scale<k = 2.0>(x)
            ["net/second:0"] b = pkg.lib.scale<k = 3.0>(a, x)
            z = pkg.lib.scale(b)
            y = pkg.net.shaped(z, s)
        }
        <domain: "pkg.lib", opset_import: ["" : 18]> scale <k: float = 4.0> (x, w) => (y) {
            c = Constant<value_float: float = @k>()
            t = Mul(x, c)
            y = Tanh(t)
        }
        <domain: "pkg.net", opset_import: ["" : 17, "pkg.lib" : 1]> shaped (x, s) => (y) {
            [inner] u = pkg.lib.scale<k = 1.0>(x)
            y = Reshape(u, s)
        }""",
        [{"x": X}],
    )
    assert found == ["first", "second_0", "scale", "shaped", "shaped/inner"]
    assert "shaped/y: f32[2*N,2] = reshape" in str(program)
    assert "float64" not in str(program)


def test_functions_with_loops_and_branches_of_what_they_are_given() -> None:
    _, found = agrees(
        """(float[3,4] x, bool c) => (float[3,4] y) {
            n = Constant<value_int: int = 3>()
            a = pkg.net.rep(x, n, c)
            y = pkg.net.rep(a, n, c)
        }
        <domain: "pkg.net", opset_import: ["" : 18]> rep (x, n, c) => (y) {
            t = Constant<value = bool {1}>()
            l = Loop(n, t, x) <body = trip (int64 i, bool k, float[3,4] h)
                => (bool more, float[3,4] after) {
                    more = Identity(k) s = Sin(h) after = Add(s, x) }>
            y = If(c) <then_branch = yes () => (float[3,4] r) { r = Neg(l) },
                       else_branch = no () => (float[3,4] q) { q = Mul(l, x) }>
        }""",
        [{"x": X, "c": np.array(flag)} for flag in (True, False)],
    )
    assert found == ["rep", "rep_1"]


def test_sizes_that_a_run_tells_in_functions_are_known_after_them() -> None:
    upto = """<domain: "pkg.net", opset_import: ["" : 18]> upto (n) => (i) {
            z = Constant<value_int: int = 0>()
            o = Constant<value_int: int = 1>()
            q = Range(z, n, o)
            i = Cast<to = 1>(q)
        }
        <domain: "pkg.lib", opset_import: ["" : 18]> positive (x) => (i) {
            z = Constant<value_float: float = 0.0>()
            m = Greater(x, z)
            p = NonZero(m)
            i = Squeeze(p)
        }"""
    _, found = agrees(
        """(float[N] x, int64 n) => (float[M] y, float[K] z) {
            a = pkg.net.upto(n) b = pkg.net.upto(n) y = Mul(a, b)
            i = pkg.lib.positive(x) v = Gather(x, i) e = Exp(v) z = Add(v, e)
        }"""
        + upto,
        [{"x": X.ravel(), "n": np.array(k)} for k in (0, 3)],
    )
    assert found == ["upto", "upto_1", "positive"]


def test_blocks_whose_names_would_be_too_long_are_written_out() -> None:
    name = "m" * 70
    functions = "".join(
        f"""<domain: "pkg.net", opset_import: ["" : 18, "pkg.net" : 1]> f{i} (x) => (y) {{
            [{name}] a = {"pkg.net.f" + str(i + 1) if i < 5 else "Sin"}(x) y = Neg(a) }}"""
        for i in range(6)
    )
    _, found = agrees(
        f"(float[3,4] x) => (float[3,4] y) {{ [{name}] y = pkg.net.f0(x) }}{functions}",
        [{"x": X}],
    )
    assert found == [name, f"{name}/{name}"]


def test_overloads_and_names_of_standard_operators_are_functions_of_their_own() -> None:
    model = onnx.parser.parse_model(
        HEAD
        + """(float[2] x) => (float[2] y, float[2] z, float[2] w) {
            y = pkg.net.Relu(x) z = pkg.net.Relu:twice(x) w = Relu(x)
        }
        <domain: "pkg.net", opset_import: ["" : 18]> Relu (x) => (y) { a = Relu(x) y = Neg(a) }
        <domain: "pkg.net", overload: "twice", opset_import: ["" : 18]>
        Relu (x) => (y) { a = Relu(x) y = Add(a, a) }
        """
    )
    program, _ = br.from_onnx(model)
    found = br.Executor(mode="interpret").run(
        program,
        br.Scope(),
        feed={"x": np.array([-1, 2], np.float32)},
        fetch=list(program.fetches),
    )
    assert [value.tolist() for value in found] == [[0, -2], [0, 4], [0, 2]]


@pytest.mark.parametrize(
    ("node", "word"),
    [
        ("y = pkg.net.one(x, x)", "pkg.net.one: expected at most 1 inputs, got 2"),
        ("y, z = pkg.net.one(x)", "pkg.net.one: expected at most 1 outputs, got 2"),
        ("y = pkg.net.one()", "expected an array, got an optional without a value"),
        ("y = pkg.net.none(x)", "pkg.net.none: unsupported operator"),
        ("y = pkg.net.lost(x)", "is used before it is defined"),
    ],
)
def test_calls_that_do_not_fit_are_said(node: str, word: str) -> None:
    functions = """<domain: "pkg.net", opset_import: ["" : 18]> one (x) => (y) { y = Neg(x) }
        <domain: "pkg.net", opset_import: ["" : 18]> lost (x) => (y) { z = Neg(x) }"""
    assert word in refused(f"(float[2] x) => (float[2] y) {{ {node} }} {functions}")


def test_weights_of_functions_lie_beside_the_model_and_nowhere_else(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        HEAD
        + """(float[2] x) => (float[2] y) { y = pkg.net.shift(x) }
        <domain: "pkg.net", opset_import: ["" : 18]> shift (x) => (y) {
            w = Constant<value = float[2] {1, 2}>() y = Add(x, w) }"""
    )
    (value,) = model.functions[0].node[0].attribute
    value.t.CopyFrom(onnx.TensorProto(dims=[2], data_type=onnx.TensorProto.FLOAT))
    value.t.data_location = onnx.TensorProto.EXTERNAL
    place = value.t.external_data.add(key="location", value="w")
    path = tmp_path / "m.onnx"
    (tmp_path / "w").write_bytes(np.array([3, 4], np.float32).tobytes())
    path.write_bytes(model.SerializeToString())
    program, _ = br.from_onnx(path)
    assert "f32[2] [3.0, 4.0]" in str(program)
    for elsewhere in ("../w", ""):
        place.value = elsewhere
        path.write_bytes(model.SerializeToString())
        with pytest.raises(br.FileFormatError, match="is outside of the folder"):
            br.from_onnx(path)
