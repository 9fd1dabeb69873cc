"""The row-wise switch: each case runs on its own rows, and results return to their places."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import BracesError, NoMatchError, ProgramError, ShapeError
from tests.support.onnx_round_trip import run_model

pytestmark = pytest.mark.unoptimized

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
KINDS = {
    "some": [2, 0, 1, 7, 0, 2, -4, 1],
    "one case": [1] * 8,
    "default alone": [9] * 8,
    "one row each": [0, 1, 2, 3],
    "one row": [2],
    "nothing": [],
}


def routed(x: br.Var, k: br.Var, w: br.Var, by: str, rest: str) -> br.Var:
    """Three cases, and what happens elsewhere."""
    switch = br.create_switch(k) if by == "index" else br.create_switch()

    def when(number: int) -> Any:
        return number if by == "index" else k == number

    with switch.case(when(0)) as case:
        own = case.add_input(x)
        case.add_output(br.sqrt(own[:, :1]) * w + br.mean(own, axis=0))
    with switch.case(when(2)) as case:
        own = case.add_input(x)
        case.add_output(br.log(own + 2.0) * own)
    with switch.case(when(1)) as case:
        own = case.add_input(x)
        case.add_output(br.tanh(own) * br.sum(own * own, axis=0))
    if rest == "default":
        with switch.default() as case:
            case.add_output(case.add_input(x) * w * w)
    elif rest == "pass_through":
        switch.pass_through(x)
    return switch()


def by_numpy(x: Array, k: Array, w: Array, rest: str) -> Array:
    """The same case by case."""
    out = x * w * w if rest == "default" else x.copy()
    for number, made in {
        0: lambda own: np.sqrt(own[:, :1]) * w + own.mean(axis=0),
        1: lambda own: np.tanh(own) * (own * own).sum(axis=0),
        2: lambda own: np.log(own + 2.0) * own,
    }.items():
        mask = k == number
        if mask.any():
            out[mask] = made(x[mask])
    return out


def inputs(k: Array) -> Array:
    """Numbers that only the case of their row can take: NaN elsewhere, in the gradient too."""
    x = RNG.uniform(-1.0, 1.0, (len(k), 3))
    x[k == 0] = abs(x[k == 0]) + 0.1
    x[(k != 0) & (k != 2) & (k != 1)] -= 5.0
    return x


@pytest.mark.parametrize("rest", ["default", "pass_through"])
@pytest.mark.parametrize("by", ["index", "conditions"])
def test_each_case_runs_on_its_own_rows(by: str, rest: str, mode: str) -> None:
    with br.Program() as program:
        x, w = br.data("x", ["rows", 3], "float64"), br.data("w", [3], "float64")
        k = br.data("k", ["rows"], "int32")
        out = routed(x, k, w, by, rest)
        loss = br.sum(br.sin(out))
        grads = br.gradients([loss], [x, w])
        (second,) = br.gradients([br.sum(grads[0] * grads[0])], [x])
        moved = br.jvp([out], [x], [br.cos(x)])
    exe, wv = br.Executor(mode=mode), np.array([0.5, -1.0, 2.0])
    for kind in KINDS.values():
        kv = np.array(kind, "int32")
        xv = inputs(kv)
        fetch = [out, *grads, second, *moved]
        found = exe.run(program, br.Scope(), {"x": xv, "k": kv, "w": wv}, fetch)
        assert all(np.isfinite(one).all() for one in found)
        np.testing.assert_allclose(found[0], by_numpy(xv, kv, wv, rest), rtol=1e-12)
        step = 1e-6 * RNG.normal(size=xv.shape)
        ends = [by_numpy(xv + sign * step, kv, wv, rest) for sign in (1, -1)]
        slope = (np.sin(ends[0]) - np.sin(ends[1])).sum() / 2e-6
        np.testing.assert_allclose((found[1] * step).sum() / 1e-6, slope, 1e-6, 1e-8)


@pytest.mark.parametrize("by", ["index", "conditions"])
def test_a_row_of_no_case_is_an_error_of_the_run(by: str, mode: str) -> None:
    with br.Program() as program:
        x, w = br.data("x", ["rows", 3], "float64"), br.data("w", [3], "float64")
        out = routed(x, br.data("k", ["rows"], "int32"), w, by, "error")
    exe, feed = br.Executor(mode=mode), {"x": np.ones((3, 3)), "w": np.ones(3)}
    with pytest.raises(NoMatchError, match="No case of the switch matches"):
        exe.run(program, br.Scope(), {**feed, "k": [0, 3, 1]}, out)
    found = exe.run(program, br.Scope(), {**feed, "k": [0, 2, 1]}, out)
    assert np.isfinite(found).all()


def test_the_first_condition_that_holds_has_the_row(mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["rows"])
        switch = br.create_switch()
        for number, limit in enumerate((3.0, 1.0)):
            with switch.case(x > limit) as case:
                case.add_output(case.add_input(x) * 0.0 + float(number))
        switch.pass_through(x)
        out = switch()
    found = br.Executor(mode=mode).run(program, br.Scope(), {"x": [4.0, 2.0, -1.0, 3.5]}, out)
    assert found.tolist() == [0.0, 1.0, -1.0, 0.0]


def test_a_case_without_rows_runs_nothing() -> None:
    with br.Program() as program:
        x, k = br.data("x", ["rows", 2]), br.data("k", ["rows"], "int64")
        switch = br.create_switch(k)
        for number in range(3):
            with switch.case(number) as case:
                case.add_output(br.tanh(case.add_input(x)))
        out = switch()
    ran = list[str]()
    br.Executor(mode="interpret").run(
        program,
        br.Scope(),
        {"x": np.ones((4, 2)), "k": [2, 2, 0, 2]},
        out,
        listeners=[lambda path, op, values: ran.append(op.type)],
    )
    assert ran.count("tanh") == 2


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_functions_are_called_with_their_rows(dtype: str, mode: str) -> None:
    with br.Program() as program:
        x, k = br.data("x", ["rows", 2]), br.data("k", ["rows"], dtype)
        fns: list[Callable[..., Any]] = [lambda a: {"y": a}, lambda a: {"y": a * br.sum(a)}]
        out = br.switch(k, fns, x, default=lambda a: {"y": -a})["y"]
    x_ = np.arange(8, dtype="float32").reshape(4, 2)
    found = br.Executor(mode=mode).run(program, br.Scope(), {"x": x_, "k": [1, 5, 0, 1]}, out)
    np.testing.assert_array_equal(found, [[0, 14], [-2, -3], [4, 5], [84, 98]])


def test_what_a_row_draws_follows_from_its_number(mode: str) -> None:
    with br.Program() as program:
        x, k = br.data("x", ["rows", 4]), br.data("k", ["rows"], "int32")
        switch = br.create_switch(k)
        for number in range(2):
            with switch.case(number) as case:
                case.add_output(br.dropout(case.add_input(x), 0.5) + float(number))
        switch.pass_through(x)
        out = switch()
    found = list[Array]()
    for kv in ([0, 0, 1, 1, 0, 1], [0, 1, 1, 2, 0, 0], [0] * 6):
        scope, exe = br.Scope(), br.Executor(mode=mode)
        exe.init(program, scope, seed=1)
        feed = {"x": np.ones((6, 4)), "k": kv}
        found.append(exe.run(program, scope, feed, out) - np.equal(kv, 1)[:, None])
    np.testing.assert_array_equal(found[0][[0, 4]], found[2][[0, 4]])
    np.testing.assert_array_equal(found[0][2], found[1][2])
    assert len(np.unique(found[2], axis=0)) > 2


def test_devices_run_their_own_rows() -> None:
    with br.Program() as program:
        x, w = br.data("x", ["b", 3], "float64"), br.parameter("w", [3], dtype="float64")
        out = routed(x, br.data("k", ["b"], "int32"), w, "index", "default")
        (slope,) = br.gradients([br.sum(out * out)], [w])
    kv, found = np.array([*KINDS["some"]] * 2, "int32"), list[list[Array]]()
    feed = {"x": inputs(kv), "k": kv}
    for layout in (None, br.Layout(br.Mesh({"data": 4}), {"b": "data"})):
        exe, scope = br.Executor(layout=layout), br.Scope()
        exe.init(program, scope, seed=0)
        found.append(exe.run(program, scope, feed, [out, slope]))
    for alone, several in zip(*found, strict=True):
        np.testing.assert_allclose(several, alone, rtol=1e-12)


def test_onnx_runtime_gives_the_same(tmp_path: Path) -> None:
    with br.Program() as program:
        x, w = br.data("x", ["rows", 3]), br.data("w", [3])
        out = routed(x, br.data("k", ["rows"], "int32"), w, "index", "pass_through")
    br.to_onnx(program, tmp_path / "m.onnx", fetches=[out])
    kv = np.array(KINDS["some"], "int32")
    feed = {"x": inputs(kv).astype("float32"), "k": kv, "w": np.ones(3, "float32")}
    (found,) = run_model(tmp_path / "m.onnx", feed).values()
    want = br.Executor().run(program, br.Scope(), feed, out)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


# ---- errors ----------------------------------------------------------------------------------


def _of_a_matrix(x: br.Var, k: br.Var) -> None:
    br.create_switch(br.stack([k, k]))


def _of_floats(x: br.Var, k: br.Var) -> None:
    br.create_switch(x[:, 0])


def _rows_and_scalar(x: br.Var, k: br.Var) -> None:
    switch = br.create_switch()
    with switch.case(k > 0) as case:
        case.add_output(case.add_input(x))
    switch.case(br.any(k > 0))


def _default_and_pass_through(x: br.Var, k: br.Var) -> None:
    switch = br.create_switch(k)
    with switch.case(0) as case:
        case.add_output(case.add_input(x))
    switch.pass_through(x)
    switch.default()


def _other_outputs(x: br.Var, k: br.Var) -> None:
    switch = br.create_switch(k)
    with switch.case(0) as case:
        case.add_output(case.add_input(x))
    with switch.case(1) as case:
        case.add_output(case.add_input(x)[:, 0])
    switch()


def _mixed_rows(x: br.Var, k: br.Var) -> None:
    with br.create_switch(k).case(0) as case:
        case.add_output(br.cumsum(case.add_input(x), axis=0))


def _all_rows_inside(x: br.Var, k: br.Var) -> None:
    with br.create_switch(k).case(0) as case:
        case.add_output(case.add_input(x) * x)


def _passes_another_type(x: br.Var, k: br.Var) -> None:
    switch = br.create_switch(k)
    with switch.case(0) as case:
        case.add_output(case.add_input(x))
    switch.pass_through(k)
    switch()


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (_of_a_matrix, ShapeError, "integer vector with one entry for each batch"),
        (_of_floats, ShapeError, "must be an integer scalar"),
        (_rows_and_scalar, ShapeError, "shape mismatch between the conditions"),
        (_default_and_pass_through, ProgramError, "the default is defined"),
        (_other_outputs, ShapeError, "differs between branches"),
        (_mixed_rows, ProgramError, "cumsum mixes batch elements"),
        (_all_rows_inside, ShapeError, "cannot broadcast"),
        (_passes_another_type, ShapeError, "of pass_through has another type than the output"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_built(
    wrong: Callable[[br.Var, br.Var], None], kind: type[BracesError], message: str
) -> None:
    with br.Program() as program:
        x, k = br.data("x", ["rows", 3]), br.data("k", ["rows"], "int32")
        with pytest.raises(kind, match=message) as caught:
            wrong(x, k)
    assert "test_row_switch.py" in str(caught.value)
    assert not any(op.type == "partition" for op in program.block(0).ops)
