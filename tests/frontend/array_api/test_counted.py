"""Counts, segments, quantiles, tables and grids, as NumPy and JAX have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, IndexRangeError, ProgramError, ShapeError
from tests.frontend.array_api.oracles import Case, hold_slopes, hold_values
from tests.frontend.refusing import get, prog, refuse_here
from tests.plugins.shares import thorough
from tests.support.onnx_round_trip import check_exported

__all__ = ["prog"]

RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 3))
TIED = np.array([[1.0, 2.0, 2.0], [2.0, 2.0, 0.5], [1.0, 0.0, 2.0], [3.0, 2.0, 1.0]])
GAPS = np.where(X > 0.9, np.nan, X)
IDS = np.array([0, 2, 2, 0, 3, 3])
XP, FP = np.array([-1.0, -0.2, 0.4, 0.4, 2.0]), RNG.normal(size=5)
SOME = np.array([0, 2, 2, 0, 0, 2])
PARTS = np.array([0.0, 0.3, 1.0])


COMBINED = {
    "sum": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}  # fmt: skip


def segments(kind: str, count: int) -> Callable[..., Any]:
    """One slice after the other."""

    def combined(x: Any, ids: Any) -> Any:
        function, empty = COMBINED[kind]
        out = np.full((count, *x.shape[1:]), empty, float)
        function.at(out, ids, x)
        return out

    return combined


def means(x: Any, ids: Any) -> Any:
    sums, counts = segments("sum", 5)(x, ids), np.bincount(ids, minlength=5)
    return sums / np.maximum(counts, 1)[:, None]


def of_quantile(method: str, **options: Any) -> list[Any]:
    """Ours, and NumPy's."""
    return [
        lambda x, *q: br.quantile(x, *(q or [PARTS]), method=method, **options),
        lambda x, *q: np.quantile(x, *(q or [PARTS]), method=method, **options),
    ]


SMOOTH = [
    *(
        Case(
            f"segment_{kind}",
            lambda x, ids, k=kind: getattr(br, f"segment_{k}")(x, ids, 5),
            segments(kind, 5),
            (X, IDS if kind in ("sum", "prod") else np.arange(6) % 5),
        )
        for kind in COMBINED
    ),
    Case("segment_mean", lambda x, i: br.segment_mean(x, i, 5), means, (X, IDS)),
    Case("weights", lambda x, w: br.bincount(x, w, length=4), np.bincount, (IDS, X[:, 0])),
    Case(
        "histogram_weights",
        lambda x, w: br.histogram(x, [-1.0, 1.0, 2.5], weights=w, density=True)[0],
        lambda x, w: np.histogram(x, [-1.0, 1.0, 2.5], weights=w, density=True)[0],
        (IDS, X[:, 0] + 3.0),
    ),
    Case("median", lambda x: br.median(x, axis=0), lambda x: np.median(x, axis=0), (X,)),
    Case("median_of_all", br.median, np.median, (X[:5],)),
    Case("quantile", *of_quantile("linear", axis=(1, 0)), (X,)),
    Case("quantile_kept", *of_quantile("linear", axis=1, keepdims=True), (X,)),
    Case(
        "percentile",
        lambda x: br.percentile(x, 12.5, axis=1),
        lambda x: np.percentile(x, 12.5, axis=1),
        (X,),
    ),
    Case(
        "nanmedian", lambda x: br.nanmedian(x, axis=1), lambda x: np.nanmedian(x, axis=1), (X,)
    ),
    Case("interp", br.signal.interp, np.interp, (X, XP, FP)),
    Case(
        "interp_ends",
        lambda *a: br.signal.interp(*a, left=-3.0, right=br.nan),
        lambda *a: np.interp(*a, left=-3.0, right=np.nan),
        (X[:2] - 0.1, XP, FP),
    ),
    Case(
        "interp_period",
        lambda *a: br.signal.interp(*a, period=1.7),
        lambda *a: np.interp(*a, period=1.7),
        (3 * X, XP + 0.01 * np.arange(5), FP),
    ),
    Case(
        "meshgrid",
        lambda x, y: br.meshgrid(x, y, 2.0),
        lambda x, y: np.meshgrid(x, y, 2.0),
        (FP, X[0]),
    ),
]
"""The functions with gradients with respect to all float operands."""
EXACT = [
    *(
        Case(f"quantile_{m}", *of_quantile(m, axis=0), (TIED,), smooth=False)
        for m in ("lower", "higher", "midpoint", "nearest", "linear")
    ),
    Case("quantile_given", *of_quantile("linear"), (TIED, PARTS), smooth=False),
    Case("quantile_nan", *of_quantile("linear", axis=1), (GAPS,)),
    Case(
        "nanquantile",
        lambda x: br.nanquantile(x, [0.2, 0.9], axis=0),
        lambda x: np.nanquantile(x, [0.2, 0.9], axis=0),
        (GAPS,),
    ),
    Case("median_of_integers", br.median, np.median, (IDS.astype("i1"),), tolerance=1e-6),
    Case("median_of_infinite", br.median, lambda x: np.inf, (np.array([1.0, np.inf, np.inf]),)),
    Case(
        "bincount",
        lambda x: br.bincount(x, length=6),
        lambda x: np.bincount(x, minlength=6),
        (IDS,),
    ),
    Case(
        "bincount_of_nothing",
        lambda x: br.bincount(x, length=3),
        lambda x: np.zeros(3, int),
        (IDS[:0],),
    ),
    Case(
        "segments_of_nothing",
        lambda x, i: (br.segment_sum(x, i, 2), br.segment_max(x, i, 2)),
        lambda x, i: (np.zeros((2, 3)), np.full((2, 3), -np.inf)),
        (X[:0], IDS[:0]),
    ),
    *(
        Case(
            f"segment_{kind}_with_none",
            lambda x, i, k=kind: getattr(br, f"segment_{k}")(x, i, 5),
            segments(kind, 5),
            (X, IDS),
        )
        for kind in ("max", "min")
    ),
    Case(
        "segment_max_of_integers",
        lambda x, i: br.segment_max(x, i, 3),
        lambda x, i: np.array([4, -(2**31), 5]),
        (np.arange(6, dtype="i4"), SOME),
    ),
    Case(
        "segment_sum_of_small",
        lambda x, i: br.segment_sum(x, i, 3),
        lambda x, i: np.array([300, 0, 300]),
        (np.full(6, 100, "i1"), SOME),
    ),
    Case(
        "segments_of_two_axes",
        lambda x, i: br.segment_sum(x, i, 3),
        lambda x, i: segments("sum", 3)(x.ravel(), i.ravel()),
        (TIED, np.arange(12).reshape(4, 3) % 3),
    ),
    Case("histogram", lambda x: br.histogram(x, 4), lambda x: np.histogram(x, 4), (X,)),
    Case(
        "histogram_of_one",
        lambda x: br.histogram(x, 3),
        lambda x: np.histogram(x, 3),
        (np.ones(4),),
    ),
    Case(
        "histogram_range",
        lambda x: br.histogram(x, 4, range=(-0.5, 0.5)),
        lambda x: np.histogram(x, 4, range=(-0.5, 0.5)),
        (X,),
        tolerance=1e-6,
    ),
    Case(
        "histogram_ties",
        lambda x: br.histogram(x, [0.0, 1.0, 2.0, 2.5]),
        lambda x: np.histogram(x, [0.0, 1.0, 2.0, 2.5]),
        (TIED,),
    ),
    Case(
        "histogram_edges",
        lambda x, e: br.histogram(x, e, density=True),
        lambda x, e: np.histogram(x, e, density=True),
        (TIED, PARTS),
    ),
    Case(
        "histogram_nan",
        lambda x: br.histogram(x, 2, range=(-1.0, 1.0))[0],
        lambda x: np.histogram(x, 2, range=(-1.0, 1.0))[0],
        (GAPS,),
    ),
    *(
        Case(
            f"digitize_{right}",
            lambda x, r=right: br.digitize(x, [0.0, 1.0, 2.0], right=r),
            lambda x, r=right: np.digitize(x, [0.0, 1.0, 2.0], right=r),
            (TIED,),
        )
        for right in (True, False)
    ),
    Case(
        "interp_alone",
        lambda x: br.signal.interp(x, [1.0], [4.0]),
        lambda x: np.interp(x, [1.0], [4.0]),
        (TIED,),
    ),
    Case(
        "meshgrid_ij",
        lambda x, y: br.meshgrid(x, y, indexing="ij"),
        lambda x, y: np.meshgrid(x, y, indexing="ij"),
        (IDS, IDS[:0]),
    ),
]


@pytest.mark.unoptimized
@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_values_are_those_of_numpy(mode: str) -> None:
    hold_values([*SMOOTH, *EXACT], mode)


@pytest.mark.unoptimized
@pytest.mark.parametrize("cases", [SMOOTH[::5], thorough((SMOOTH,))])
def test_slopes_are_those_of_differences(cases: list[Case], rng: np.random.Generator) -> None:
    hold_slopes(cases, rng)


def test_searched_rows_are_each_on_their_own(mode: str) -> None:
    rows, sought = np.sort(X, axis=0).T.copy(), X[:3, :2]
    with br.Program() as prog:
        x, v = br.data("x", ["b", 6], dtype="float64"), br.data("v", ["b", 2], dtype="float64")
        at = br.searchsorted(x, v, side="right")
    found = br.Executor(mode=mode).run(prog, br.Scope(), {"x": rows, "v": sought}, fetch=at)
    wanted = [np.searchsorted(*pair, side="right") for pair in zip(rows, sought, strict=True)]
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.unoptimized
def test_rows_of_a_step_and_of_a_branch_stay_on_their_own(mode: str) -> None:
    steps, lengths = RNG.normal(size=(3, 4, 5)), np.array([3, 1, 0, 2])
    with br.Program() as prog:
        x = br.data("x", ["t", "b", 5], dtype="float64")
        net = br.create_rnn(lengths=br.data("n", ["b"], dtype="int64"))
        with net.stepnet() as step:
            now = step.add_input(x)
            total = step.add_memory(init=br.zeros(["b"], "float64"))
            total.update(total + br.median(now, axis=1) * br.nanmax(now, axis=1))
            step.add_output(br.signal.interp(now, [-1.0, 1.0], [0.0, 4.0]))
        branch = br.create_if_else(net.final(total) > 0.1)
        with branch.true_block() as case:
            row = case.add_input(x[0])
            case.add_output(br.quantile(row, 0.3, axis=1))
        with branch.false_block() as case:
            case.add_output(br.nanmean(case.add_input(x[1]), axis=1))
        outs = [net(), branch()]
        (slope,) = br.gradients([br.sum(outs[0]) + br.sum(outs[1])], [x])
    feed = {"x": steps, "n": lengths}
    found = br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch=[*outs, slope])
    there = np.arange(3)[:, None] < lengths
    moved = np.where(there, np.median(steps, axis=2) * steps.max(axis=2), 0.0).sum(0)
    lines = np.interp(steps, [-1.0, 1.0], [0.0, 4.0]) * there[..., None]
    np.testing.assert_allclose(found[0], lines)
    parts = np.quantile(steps[0], 0.3, axis=1), steps[1].mean(1)
    np.testing.assert_allclose(found[1], np.where(moved > 0.1, *parts))
    assert ((found[2] != 0).any(axis=2) >= there).all()


# ---- what does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "do", "parts"),
    [
        (
            ShapeError,
            lambda: br.segment_sum(get("x"), [0, 1, 2], 3),
            ["segment_sum: expected", "slice"],
        ),
        (
            DTypeError,
            lambda: br.segment_max(get("x"), get("y"), 3),
            ["segment_max: expected an integer dtype"],
        ),
        (
            ProgramError,
            lambda: br.segment_mean(get("y"), get("y"), get("loss")),
            ["segment_mean: invalid argument num_segments=", "known before the run"],
        ),
        (
            ProgramError,
            lambda: br.bincount([1], length=-1),
            ["bincount: expected a non-negative length=, got -1"],
        ),
        (ShapeError, lambda: br.bincount([[1]], length=3), ["bincount: expected", "reshape"]),
        (
            ShapeError,
            lambda: br.bincount([1, 2], [1.0], length=3),
            ["weights of the shape of x"],
        ),
        (ProgramError, lambda: br.digitize(get("y"), [1.0, 0.0]), ["digitize", "ascending"]),
        (ProgramError, lambda: br.histogram(get("y"), 0), ["at least one bin, got 0"]),
        (
            ProgramError,
            lambda: br.histogram(get("y"), range=(2.0, 1.0)),
            ["range", "(2.0, 1.0)"],
        ),
        (
            ShapeError,
            lambda: br.histogram(get("y"), weights=[1.0]),
            ["histogram: expected weights"],
        ),
        (ShapeError, lambda: br.histogram(get("y"), [1.0]), ["two edges"]),
        (
            ProgramError,
            lambda: br.quantile(get("y"), 1.5),
            ["quantile: expected quantiles", "1.5"],
        ),
        (
            ProgramError,
            lambda: br.quantile(get("y"), 0.5, method="middle"),
            ["unknown method 'middle'"],
        ),
        (ShapeError, lambda: br.median(np.zeros(0)), ["median of an empty array"]),
        (ShapeError, lambda: br.median(get("x"), axis=2), ["median"]),
        (
            ShapeError,
            lambda: br.signal.interp(get("y"), [1.0, 2.0], [1.0]),
            ["interp: expected vectors"],
        ),
        (
            ShapeError,
            lambda: br.signal.interp(get("y"), np.zeros(0), np.zeros(0)),
            ["at least one point"],
        ),
        (
            ProgramError,
            lambda: br.signal.interp(get("y"), [1.0], [1.0], period=0.0),
            ["positive period, got 0.0"],
        ),
        (
            ShapeError,
            lambda: br.meshgrid(get("x")),
            ["meshgrid: expected arrays of rank 0 or 1"],
        ),
        (ProgramError, lambda: br.meshgrid(get("y"), indexing="yx"), ["unknown indexing 'yx'"]),
        (
            ShapeError,
            lambda: br.searchsorted(get("y"), get("y"), side="up"),
            ["unknown side 'up'"],
        ),
        (
            ShapeError,
            lambda: br.searchsorted(get("x"), get("loss")),
            ["searchsorted: expected a sequence of rank 1"],
        ),
    ],
)
def test_invalid_arguments_raise_errors_at_the_users_line(
    prog: br.Program, error: type[Exception], do: Callable[[], Any], parts: list[str]
) -> None:
    refuse_here(prog, error, do, *parts)


def test_numbers_of_groups_that_there_are_not_are_errors_of_the_run(mode: str) -> None:
    with br.Program() as prog:
        ids = br.data("ids", ["n"], dtype="int32")
        out = br.bincount(ids, length=4)
    for wrong in (4, -1):
        with pytest.raises(IndexRangeError, match="group index is out of range") as caught:
            br.Executor(mode=mode).run(prog, br.Scope(), {"ids": [0, wrong]}, fetch=out)
        assert str(wrong) in str(caught.value)


def test_compositions_are_models_of_onnx(tmp_path: Path) -> None:
    with br.Program() as prog:
        x = br.data("x", [6, 3])
        made = [
            br.quantile(x, [0.2, 0.5], axis=0),
            br.searchsorted(br.sort(x[:, 0]), x[:, 1]),
            br.segment_max(x, IDS, 5),
            br.signal.interp(x, [-1.0, 0.0, 1.0], [0.0, 2.0, 1.0]),
            br.cov(x),
            br.nanvar(x, axis=1),
            br.histogram(x, 4)[0],
        ]
    check_exported(prog, [{"x": X.astype("f4")}], made, tmp_path)
