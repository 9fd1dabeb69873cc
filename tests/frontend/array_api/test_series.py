"""Differences, filters, powers and functions of single numbers, as NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, ProgramError, ShapeError
from tests.frontend.array_api.oracles import Case, both, hold_slopes, hold_values
from tests.frontend.refusing import get, prog, refuse_here
from tests.plugins.shares import thorough
from tests.support.onnx_round_trip import check_exported

__all__ = ["prog"]

RNG = np.random.default_rng(13)
X, LONG, SHORT = RNG.normal(size=(5, 3)), RNG.normal(size=7), RNG.normal(size=4)
ODD = np.array([0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf])
NEAR = np.array([0.0, 1e-3, 0.1, 0.2, -1.7])
BITS = np.array([True, True, False, True])


SMOOTH = [
    Case("diff", *both("diff"), (X,)),
    Case("diff_twice", *both("diff", n=2, axis=0), (X,)),
    Case("diff_joined", lambda x, y: br.signal.diff(x, prepend=y),
         lambda x, y: np.diff(x, prepend=y),
         (X, X[:, :2])),
    Case("central", lambda x: br.signal.central_difference(x, 0.5, 0),
         lambda x: np.gradient(x, 0.5, axis=0), (X,)),
    Case("trapezoid", *both("trapezoid", dx=0.5, axis=0), (X,)),
    Case("trapezoid_places", *both("trapezoid", axis=0), (X, SHORT.repeat(2)[:5]), fixed=True),
    Case("trapezoid_each", *both("trapezoid"), (X, X**2)),
    Case("unwrap", *both("unwrap"), (3 * X,)),
    Case("unwrap_axis", *both("unwrap", 2.5, axis=0, period=2.0), (3 * X,)),
    *(
        Case(f"{name}_{mode}_{len(short)}", *both(name, mode=mode), (LONG, short), fixed=True)
        for name in ("convolve", "correlate")
        for mode in ("full", "same", "valid")
        for short in (SHORT, SHORT[:3])
    ),
    Case("vander", *both("vander", 4), (LONG,)),
    Case("polyval", lambda p, x: br.special.polyval(p, x), np.polyval, (SHORT, X), fixed=True),
    Case("sinc", br.special.sinc, np.sinc, (NEAR,)),
    Case("lerp", br.lerp, lambda x, y, w: x + w * (y - x), (X, X[0], X[:, :1]), fixed=True),
    Case("copysign", lambda x: br.copysign(x, [1.0, -0.0, -2.0]),
         lambda x: np.copysign(x, [1.0, -0.0, -2.0]), (X,)),
    Case("log10", lambda x: br.log10(br.exp(x)), lambda x: np.log10(np.exp(x)), (X,)),
    Case("degrees", lambda x: br.deg2rad(br.rad2deg(x)), lambda x: x, (X,)),
    Case("rot90", *both("rot90", -1), (X,)),
]  # fmt: skip
"""The functions with gradients with respect to all float operands."""
EXACT = [
    *(Case(f"rot90_{k}", *both("rot90", k), (X,)) for k in range(4)),
    Case("diff_of_bools", *both("diff"), (BITS,)),
    Case("diff_of_none", *both("diff", axis=0), (X[:1],), fixed=True),
    Case("convolve_of_integers", *both("convolve"), (np.arange(5), np.arange(3)), fixed=True),
    Case("convolve_exchanged", *both("convolve", mode="same"), (SHORT, LONG), fixed=True),
    Case("vander_up", *both("vander", increasing=True), (np.arange(4),), fixed=True),
    Case(
        "polyval_of_list",
        lambda x: br.special.polyval([2, 0, 1], x),
        lambda x: np.polyval([2, 0, 1], x),
        (X,),
    ),
    Case("nan_to_num", *both("nan_to_num"), (ODD,)),
    Case("nan_to_num_given", *both("nan_to_num", nan=3.0, posinf=1.0, neginf=-1.0), (ODD,)),
    Case(
        "signbit", lambda x: br.signbit(x[:4]), lambda x: np.signbit(x[:4]), (ODD,), fixed=True
    ),
    Case("heaviside", *both("heaviside", 0.5), (ODD,)),
    Case(
        "copysign_odd",
        lambda x: br.copysign(2.0, x[:4]),
        lambda x: np.copysign(2.0, x[:4]),
        (ODD,),
        fixed=True,
    ),
    Case("isclose", *both("isclose"), (ODD, ODD + np.array([1e-9, 0, 1e-3, 0, 0, 0, 0]))),
    Case("isclose_nan", *both("isclose", equal_nan=True), (ODD, ODD)),
    Case("isclose_of_bools", *both("isclose"), (BITS, ~BITS)),
    Case(
        "allclose",
        lambda x: (br.allclose(x, x + 1e-9), br.allclose(x, -x)),
        lambda x: (np.True_, np.False_),
        (X,),
    ),
    Case("isin", *both("isin", [1.5, np.nan, 0.0]), (ODD,)),
    Case("isin_not", *both("isin", np.zeros((0, 2), int), invert=True), (np.arange(4),)),
    Case(
        "count",
        lambda x: br.count_nonzero(x, axis=0),
        lambda x: np.count_nonzero(x, axis=0),
        (BITS[:, None],),
    ),
    *(
        Case(
            name,
            lambda x, n=name: getattr(br, n)(x, axis=0),
            lambda x, n=name: getattr(np, n)(x, axis=0),
            (np.where(X > 0.4, np.nan, X),),
        )
        for name in ("nansum", "nanprod", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd")
    ),
    Case(
        "nothing_left",
        lambda x: (br.nanmax(x, 1), br.nanmean(x, 1), br.nansum(x, 1), br.nanvar(x, 1)),
        lambda x: (np.full(2, np.nan), np.full(2, np.nan), np.zeros(2), np.full(2, np.nan)),
        (np.full((2, 3), np.nan),),
    ),
    Case("nansum_of_integers", *both("nansum"), (np.arange(4),)),
    Case("fftshift", lambda x: br.fft.fftshift(x, 1), lambda x: np.fft.fftshift(x, 1), (X,)),
    Case("ifftshift", br.fft.ifftshift, np.fft.ifftshift, (X,), fixed=True),
    Case("fft2", lambda x: br.fft.ifft2(br.fft.fft2(x)), lambda x: x + 0j, (X,)),
    Case(
        "rfft2",
        lambda x: (br.fft.rfft2(x), br.fft.irfft2(br.fft.rfft2(x), n=3)),
        lambda x: (np.fft.rfft2(x), x),
        (X,),
    ),
    Case(
        "frequencies",
        lambda x: (br.fft.fftfreq(5, 0.5, "f8"), br.fft.rfftfreq(6, dtype="f8") * x[0]),
        lambda x: (np.fft.fftfreq(5, 0.5), np.fft.rfftfreq(6) * x[0]),
        (NEAR + 1.0,),
        fixed=True,
    ),
]


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_values_are_those_of_numpy(mode: str) -> None:
    hold_values([*SMOOTH, *EXACT], mode)


@pytest.mark.unoptimized
@pytest.mark.parametrize("cases", [SMOOTH[7::8], thorough((SMOOTH,))])
def test_slopes_are_those_of_differences(cases: list[Case], rng: np.random.Generator) -> None:
    hold_slopes(cases, rng)


def test_steps_and_branches_take_them_row_by_row(mode: str) -> None:
    steps, lengths = RNG.normal(size=(3, 2, 5)), np.array([3, 1])
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 5], dtype="float64")
        net = br.create_rnn(lengths=br.data("n", ["b"], dtype="int64"))
        with net.stepnet() as step:
            now = step.add_input(x)
            total = step.add_memory(init=br.zeros(["b"], "float64"))
            total.update(total + br.signal.trapezoid(br.signal.unwrap(now, axis=1), axis=1))
        branch = br.create_if_else(net.final(total) > 0.0)
        with branch.true_block() as case:
            case.add_output(br.signal.diff(case.add_input(x[0]), axis=1))
        with branch.false_block() as case:
            case.add_output(br.special.sinc(case.add_input(x[1]))[:, 1:])
    made = [net.final(total), branch()]
    found = br.Executor(mode=mode).run(prog, br.Scope(), {"x": steps, "n": lengths}, fetch=made)
    there = np.arange(3)[:, None] < lengths
    totals = (np.trapezoid(np.unwrap(steps, axis=2), axis=2) * there).sum(0)
    np.testing.assert_allclose(found[0], totals)
    parts = np.diff(steps[0], axis=1), np.sinc(steps[1])[:, 1:]
    np.testing.assert_allclose(found[1], np.where(totals[:, None] > 0, *parts))


@pytest.mark.parametrize(
    ("error", "do", "parts"),
    [
        (
            ProgramError,
            lambda: br.signal.diff(get("y"), n=-1),
            ["diff: expected a non-negative order, got -1"],
        ),
        (ShapeError, lambda: br.signal.diff(get("y"), axis=1), ["diff"]),
        (
            ShapeError,
            lambda: br.signal.central_difference(np.ones(1)),
            ["expected at least two points"],
        ),
        (
            ProgramError,
            lambda: br.signal.convolve(get("y"), [1.0], "whole"),
            ["unknown mode 'whole'"],
        ),
        (
            ShapeError,
            lambda: br.signal.convolve(get("y"), get("x")),
            ["convolve: expected two vectors"],
        ),
        (
            ShapeError,
            lambda: br.signal.convolve(get("y"), get("y")),
            ["convolve: expected a sequence of constant size"],
        ),
        (
            ShapeError,
            lambda: br.signal.correlate([1.0], [1.0, 2.0]),
            ["no longer than the first"],
        ),
        (ShapeError, lambda: br.linalg.vander(get("y")), ["vander: expected a vector", "n="]),
        (
            ShapeError,
            lambda: br.special.polyval(get("y"), get("x")),
            ["polyval: expected a vector of coefficients"],
        ),
        (
            ShapeError,
            lambda: br.image.rot90(get("x"), axes=(0, -2)),
            ["rot90: expected two different axes"],
        ),
        (
            ShapeError,
            lambda: br.fft.fftshift(get("x")),
            ["fftshift: expected an axis of constant size"],
        ),
        (ProgramError, lambda: br.fft.fftfreq(0), ["fftfreq: expected a size of at least 1"]),
        (
            DTypeError,
            lambda: br.signbit(np.ones(1, complex)),
            ["signbit: expected real operands, got complex128"],
        ),
        (ShapeError, lambda: br.isclose(get("x"), get("w")), ["broadcast"]),
    ],
)
def test_invalid_arguments_raise_errors_at_the_users_line(
    prog: br.Program, error: type[Exception], do: Callable[[], Any], parts: list[str]
) -> None:
    refuse_here(prog, error, do, *parts)


def test_compositions_are_models_of_onnx(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", [5, 3])
        made = [br.signal.unwrap(x, axis=0), br.signal.convolve(x[:, 0], x[:, 1], "same"),
                br.special.sinc(x),
                br.nan_to_num(x), br.isclose(x, x + 1e-7), br.special.polyval([1.0, 2.0], x),
                br.signal.central_difference(x, axis=0), br.isin(x, [0.0, 1.0])]  # fmt: skip
    check_exported(prog, [{"x": X.astype("f4")}], made, tmp_path)
