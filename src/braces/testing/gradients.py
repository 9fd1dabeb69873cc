"""Comparison of the derivatives of a function with central differences.

For a scalar `y` of float64 inputs `x` and a fixed direction `v`, one program computes

    g = dy/dx        z = <g, v>        h = dz/dx        t = jvp(y; v)        s = jvp(z; v)

Then `t = z` and `s = <h, v>`, and `g` and `h` are the central differences of `y` and `z`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from braces.builder.source_line import with_user_line
from braces.builder.var import Var
from braces.errors import DTypeError
from braces.frontend.core import functions as ops
from braces.frontend.core.variables import constant, data as declare_data
from braces.passes.autodiff.common import as_list
from braces.passes.autodiff.forward_mode import jvp
from braces.passes.autodiff.reverse_mode import gradients
from braces.program import Program
from braces.runtime.executor import Executor
from braces.scope import Scope
from braces.testing.differences import STEP, central_differences
from braces.testing.modes import initialized_scope

Arrays = Mapping[str, Any]
MODES_AGREE, FORWARD_AGREES, SECOND_AGREES = 1e-9, 1e-9, 1e-8
"""Tolerances of values that differ by rounding alone."""
TOLERANCE = 2e-6


@dataclass
class DerivativeProgram:
    """A program with a scalar `y` and its derivatives.

    Attributes:
        program: The program.
        inputs: Names of the inputs that derivatives are by.
        order: The highest order of the derivatives.
        fetches: The values by name: `y`, `z`, `t`, `s`, and `g x` and `h x` of each input.
        executors: The executor of each mode.
        scope: The scope of all runs.
    """

    program: Program
    inputs: list[str]
    order: int = 2
    fetches: dict[str, Var] = field(default_factory=dict[str, Var])
    executors: dict[str, Executor] = field(
        default_factory=lambda: {mode: Executor(mode) for mode in ("compile", "interpret")}
    )
    scope: Scope = field(default_factory=Scope)

    def run(self, feed: Arrays, mode: str = "compile") -> dict[str, np.ndarray[Any, Any]]:
        """Return all values for a feed."""
        return self.executors[mode].run(self.program, self.scope, feed, self.fetches, seed=0)

    def has(self, kind: str, name: str) -> bool:
        """Return whether there is a derivative, as `h` by `x`."""
        return f"{kind} {name}" in self.fetches


def build_derivatives(
    function: Callable[..., Any],
    feed: Arrays,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    order: int = 2,
) -> DerivativeProgram:
    """Build the program of a scalar function of named inputs, with its derivatives.

    Args:
        function: A function from data variables by name to a scalar.
        feed: Arrays by name. Derivatives are by those of float64.
        shapes: The declared shapes of inputs with symbolic axes.
        order: 1, or 2 for second derivatives as well.
    """
    declared = {name: a.shape for name, a in feed.items()} | dict(shapes or {})
    with Program() as program:
        inputs = {
            name: declare_data(name, list(declared[name]), a.dtype.name)
            for name, a in feed.items()
        }
        floats = [name for name, a in feed.items() if a.dtype.kind == "f"]
        directions = [
            declare_data(f"{name}.v", list(inputs[name].shape), "float64") for name in floats
        ]
        built = DerivativeProgram(program, floats, order)
        built.fetches["y"] = function(**inputs)
        _add_derivatives(built, [inputs[name] for name in floats], directions)
    return built


def _add_derivatives(
    built: DerivativeProgram, inputs: list[Var], directions: list[Var]
) -> None:
    """Add the gradient and the tangent of `y`, then those of the derivative along `v`."""
    target = built.fetches["y"]
    for gradient_name, tangent_name in (("g", "t"), ("h", "s"))[: built.order]:
        grads = gradients([target], inputs)
        (tangent,) = jvp([target], inputs, directions)
        if tangent is not None:
            built.fetches[tangent_name] = tangent
        pairs = [(g, v) for g, v in zip(grads, directions, strict=True) if g is not None]
        named_grads = zip(built.inputs, grads, strict=True)
        built.fetches |= {f"{gradient_name} {n}": g for n, g in named_grads if g is not None}
        if not pairs or gradient_name == "h":
            return
        products = [ops.sum(g * v) for g, v in pairs]
        built.fetches["z"] = target = sum(products[1:], start=products[0])


def direction(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the fixed direction of an input."""
    return np.random.default_rng(len(name) + ord(name[0])).uniform(-1.0, 1.0, shape)


def feed_with_directions(built: DerivativeProgram, feed: Arrays) -> dict[str, Any]:
    """Return a feed with the directions of its inputs."""
    return {**feed, **{f"{n}.v": direction(n, np.shape(feed[n])) for n in built.inputs}}


def compare_derivatives(
    built: DerivativeProgram, feed: Arrays, tolerance: float = TOLERANCE, step: float = STEP
) -> None:
    """Compare both modes, both directions of differentiation, and central differences.

    Raises:
        AssertionError: If values differ.
    """
    feed = feed_with_directions(built, feed)
    compiled, interpreted = (built.run(feed, mode) for mode in ("compile", "interpret"))
    for name, value in compiled.items():
        assert np.all(np.isfinite(value)), f"{_described(name)} is not finite"
        _assert_near(value, interpreted[name], MODES_AGREE, f"{_described(name)}, interpreted")
    _compare_forward(built, feed, compiled)
    for name in built.inputs:
        slopes = central_differences(built.run, feed, name, ("y", "z"), step)
        _assert_near(
            compiled.get(f"g {name}", 0.0), slopes["y"], tolerance, _described(f"g {name}")
        )
        if built.order == 2:
            second = compiled.get(f"h {name}", 0.0)
            _assert_near(second, slopes["z"], tolerance, _described(f"h {name}"))


def _compare_forward(built: DerivativeProgram, feed: Arrays, values: Arrays) -> None:
    """Compare the tangents with the gradients along the same direction."""
    _assert_near(values.get("t", 0.0), values.get("z", 0.0), FORWARD_AGREES, "the tangent of y")
    along = sum(
        np.sum(values[f"h {n}"] * feed[f"{n}.v"]) for n in built.inputs if built.has("h", n)
    )
    _assert_near(values.get("s", along), along, SECOND_AGREES, "the tangent of the gradient")


def _described(name: str) -> str:
    kind, _, of = name.partition(" ")
    order = {
        "g": "the gradient with respect to",
        "h": "the second derivative with respect to",
    }.get(kind, "the value")
    return f"{order} {of or kind}"


def _assert_near(actual: Any, desired: Any, tolerance: float, name: str) -> None:
    """Compare arrays, relative to the largest desired value."""
    scale = 1.0 + np.max(np.abs(desired), initial=0.0)
    worst = np.max(np.abs(np.asarray(actual) - desired), initial=0.0)
    if not worst <= tolerance * scale:
        raise AssertionError(f"{name}: {actual} and {desired} differ by {worst:.3g}.")


@with_user_line
def check_gradients(
    function: Callable[..., Any],
    *inputs: Any,
    order: int = 2,
    tolerance: float = TOLERANCE,
    step: float = STEP,
) -> None:
    """Compare the derivatives of a function with central differences, in float64.

    The scalar is the sum of all outputs, weighted by fixed random numbers. Its gradient, and
    the gradient along a fixed direction of that gradient, are compared with differences by
    every element of every input. Forward mode is compared with reverse mode, and compiled runs
    with interpreted ones. The counterparts are `torch.autograd.gradcheck` with `gradgradcheck`,
    and `jax.test_util.check_grads`.

    Args:
        function: A function from variables to one variable, or a list or tuple of them.
            Parameters that it creates keep their initial values; pass weights as inputs for
            derivatives by them.
        inputs: Arrays. Floats become float64; others are held constant.
        order: 1 for first derivatives alone, 2 for second derivatives as well.
        tolerance: The largest difference, relative to 1 plus the largest derivative.
        step: The step of the differences.

    Raises:
        AssertionError: If derivatives differ.
        DTypeError: If the dtype of an output is not float64, so that finite differences are too
            coarse.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> x, w = np.ones((2, 3)), np.full((3, 4), 0.1)
        >>> br.testing.check_gradients(lambda x, w: br.tanh(x @ w), x, w)
        >>> @br.custom_gradient
        ... def wrong(x):
        ...     return br.square(x), lambda d: d * x
        >>> br.testing.check_gradients(wrong, x)
        Traceback (most recent call last):
            ...
        AssertionError: the gradient with respect to x: ...
    """
    feed = dict(zip(_input_names(function, len(inputs)), map(_as_double, inputs), strict=True))

    def scalar(**variables: Var) -> Var:
        return _weighted_sum(as_list(function(*variables.values())))

    built = build_derivatives(scalar, feed, order=order)
    built.scope = initialized_scope(built.program)
    compare_derivatives(built, feed, tolerance, step)


def _input_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the first parameters of a function, or `x0` and so on."""
    try:
        names = list(inspect.signature(function).parameters)[:count]
    except (TypeError, ValueError):
        names = []
    return names if len(names) == count else [f"x{i}" for i in range(count)]


def _as_double(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _weighted_sum(outputs: list[Var]) -> Var:
    """Return the sum of all outputs, each element weighted by a fixed random number."""
    terms: list[Var] = []
    for index, output in enumerate(outputs):
        if output.dtype != np.float64:
            raise DTypeError(
                f"check_gradients: expected float64 outputs; output {index} is {output.type}.",
                fix="Compute in the dtype of the inputs, or cast the output to float64.",
            )
        shape = tuple(int(size) for size in output.shape)
        weights = np.random.default_rng(index).uniform(0.5, 1.5, shape)
        terms.append(ops.sum(output * constant(weights)))
    return sum(terms[1:], start=terms[0])
