"""Parts of arrays at places that a run computes, through ONNX and back; sizes that it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import braces as br
from tests.frontend.sequence.test_decoding import SIZE, in_braces, weights
from tests.support.onnx_round_trip import run_model

pytestmark = pytest.mark.unoptimized

Fetched = Sequence[br.Var]
DRAWS = np.random.default_rng(0)


def moving_slices() -> Fetched:
    """A loop that reads and writes one element at its own number, and its gradient."""
    x = br.data("x", [6])
    loop = br.create_while()
    with loop.block() as body:
        i = body.add_memory(init=br.constant(0, dtype="int64"))
        buffer = body.add_memory(init=br.zeros([6]))
        body.set_condition(i < 6)
        part = br.dynamic_slice(x, [i.pre(1)], [1])
        buffer.update(br.dynamic_update_slice(buffer.pre(1), part * part, [5 - i.pre(1)]))
        i.update(i.pre(1) + 1)
    result = loop.final(buffer)
    return [result, *br.gradients([result], [x])]


def parts() -> Fetched:
    """Parts along some axes, of floats and bools, that may reach beyond the array."""
    x, update = br.data("x", [5, 4]), br.data("u", [2, 3])
    i = br.data("i", [], dtype="int64")
    at = [i, 1 - i]
    return [
        br.dynamic_update_slice(x, update, at),
        br.dynamic_update_slice(x > 0.5, update > 0.5, at),
        br.dynamic_update_slice(x, br.concat([update, update[:, :1]], axis=1), [i, 0 * i]),
        br.dynamic_update_slice(x, x * 2.0, at),
        br.dynamic_update_slice(x, x[:0], at),
        br.dynamic_slice(x, at, [2, 3]),
        br.dynamic_slice(x, at, [5, 4]),
        br.dynamic_slice(x, at, [0, 2]),
    ]


def symbolic_update() -> Fetched:
    x, i = br.data("x", ["n", 4]), br.data("i", [], dtype="int64")
    longer = br.concat([x, br.zeros([3, 4])], axis=0)
    return [br.dynamic_update_slice(longer, x + 1.0, [i, 0 * i])]


def suppression() -> Fetched:
    boxes = br.data("boxes", [2, 1, 7, 4])
    return [br.image.non_max_suppression(boxes, br.data("s", [2, 1, 7]), 3, iou_threshold=0.3)]


def decoder(beams: int) -> Callable[[], Fetched]:
    given = weights(np.random.default_rng(3))

    def build() -> Fetched:
        init = {"h": br.data("h", [3, SIZE]), "steps": br.constant(1, dtype="int32")}
        options: Any = {
            "start": br.data("s", [3], dtype="int64"), "end": 2, "max_length": 6
        }  # fmt: skip
        step = in_braces(given)
        if beams == 1:
            found = br.decoding.greedy(step, init, **options)
        else:
            found = br.decoding.beam_search(step, init, beams, **options)
        return [found.ids, found.lengths, found.scores]

    return build


def boxes(*shape: int) -> Any:
    corners = np.sort(DRAWS.random((*shape, 2, 2)), axis=-2)
    return corners.reshape(*shape, 4).astype("f4")


GRID = {"x": DRAWS.random((5, 4)).astype("f4"), "u": DRAWS.random((2, 3)).astype("f4")}
HIDDEN = {"h": DRAWS.normal(size=(3, SIZE)).astype("f4"), "s": np.array([0, 1, 3])}
PROGRAMS: dict[str, tuple[Callable[[], Fetched], dict[str, Any]]] = {
    "a loop that moves along": (moving_slices, {"x": np.arange(6, dtype="f4")}),
    **{f"parts at {i}": (parts, {**GRID, "i": np.int64(i)}) for i in (0, 3, 9)},
    "a symbolic update": (symbolic_update, {"x": GRID["x"], "i": np.int64(2)}),
    "an empty update": (symbolic_update, {"x": GRID["x"][:0], "i": np.int64(1)}),
    "suppression": (
        suppression, {"boxes": boxes(2, 1, 7), "s": DRAWS.random((2, 1, 7)).astype("f4")}
    ),
    "greedy decoding": (decoder(1), HIDDEN),
    "beam search": (decoder(2), HIDDEN),
}  # fmt: skip


def check_round_trip(path: Path, build: Callable[[], Fetched], feed: dict[str, Any]) -> None:
    """ONNX Runtime, and the program that is read again, give what the program gives."""
    with br.Program() as prog:
        fetches = list(build())
    interpreter = br.Executor(mode="interpret")
    scope = interpreter.init(prog)
    wanted = interpreter.run(prog, scope, feed, fetch=fetches)
    br.to_onnx(prog, path, scope=scope, fetches=fetches)
    again, values = br.from_onnx(path)
    other = br.Scope()
    other.update(values)
    found = [list(run_model(path, feed).values())]
    for executor in (interpreter, br.Executor()):
        found.append(executor.run(again, other, feed, fetch=list(again.fetches)))
    for results in found:
        for got, want in zip(results, wanted, strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_parts_at_computed_places_come_back_from_onnx(name: str, tmp_path: Path) -> None:
    check_round_trip(tmp_path / "model.onnx", *PROGRAMS[name])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_pictures_of_symbolic_sizes_are_made_larger_in_onnx(
    mode: str, corners: bool, tmp_path: Path
) -> None:
    def build() -> Fetched:
        x = br.data("x", ["n", 2, "h", "w"])
        aligned = corners and mode != "nearest"
        return [br.image.upsample(x, (2, 3), mode, align_corners=aligned)]

    x = DRAWS.random((2, 2, 3, 4)).astype("f4")
    check_round_trip(tmp_path / "model.onnx", build, {"x": x})


def test_pictures_are_brought_to_a_fed_size_in_onnx(tmp_path: Path) -> None:
    def build() -> Fetched:
        x, like = br.data("x", ["n", 2, "h", 5]), br.data("like", ["k", 3])
        return [br.image.resize(x, [*x.shape[:2], like.shape[0], 7], coordinates="asymmetric")]

    feed = {"x": DRAWS.random((1, 2, 6, 5)).astype("f4"), "like": np.zeros((4, 3), "f4")}
    check_round_trip(tmp_path / "model.onnx", build, feed)


# ---- branches of other ranks, and extremes of nothing ----------------------------------------


def model(nodes: list[Any], **inputs: Any) -> Any:
    given = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), shape)
        for name, (x, shape) in inputs.items()
    ]
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    versions = [helper.make_opsetid("", 18)]
    graph = helper.make_graph(nodes, "g", given, [made])
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def branching(kept: str) -> Any:
    """A branch that passes `x` on, or gives it one more axis."""
    out = helper.make_empty_tensor_value_info("out")
    same = helper.make_graph([helper.make_node("Identity", ["x"], ["out"])], "same", [], [out])
    axes = helper.make_node("Constant", [], ["axes"], value_ints=[0])
    other = helper.make_graph(
        [axes, helper.make_node("Unsqueeze", ["x", "axes"], ["out"])], "other", [], [out]
    )
    graphs = {"else_branch": other, "then_branch": other, kept: same}
    return model(
        [helper.make_node("If", ["c"], ["b"], **graphs), helper.make_node("Neg", ["b"], ["y"])],
        c=(np.array(True), []), x=(np.zeros(3, "f4"), [3]),
    )  # fmt: skip


@pytest.mark.parametrize("kept", ["else_branch", "then_branch"])
def test_a_branch_that_passes_a_value_on_is_kept_beside_one_of_another_rank(
    kept: str, mode: str
) -> None:
    prog, _ = br.from_onnx(branching(kept))
    x, right = np.arange(3, dtype="f4"), np.array(kept == "then_branch")
    exe = br.Executor(mode=mode)
    (found,) = exe.run(prog, br.Scope(), {"c": right, "x": x}, fetch=prog.fetches)
    np.testing.assert_array_equal(found, -x)
    with pytest.raises(br.BracesError, match="case"):
        exe.run(prog, br.Scope(), {"c": ~right, "x": x}, fetch=prog.fetches)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("x", [[1.0, -2.0, 3.0], [0.0, 0.0, 0.0]])
def test_an_extreme_of_numbers_that_a_run_finds_may_be_of_none(
    op_type: str, x: list[float], mode: str
) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["at"]),
        helper.make_node("Cast", ["at"], ["places"], to=TensorProto.FLOAT),
        helper.make_node(op_type, ["places"], ["y"], keepdims=0),
    ]
    given = np.array(x, "f4")
    prog, _ = br.from_onnx(model(nodes, x=(given, [3])))
    (found,) = br.Executor(mode=mode).run(prog, br.Scope(), {"x": given}, fetch=prog.fetches)
    largest = op_type == "ReduceMax"
    nothing = -np.inf if largest else np.inf
    assert found == (nothing if not any(x) else 2.0 if largest else 0.0)
