"""`br.compare_values` with ONNX models: values in the bodies of `Loop`, `Scan` and `If`."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import braces as br
from tests.surgery.programs import swapped

X = np.random.default_rng(1).normal(size=(3, 4)).astype("float32") + np.float32(0.5)

LOOPS = """<ir_version: 10, opset_import: ["" : 18]>
  net (float[N, 4] x, int64 n) => (float[4] y, float[T, 4] ys, float[4] last, float[N, 4] rows,
    float[4] z) <float[4] w = {1, 2, 3, 4.5}, float[4] zero = {0, 0, 0, 0}> {
    go = Constant <value = bool {1}> ()
    y, ys = Loop (n, go, zero) <body = step (int64 i, bool c, float[4] h)
      => (bool more, float[4] h2, float[4] out) {
        more = Identity (c)
        r = Gather <axis = 0> (x, i)
        p = Add (h, r)
        h2 = Tanh (p)
        q = Mul (h2, w)
        out = Sigmoid (q)
    }>
    last, rows = Scan <num_scan_inputs = 1, scan_input_directions = [1],
      body = walk (float[4] a, float[4] row) => (float[4] a2, float[4] o) {
        k = Add (a, row)
        a2 = Sin (k)
        o = Cos (a2)
    }> (zero, x)
    m = ReduceSum <keepdims = 0> (x)
    nothing = Constant <value_float = 0.0> ()
    positive = Greater (m, nothing)
    z = If (positive) <
      then_branch = yes () => (float[4] t) { u = Exp (w)  t = Sqrt (u) },
      else_branch = no () => (float[4] e) { e = Neg (w) }>
  }"""

NESTED = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
  net (float[N, 4] x) => (float[4] y) <float[4] zero = {0, 0, 0, 0}, int64 three = {3}> {
    none = Constant <value = bool {1}> ()
    y = Loop ("", none, zero) <body = step (int64 i, bool c, float[4] h)
      => (bool more, float[4] h2) {
        r = Gather <axis = 0> (x, i)
        one = Constant <value_int = 1> ()
        next = Add (i, one)
        more = Less (next, three)
        odd = Cast <to = 9> (i)
        g = If (odd) <
          then_branch = yes () => (float[4] t) { s = own.twice (r)  t = Tanh (s) },
          else_branch = no () => (float[4] e) { e = Sin (r) }>
        h2 = Add (h, g)
    }>
  }
  <domain: "own", opset_import: ["" : 18]> twice (v) => (d) { d = Add (v, v) }"""


def read(text: str) -> tuple[Any, br.Program, Any]:
    proto = onnx.parser.parse_model(text)
    return proto, *br.from_onnx(proto)


@pytest.mark.parametrize(
    ("old", "new", "path", "iteration"),
    [
        ("tanh", "sin", "y/body/h2", (0,)),
        ("sigmoid", "tanh", "y/body/out", (0,)),
        ("sin", "tanh", "last/body/a2", (0,)),
        ("cos", "exp", "last/body/o", (0,)),
        ("exp", "sinh", "z/then_branch/u", ()),
    ],
)
def test_values_of_bodies_are_compared_for_each_iteration(
    old: str, new: str, path: str, iteration: tuple[int, ...]
) -> None:
    proto, prog, values = read(LOOPS)
    feed = {"x": X, "n": np.int64(3)}
    same = br.compare_values(prog, proto, values, feed)
    assert not same
    assert same.matched > 0.9 * same.computed
    found = br.compare_values(swapped(prog, old, new), proto, values, feed)
    assert found.first is not None
    assert found.other is not None
    assert (found.first.type, found.first.iteration) == (new, iteration)
    assert (found.other.path, found.other.iteration) == (path, iteration)
    assert found.other.type.lower() == old


def test_bodies_in_bodies_read_values_of_all_graphs_around() -> None:
    proto, prog, values = read(NESTED)
    assert not br.compare_values(prog, proto, values, {"x": X})
    found = br.compare_values(swapped(prog, "tanh", "cos"), proto, values, {"x": X})
    assert found.first is not None
    assert found.other is not None
    assert found.other.path == "y/body/g/then_branch/t"
    assert (found.first.iteration, found.other.iteration) == ((1,), (1,))


@pytest.mark.parametrize("n", [0, 1])
def test_loops_with_few_iterations(n: int) -> None:
    proto, prog, values = read(LOOPS)
    assert not br.compare_values(prog, proto, values, {"x": -X, "n": np.int64(n)})
    found = br.compare_values(
        swapped(prog, "tanh", "sin"), proto, values, {"x": -X, "n": np.int64(n)}
    )
    assert bool(found) == bool(n)


# ---- recurrent layers ------------------------------------------------------------------------

RECURRENT = """<ir_version: 9, opset_import: ["" : 20]>
net (float[t, 2, 3] x) => (float[t, 2, 4] z) <int64[1] one = {1}> {
    p = Exp (x)
    y = KIND <hidden_size = 4, direction = "WAY"> (p, w, r, b)
    s = Squeeze (y, one)
    z = Sin (s)
}"""
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(kind: str, way: str = "forward") -> tuple[Any, dict[str, Any]]:
    """A model with a recurrent layer of random weights, and a feed."""
    model = onnx.parser.parse_model(RECURRENT.replace("KIND", kind).replace("WAY", way))
    rng, rows = np.random.default_rng(0), GATES[kind] * 4
    for name, shape in (("w", (rows, 3)), ("r", (rows, 4)), ("b", (2 * rows,))):
        value = rng.normal(size=(1, *shape)).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model, {"x": rng.normal(size=(5, 2, 3)).astype("float32")}


@pytest.mark.parametrize("way", ["forward", "reverse"])
@pytest.mark.parametrize("kind", GATES)
def test_a_wrong_operator_in_a_recurrent_layer_is_named_with_its_iteration(
    kind: str, way: str
) -> None:
    model, feed = recurrent(kind, way)
    prog, values = br.from_onnx(model)
    assert not br.compare_values(prog, model, values, feed)
    places = prog.find(type=["tanh", "sigmoid"], inside="y/loop_0/body")
    assert len(places) == {"LSTM": 5, "GRU": 3, "RNN": 1}[kind]
    for place in places:
        wrong = prog.replace(place, br.sin)
        found = br.compare_values(wrong, model, values, feed)
        assert found.first is not None
        assert found.other is not None
        assert (found.first.path, found.first.type) == (place.path, "sin")
        assert found.first.iteration[0] <= 1  # a gate of the first memory, 0, is not read
        assert (found.other.system, found.other.path) == ("ONNX Runtime", "y")


def test_weights_of_a_recurrent_layer_that_differ_are_inputs() -> None:
    model, feed = recurrent("GRU")
    prog, values = br.from_onnx(model)
    found = br.compare_values(prog, model, {**values, "w": values["w"] + 0.1}, feed)
    assert found.inputs == ("w",)


def test_an_import_that_differs_from_its_model_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, feed = recurrent("LSTM")
    prog, values = br.from_onnx(model)
    wrong = prog.replace("y/loop_0/body/y/tanh_0", br.sin)
    imported = "braces.exchange.onnx.reader.trace_values.from_onnx"

    def misread(_model: Any) -> Any:
        return wrong, values

    monkeypatch.setattr(imported, misread)
    found = br.compare_values(wrong, model, values, feed)
    assert found.first is not None
    assert found.first.path.startswith("y/")
    assert found.first.system == "Braces"
