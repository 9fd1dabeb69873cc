"""Rules of importers: our own operators, with the numbers of the systems they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import braces as br
from braces.equivalents import SYSTEMS
from braces.errors import BracesError
from braces.exchange.onnx.reader.rules import RULES as ONNX
from braces.exchange.onnx.runtime import session
from braces.exchange.paddle.rules import RULES as PADDLE
from braces.exchange.torch.reader import rule_of
from braces.exchange.torch.rules import RULES as TORCH
from braces.extend.operators import OPS, names_in
from braces.frontend.core import functions as ops
from torch_kinks import LINE, OF_SCALARS, POINTS, cases, margins, of_scalar

pytestmark = pytest.mark.unoptimized

# ---- our own operators -----------------------------------------------------------------------

DIFFERENT = {
    "torch leaky_relu": "the slope at zero is that of negative numbers",
    "torch ones_like": "of another dtype where one is said",
    "torch sgn": "the sign of NaN is 0",
    "torch sign": "the sign of NaN is 0",
    "torch softplus": "linear beyond a threshold",
    "torch zeros_like": "of another dtype where one is said",
    "paddle softplus": "linear beyond a threshold",
    "paddle hard_sigmoid": "of another slope where none is said",
    "paddle brelu": "of other bounds",
    "onnx HardSigmoid": "of another slope where none is said",
    "onnx Shrink": "a shrunk NaN is 0",
    "paddle where": "of three arrays",
    **dict.fromkeys(
        ("onnx Clip", "torch clamp", "torch clamp_max", "torch clamp_min", "torch clip"),
        "the slope at a bound is 1",
    ),
    **dict.fromkeys(("torch fmax", "torch fmin"), "a NaN is ignored"),
}
"""Rules that mean something else than the operator of their name, and why."""


def plain(name: str) -> str:
    """A name of an operator, however it is spelled."""
    return name.removeprefix("special_").replace("_", "").lower()


class Given:
    """A node of ONNX or an operator of Paddle with one or two inputs, and no attributes."""

    version = 22

    def __init__(self, *xs: br.Var) -> None:
        self.xs, self.count = xs, len(xs)

    def var(self, slot: Any) -> br.Var:
        value = self.value(slot)
        return self.xs[0] if value is None else value

    def vars(self, slot: Any = None) -> list[br.Var]:
        return list(self.xs)

    def value(self, slot: Any) -> br.Var | None:
        at = {"X": 0, "Y": 1}.get(slot, slot)
        return self.xs[at] if at in range(self.count) else None

    def maybe(self, slot: Any) -> br.Var | None:
        return self.value(slot) if slot else None

    def has(self, slot: Any) -> bool:
        return self.value(slot) is not None

    def attr(self, name: str, default: Any = None) -> Any:
        return default

    def flag(self, name: str, default: bool = False) -> bool:
        return default


def built(function: Callable[[br.Var], Any]) -> list[str] | None:
    """The types of the operators that a function of one array builds, if it can."""
    with br.Program() as program:
        x = br.data("x", [2, 3])
        try:
            out = function(x)
        except (BracesError, AssertionError, AttributeError, TypeError):
            return None
    fits = isinstance(out, br.Var) and str(out.type).endswith("[2,3]")
    return [op.type for op in program.definition.main.ops] if fits else None


NUMBER_BY_NUMBER = OPS.get("elu").axes_rule


def functions_of_one_number() -> dict[str, str]:
    """Our operators of one array that need nothing else, by their names in plain spelling."""
    each = [
        name
        for name, definition in OPS.definitions.items()
        if definition.axes_rule == NUMBER_BY_NUMBER and not definition.changes_only
    ]
    found = {plain(name): name for name in each if hasattr(ops, name)}
    own = {key: name for key, name in found.items() if built(ops.function_of(name)) == [name]}
    others = {plain(name): op_type for system in SYSTEMS for name, op_type in
              names_in(system).items()}  # fmt: skip
    return own | {name: op_type for name, op_type in others.items() if op_type in own.values()}


def rules_of_arrays() -> dict[str, Callable[..., Any]]:
    """All rules, as functions of arrays, by their system and name."""

    def of_node(rule: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda *xs: rule(Given(*xs))

    nodes = {f"onnx {name}": of_node(rule) for name, rule in ONNX.items()}
    nodes |= {f"paddle {name}": of_node(rule) for name, rule in PADDLE.items()}
    return nodes | {f"torch {name}": rule for name, rule in TORCH.items()}


def test_a_rule_for_what_is_an_operator_of_ours_builds_that_operator_and_nothing_else() -> None:
    own, checked = functions_of_one_number(), dict[str, Any]()
    for name, rule in rules_of_arrays().items():
        wanted = own.get(plain(name.partition(" ")[2]))
        if wanted is None or name in DIFFERENT:
            continue
        made = built(rule)
        if made is not None:
            checked[name] = made, [wanted]
    assert {name: pair for name, pair in checked.items() if pair[0] != pair[1]} == {}
    assert len(checked) > 90, len(checked)


NUMBERS_BY_NUMBERS = OPS.get("add").axes_rule
ELEMENTWISE = (NUMBER_BY_NUMBER, NUMBERS_BY_NUMBERS, OPS.get("where").axes_rule)
SAMPLES = np.array(
    [[-30, -7, -2.5, -1, -0.5, -0.125, 0], [0.125, 0.5, 1, 2.5, 7, 30, 90]], np.float32
)


def results(count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of our operators, and of rules that are formulas, of one array or two."""
    of_two = [
        name
        for name, definition in OPS.definitions.items()
        if definition.axes_rule == NUMBERS_BY_NUMBERS and hasattr(ops, name)
    ]
    own = sorted({*functions_of_one_number().values()}) if count == 1 else of_two
    outs, formulas = dict[str, br.Var](), set[str]()
    with br.Program() as program:
        xs = [br.constant(SAMPLES), br.constant(SAMPLES[::-1, ::3].repeat(3, 1)[:, :7])][:count]
        for name, rule in [
            *((name, ops.function_of(name)) for name in own), *rules_of_arrays().items()
        ]:  # fmt: skip
            before, out = len(program.table.ops), None
            with suppress(Exception):  # it needs other inputs
                out = rule(*xs)
            made = {op.type for op in program.table.ops[before:]} - {"cast", "constant"}
            elementwise = all(OPS.get(type_).axes_rule in ELEMENTWISE for type_ in made)
            if elementwise and isinstance(out, br.Var) and out.type == xs[0].type:
                outs[name] = out
                formulas |= {name} if len(made) > 1 else set()
    exe, scope = br.Executor(mode="interpret"), br.Scope()
    exe.init(program, scope)  # some rules draw
    found = exe.run(program, scope, fetch=outs)
    return {n: found[n] for n in own if n in outs}, {n: found[n] for n in formulas - {*own}}


@pytest.mark.parametrize("count", [1, 2])
def test_no_rule_is_a_formula_with_the_values_of_an_operator_of_ours(count: int) -> None:
    own, formulas = results(count)
    same = {
        name: op_type
        for name, values in sorted(formulas.items())
        for op_type, wanted in own.items()
        if np.allclose(values, wanted, rtol=1e-5, atol=1e-6, equal_nan=True)
    }
    assert {name: op_type for name, op_type in same.items() if name not in DIFFERENT} == {}
    assert len(formulas) > 15, formulas
    if count == 1:
        assert same["torch softplus"] == "softplus"  # a formula is found, by its values


# ---- torch -----------------------------------------------------------------------------------

ANSWERS = dict(np.load(Path(__file__).with_name("torch_kinks.npz")))
"""Written by scripts/torch_kinks.py."""
CERTAIN = ("special_xlog1py|2", "xlogy|2")
"""Slopes that are 0 / 0, so NaN in PyTorch, beside a logarithm of 0 that counts for nothing.
Ours are 0 there, so that log-probabilities at probabilities of 0 and 1 have finite slopes."""


def torch_programs() -> tuple[br.Program, dict[str, tuple[br.Var, list[br.Var | None]]]]:
    """The values and gradients of all cases, of constants in the program."""
    made: dict[str, tuple[br.Var, list[br.Var | None]]] = {}
    with br.Program() as program:
        for case, (name, arrays, given) in cases().items():
            xs = [br.constant(array) for array in arrays]
            last = [br.constant(v) for v in given] if name == "lerp.Tensor" else list(given)
            rule = rule_of(name)
            assert rule is not None, name
            out = rule(*xs, *last)
            out = out[0] if isinstance(out, tuple) else out
            floats = out.dtype.kind == "f"
            made[case] = out, br.gradients([out], xs) if floats else [None] * len(xs)
    return program, made


def test_operators_of_torch_have_its_values_and_gradients_at_kinks_and_extremes() -> None:
    program, made = torch_programs()
    fetches = {
        f"{case}|{at}": var
        for case, (out, grads) in made.items()
        for at, var in enumerate([out, *grads])
        if var is not None
    }
    found = br.Executor(mode="interpret").run(program, br.Scope(), fetch=fetches)
    slopes = {key: wanted for key, wanted in ANSWERS.items() if "|" in key}
    assert {key.partition("|")[0] for key in slopes} == made.keys()
    for key, wanted in slopes.items():
        case, _, part = key.partition("|")
        got = np.asarray(found.get(key, np.zeros_like(wanted)), wanted.dtype)
        if part != "0":  # there is no slope where there is no number
            hidden = slope_is_open(case, part)
            got, wanted = np.where(hidden, 0.0, got), np.where(hidden, 0.0, wanted)
        if key in CERTAIN:
            wanted = np.where(np.isnan(wanted), 0.0, wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-30, err_msg=key)


def slope_is_open(case: str, part: str) -> Any:
    """Where no slope is compared: what has no value, or of NaN."""
    _, arrays, _ = cases()[case]
    unknown = np.isnan(arrays[int(part) - 1])
    value = ANSWERS[f"{case}|0"]
    return unknown | np.isnan(value) if value.shape == unknown.shape else unknown


def test_margins_of_torch_repeat_numbers_that_are_taken_away_at_the_other_end() -> None:
    with br.Program() as program:
        x = br.constant(LINE)
        made = {name: TORCH["pad"](x, *given) for name, given in margins().items()}
    found = br.Executor(mode="interpret").run(program, br.Scope(), fetch=made)
    for name, got in found.items():
        np.testing.assert_array_equal(got, ANSWERS[name], err_msg=name)


def test_arrays_without_axes_have_an_axis_0_in_torch() -> None:
    made = {}
    with br.Program() as program:
        for name in OF_SCALARS:
            operator, given = of_scalar(name, br.constant)
            rule = rule_of(operator)
            assert rule is not None, name
            out = rule(*given)
            made[name] = out[0] if isinstance(out, tuple) else out
    found = br.Executor(mode="interpret").run(program, br.Scope(), fetch=made)
    for name, got in found.items():
        np.testing.assert_allclose(got, ANSWERS[f"scalar {name}"], err_msg=name, strict=True)


# ---- ONNX ------------------------------------------------------------------------------------

OURS: Mapping[str, Callable[[br.Var], br.Var]] = {
    "Abs": br.abs, "Acosh": br.acosh, "Asinh": br.asinh, "Atanh": br.atanh,
    "Celu": br.layers.celu, "Elu": br.elu, "Erf": br.special.erf, "Gelu": br.gelu,
    "HardSwish": br.layers.hard_swish,
    "LeakyRelu": br.leaky_relu, "Mish": br.layers.mish, "Relu": br.relu, "Selu": br.layers.selu,
    "Sigmoid": br.sigmoid, "Softplus": br.softplus, "Softsign": br.layers.softsign,
    "Tanh": br.tanh,
    "HardSigmoid alpha=0.16666667 beta=0.5": br.layers.hard_sigmoid,
    "Celu alpha=0.5": lambda x: br.layers.celu(x, alpha=0.5),
    "Clip min=-1.0 max=3.0": lambda x: br.clip(x, min=-1.0, max=3.0),
    "Clip min=0.0": lambda x: br.clip(x, min=0.0),
    "Elu alpha=2.0": lambda x: br.elu(x, alpha=2.0),
}  # fmt: skip
"""What nodes of ONNX are, by operator and attributes; the bounds of Clip are inputs."""
NUMBERS = POINTS[~np.isinf(POINTS)].astype(np.float32)
"""Without infinities: to ONNX Runtime no upper bound means the largest finite number."""


def onnx_model() -> onnx.ModelProto:
    """A model with a node for each of them."""
    nodes, bounds = [], []
    for at, name in enumerate(OURS):
        op_type, *words = name.split()
        attrs = {word.partition("=")[0]: float(word.partition("=")[2]) for word in words}
        inputs = ["x"]
        if op_type == "Clip":
            for key in attrs:
                bounds.append(
                    helper.make_tensor(f"{key}{at}", TensorProto.FLOAT, [], [attrs[key]])
                )
                inputs.append(f"{key}{at}")
            attrs = {}
        nodes.append(helper.make_node(op_type, inputs, [f"out{at}"], **attrs))
    outputs = [
        helper.make_tensor_value_info(f"out{at}", TensorProto.FLOAT, ["n"])
        for at in range(len(OURS))
    ]
    data = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph(nodes, "functions", data, outputs, bounds)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def test_operators_of_onnx_are_ours_at_kinks_and_give_what_onnx_runtime_gives(
    mode: str,
) -> None:
    model = onnx_model()
    program, _ = br.from_onnx(model)
    with program:
        x = br.get_variable("x")
        outs = [br.get_variable(name) for name in program.fetches]
        wanted = [function(x) for function in OURS.values()]
        grads = [br.gradients([out], [x])[0] for out in (*outs, *wanted)]
    fetch = [*outs, *wanted, *grads]
    found = br.Executor(mode=mode).run(program, br.Scope(), feed={"x": NUMBERS}, fetch=fetch)
    count = len(OURS)
    theirs = session(model.SerializeToString()).run(None, {"x": NUMBERS})
    for at, name in enumerate(OURS):
        np.testing.assert_allclose(found[at], theirs[at], rtol=2e-4, atol=1e-6, err_msg=name)
        np.testing.assert_array_equal(found[at], found[count + at], err_msg=name)
        ours, own = found[2 * count + at], found[3 * count + at]
        np.testing.assert_array_equal(ours, own, err_msg=f"gradient of {name}")


# ---- numbers ---------------------------------------------------------------------------------


def test_the_remainder_towards_zero_holds_for_the_smallest_integer() -> None:
    lowest = np.iinfo(np.int32).min
    x = np.array([lowest, lowest + 1, -7, 7, lowest], np.int32)
    y = np.array([3, 3, 3, -3, lowest], np.int32)
    with br.Program() as program:
        out = TORCH["fmod"](br.constant(x), br.constant(y))
    (found,) = br.Executor(mode="interpret").run(program, br.Scope(), fetch=[out])
    assert found.tolist() == np.fmod(x.astype(np.int64), y.astype(np.int64)).tolist()


def test_bounds_that_are_computed_receive_the_gradient_of_what_lies_beyond(mode: str) -> None:
    with br.Program() as program:
        x, low = br.data("x", [4], dtype="float64"), br.data("low", [], dtype="float64")
        grads = br.gradients([TORCH["clamp"](x, low, 2.0)], [x, low])
    feed = {"x": [0.0, 1.0, 2.0, 3.0], "low": 1.0}
    of_x, of_low = br.Executor(mode=mode).run(program, br.Scope(), feed=feed, fetch=grads)
    assert of_x.tolist() == [0.0, 1.0, 1.0, 0.0]
    assert of_low == 1.0
