"""The programs of the design documents, against NumPy and finite differences."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import braces as pd
from braces import create_rnn
from braces.testing.differences import central_differences

Arrays = Mapping[str, np.ndarray[Any, Any]]


def run(mode: str, prog: pd.Program, values: Arrays, fetch: Any, feed: Any = None) -> Any:
    scope, exe = pd.Scope(), pd.Executor(mode=mode)
    exe.init(prog, scope, seed=7)
    for name, value in values.items():
        scope.var(name).set(value)
    return exe.run(prog, scope, feed=feed or {}, fetch=fetch)


# ---- RNNOp -----------------------------------------------------------------------------------


def recurrent(dtype: str) -> tuple[Any, Any]:
    """The first program, with data in place of `some_op()`."""
    v = pd.data("v", ["steps", 20], dtype)
    m_boot = pd.data("m_boot", [20], dtype)

    W = pd.Variable(shape=[20, 20], dtype=dtype, name="W")
    U = pd.Variable(shape=[20, 20], dtype=dtype, name="U")

    rnn = create_rnn()
    with rnn.stepnet() as net:
        # declare the input variables that need to be segmented into steps
        x = net.add_input(v)
        # declare rnn's memory (state)
        h = net.add_memory(init=m_boot)

        fc_out = pd.matmul(W, x)
        hidden_out = pd.matmul(U, h.pre(n=1))
        sum = pd.add_two(fc_out, hidden_out)
        act = pd.sigmoid(sum)
        h.update(act)  # update memory

        # declare outputs that needs to be merged across all the steps
        net.add_output(act, hidden_out)

    acts, hs = rnn()
    return acts, hs


def recurrent_in_numpy(values: Arrays) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    h, acts, hs = values["m_boot"], [], []
    for x in values["v"]:
        hidden = values["U"] @ h
        h = 1 / (1 + np.exp(-(values["W"] @ x + hidden)))
        acts.append(h)
        hs.append(hidden)
    shape = (len(acts), 20)
    return np.reshape(acts, shape), np.reshape(hs, shape)


def draw(rng: np.random.Generator, steps: int, dtype: str) -> dict[str, Any]:
    shapes = {"v": (steps, 20), "m_boot": (20,), "W": (20, 20), "U": (20, 20)}
    drawn = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    scaled = {name: x * (0.3 if name in "WU" else 1.0) for name, x in drawn.items()}
    return {name: x.astype(dtype) for name, x in scaled.items()}


def split(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    parameters = {name: values[name] for name in ("W", "U")}
    return parameters, {name: values[name] for name in ("v", "m_boot")}


@pytest.mark.parametrize("steps", [0, 1, 6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rnn_of_the_documents_agrees_with_numpy(
    mode: str, rng: np.random.Generator, steps: int, dtype: str
) -> None:
    with pd.Program() as prog:
        acts, hs = recurrent(dtype)
    values = draw(rng, steps, dtype)
    parameters, feed = split(values)
    got = run(mode, prog, parameters, [acts, hs], feed)
    for one, want in zip(got, recurrent_in_numpy(values), strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, want, atol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-6), ("float32", 1e-4)])
def test_the_gradient_of_the_rnn_agrees_with_finite_differences(
    mode: str, rng: np.random.Generator, steps: int, dtype: str, tolerance: float
) -> None:
    names = ("W", "U", "v", "m_boot")
    with pd.Program() as prog:
        acts, hs = recurrent(dtype)
        loss = pd.sum(acts * acts) + pd.sum(hs * acts)
        grads = pd.gradients([loss], [pd.get_variable(name) for name in names])

    def reading(given: Arrays) -> dict[str, float]:
        a, h = recurrent_in_numpy(given)
        return {"loss": float(np.sum(a * a) + np.sum(h * a))}

    values = draw(rng, steps, "float64")
    cast = {name: value.astype(dtype) for name, value in values.items()}
    parameters, feed = split(cast)
    got = run(mode, prog, parameters, grads, feed)
    for name, grad in zip(names, got, strict=True):
        want = central_differences(reading, values, name, ["loss"])["loss"]
        np.testing.assert_allclose(grad, want, atol=tolerance, rtol=tolerance, err_msg=name)


# ---- parameters that are shared by name ------------------------------------------------------


def sharing() -> tuple[Any, Any]:
    """The second program."""
    a = pd.Variable(shape=[20, 20], name="a")
    b = pd.fc(a, params=["fc.w", "fc.b"])

    rnn = pd.create_rnn()
    with rnn.stepnet() as net:
        x = net.add_input(a)
        # reuse fc's parameter
        fc_without_b = pd.get_variable("fc.w")
        net.add_output(fc_without_b)

    out = rnn()
    assert x.shape == (20,)
    return b, out


def test_a_step_reads_the_parameter_of_an_outer_layer(
    mode: str, rng: np.random.Generator
) -> None:
    with pd.Program() as prog:
        b, out = sharing()
    assert [p.name for p in prog.parameters] == ["a", "fc.w", "fc.b"]
    shapes = {"a": (20, 20), "fc.w": (20, 20), "fc.b": (20,)}
    values = {name: rng.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    got_b, got_out = run(mode, prog, values, [b, out])
    np.testing.assert_allclose(got_b, values["a"] @ values["fc.w"] + values["fc.b"], atol=1e-5)
    np.testing.assert_array_equal(got_out, np.broadcast_to(values["fc.w"], (20, 20, 20)))


def test_a_shared_parameter_sums_its_gradients(mode: str, rng: np.random.Generator) -> None:
    with pd.Program() as prog:
        b, out = sharing()
        (grad,) = pd.gradients([pd.sum(b), pd.sum(out)], [pd.get_variable("fc.w")])
    a = rng.normal(size=(20, 20)).astype("f4")
    got = run(mode, prog, {"a": a}, grad)
    want = np.broadcast_to(a.sum(axis=0)[:, None], (20, 20)) + 20
    np.testing.assert_allclose(got, want, atol=1e-5)


# ---- where building goes ---------------------------------------------------------------------


def test_building_outside_of_any_with_goes_to_the_default_program(mode: str) -> None:
    def build() -> None:
        acts, _ = recurrent("float32")
        b, _ = sharing()
        prog = pd.default_program()
        assert acts.program is prog
        assert b.program is prog
        feed = {"v": np.ones((3, 20), "f4"), "m_boot": np.zeros(20, "f4")}
        assert run(mode, prog, {}, acts, feed).shape == (3, 20)

    contextvars.Context().run(build)  # as in a fresh interpreter: no program was begun


def test_a_second_program_does_not_see_the_first() -> None:
    with pd.Program() as first:
        recurrent("float32")
        with pd.Program() as second:
            recurrent("float32")
        pd.Variable(shape=[2, 2])
    assert str(first) != str(second)
    assert len(first.parameters) == len(second.parameters) + 1
