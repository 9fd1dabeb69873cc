"""Windows and pads of one value along an axis that lies on several devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import gradients
from braces.extend.types import FLOAT64, Dim
from tests.ops.cases import Built, Case, build_together, cases, run_together, tangled
from tests.plugins.shares import thorough

pytestmark = pytest.mark.unoptimized

SIZE, DEVICES = 16, 8
LAYOUT = br.Layout(br.Mesh({"data": DEVICES}), {"t": "data"})
Use = Callable[[br.Var], br.Var]


def padded(value: float, low: int = 1) -> Use:
    return lambda x: br.pad(x, ((0, 0), (0, 0), (low, 1), (0, 0)), value=value)


def convolved(x: br.Var) -> br.Var:
    return br.conv2d(x, br.constant(np.linspace(-1, 1, 12).reshape(2, 2, 3, 1)), padding="same")


USES: dict[str, Use] = {
    "pad 0": padded(0.0),
    "pad 1": padded(1.0),
    "pad -2 by two": padded(-2.0, 2),
    "cumsum": lambda x: br.cumsum(x, axis=2),
    "cumprod": lambda x: br.cumprod(x, axis=2),
    "cummax": lambda x: br.cummax(x, axis=2),
    "cummin": lambda x: br.cummin(x, axis=2),
    "cumlogsumexp": lambda x: br.special.cumlogsumexp(x, axis=2),
    "max_pool": lambda x: br.max_pool2d(x, (3, 1), stride=1, padding="same"),
    "avg_pool": lambda x: br.avg_pool2d(x, (3, 1), stride=1, padding="same"),
    "min_pool": lambda x: -br.max_pool2d(-x, (3, 1), stride=1, padding="same"),
    "conv": convolved,
    "diff": lambda x: br.signal.diff(x, axis=2),
    "behind": lambda x: x[:, :, 1:] * x[:, :, :-1],
    "flip": lambda x: br.flip(x, axis=2) * x,
    "roll": lambda x: br.roll(x, 1, axis=2) * x,
    "concat": lambda x: br.concat([x[:, :, :1], x, x], axis=2),
    "frame": lambda x: br.signal.frame(x, 3, 1, axis=2),
    "softmax": lambda x: br.softmax(x, axis=2),
}


def check(chosen: Sequence[str]) -> None:
    """Hold values and gradients of some uses of one value against those of one device."""
    with br.Program() as program:
        x = br.data("x", [2, 2, "t", 3], dtype="float64")
        outs = [USES[name](x) for name in chosen]
        losses = [br.sum(br.sin(out)) for out in outs]
        (together,) = gradients(losses, [x])
        alone = [gradients([loss], [x])[0] for loss in losses]
        (second,) = gradients([br.sum(br.cos(together))], [x])
    feed = {"x": np.random.default_rng(0).normal(size=(2, 2, SIZE, 3)) * 0.7}
    fetch = [*outs, *alone, together, second]
    one, several = (
        exe.run(program, br.Scope(), feed=feed, fetch=fetch)
        for exe in (br.Executor(), br.Executor(layout=LAYOUT))
    )
    for at, (want, got) in enumerate(zip(one, several, strict=True)):
        np.testing.assert_allclose(got, want, 1e-9, 1e-11, err_msg=f"{chosen} {at}")


PAIRS = [*combinations(USES, 2)]
FEW = [("pad 0", "pad 1"), ("cumsum", "cummax"), ("max_pool", "avg_pool")]


@pytest.mark.parametrize("pair", [p if p in FEW else thorough((p,)) for p in PAIRS])
def test_two_windows_of_one_value_are_those_of_one_device(pair: tuple[str, str]) -> None:
    check(pair)


@pytest.mark.thorough
@pytest.mark.parametrize("order", [1, -1])
def test_so_are_all_of_them_together(order: int) -> None:
    check([*USES][::order])


# ---- convolutions, by their windows ----------------------------------------------------------

WAYS: dict[str, dict[str, Any]] = {
    "stride 2, padding 2": {"stride": 2, "padding": (2, 2)},
    "stride 3, padding 1": {"stride": 3, "padding": (1, 1)},
    "stride 2, dilation 2": {"stride": 2, "dilation": 2, "padding": (2, 1)},
    "padding beyond the window": {"padding": (4, 3)},
    "groups": {"padding": "same", "groups": 2},
    "groups, stride 2": {"stride": 2, "padding": (1, 1), "groups": 4},
}
CUT_AXES = {"batch": 0, "features": 1, "space": 2}


def check_convolution(
    compute: Callable[..., br.Var], ways: Mapping[str, Any], axis: int, kernel_axis: int | None
) -> None:
    """Hold a convolution and its derivatives, axes cut, against those of one device."""
    shape, kernel = [8, 8, SIZE, 8], [8, 8, 3, 3]
    kernel[1] //= ways.get("groups", 1)
    rng, layout = np.random.default_rng(0), br.Layout(br.Mesh({"d": DEVICES}), {"cut": "d"})
    feed = {"x": rng.normal(size=shape), "w": rng.normal(size=kernel)}
    with br.Program() as program:
        x = br.data("x", [*shape[:axis], ("cut", shape[axis]), *shape[axis + 1 :]], "float64")
        w = br.data(
            "w",
            [("cut", n) if at == kernel_axis else n for at, n in enumerate(kernel)],
            "float64",
        )
        out = compute(x, w, **ways)
        first = gradients([br.sum(br.sin(out))], [x, w])
        second = gradients([br.sum(br.cos(grad)) for grad in first], [x, w])
    one, several = (
        exe.run(program, br.Scope(), feed=feed, fetch=[out, *first, *second])
        for exe in (br.Executor(), br.Executor(layout=layout))
    )
    for want, got in zip(one, several, strict=True):
        np.testing.assert_allclose(got, want, 1e-7, 1e-9)


def test_the_weight_gradient_of_a_strided_padded_convolution_is_that_of_one_device() -> None:
    layout = br.Layout(br.Mesh({"data": DEVICES}), {"t": "data"})
    with br.Program() as program:
        x = br.data("x", [2, 3, "t", 4], dtype="float64")
        w = br.data("w", [2, 3, 3, 3], dtype="float64")
        loss = br.sum(br.sin(br.conv2d(x, w, stride=2, padding=(2, 2))))
        fetch = gradients([loss], [x, w])
    rng = np.random.default_rng(0)
    feed = {"x": rng.normal(size=(2, 3, SIZE, 4)), "w": rng.normal(size=(2, 3, 3, 3))}
    one, several = (
        exe.run(program, br.Scope(), feed=feed, fetch=fetch)
        for exe in (br.Executor(), br.Executor(layout=layout))
    )
    for want, got in zip(one, several, strict=True):
        np.testing.assert_allclose(got, want, 1e-9, 1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("kernel_axis", [None, 0, 1])
@pytest.mark.parametrize("axis", CUT_AXES.values(), ids=CUT_AXES)
@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("compute", [br.conv2d, br.layers.conv_transpose2d])
def test_so_are_convolutions_whichever_axis_is_cut(
    compute: Callable[..., br.Var], ways: Mapping[str, Any], axis: int, kernel_axis: int | None
) -> None:
    check_convolution(compute, ways, axis, kernel_axis)


# ---- every operator --------------------------------------------------------------------------


FITTING = {"symbolic_slice": DEVICES}
"""Another size, by module: windows of more do not fit into the other axes."""


@cache
def cut() -> dict[str, list[tuple[Case, str]]]:
    """By module, the examples and the size in each that several devices have parts of."""
    found: dict[str, list[tuple[Case, str]]] = {}
    for case in cases(FLOAT64):
        family = case.definition.kernel.__module__.rpartition(".")[2]
        each = [(case, name) for name in case.symbols if not tangled(case, Dim.named(name))]
        found.setdefault(family, []).extend(each)
    return {family: each for family, each in found.items() if each}


def test_sizes_are_given_for_modules_of_operators() -> None:
    assert FITTING.keys() <= cut().keys()


@pytest.mark.thorough
@pytest.mark.parametrize("family", sorted(cut()))
def test_so_is_every_operator_alone(family: str) -> None:
    for name in sorted({name for _, name in cut()[family]}):
        built = build_together([case for case, size in cut()[family] if size == name])
        for one in built:
            one.fetch |= slopes(one)
        sizes = [one.case.sizes() | {name: FITTING.get(family, SIZE)} for one in built]
        feeds = [
            one.feed(one.case.values(s), {}, s) for one, s in zip(built, sizes, strict=True)
        ]
        layout = br.Layout(br.Mesh({"data": DEVICES}), {name: "data"})
        alone, found = (
            run_together(exe, built, feeds)
            for exe in (br.Executor(), br.Executor(layout=layout))
        )
        for one, want, got in zip(built, alone, found, strict=True):
            for key, value in want.items():
                what = f"{one.case} {key}"
                np.testing.assert_allclose(got[key], value, 1e-7, 1e-9, err_msg=what)


def slopes(one: Built) -> dict[str, br.Var]:
    """The gradients of a case."""
    floats = [x for each in one.inputs.values() for x in each if x.dtype.kind == "f"]
    outs = [x for each in one.outputs.values() for x in each if x.dtype.kind == "f"]
    if not floats or not outs or not one.case.definition.differentiable:
        return {}
    with one.program:
        found = gradients([br.sum(out * out) for out in outs], floats)
    return {f"grad {i}": grad for i, grad in enumerate(found) if grad is not None}
