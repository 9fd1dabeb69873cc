"""Comparison of public functions with those of NumPy: values, first and second derivatives.

All cases are one program, so that it is compiled once: each has data of its own, of which the
first axis has a symbolic size. Slopes are held along one direction, by central differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

import braces as br
from braces.homes import public_path

STEP = 1e-6


def both(name: str, *given: Any, **options: Any) -> list[Any]:
    """Ours and NumPy's of one name, with more arguments."""
    found = getattr(np, name, None) or getattr(np.linalg, name)
    function = attrgetter(public_path(name).removeprefix("br."))(br)
    return [
        lambda *xs: function(*xs, *given, **options),
        lambda *xs: found(*xs, *given, **options),
    ]


@dataclass(frozen=True)
class Case:
    """One call of a function.

    Attributes:
        name: What failures say.
        build: From variables to what is computed: one, or several.
        oracle: The same of arrays.
        given: The arrays.
        smooth: Whether it has slopes by all arrays of floats.
        curved: Whether it has second ones.
        fixed: Whether all sizes are numbers.
        tolerance: The error that is allowed.
    """

    name: str
    build: Callable[..., Any]
    oracle: Callable[..., Any]
    given: tuple[Any, ...]
    smooth: bool = True
    curved: bool = True
    fixed: bool = False
    tolerance: float = 1e-9


def several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def hold_values(cases: Sequence[Case], mode: str) -> None:
    """What cases compute is what their oracles do, shapes and kinds of dtypes included."""
    with br.Program() as prog:
        made = {case.name: several(case.build(*data_of(case))) for case in cases}
    feed = {f"{case.name}.{i}": x for case in cases for i, x in enumerate(case.given)}
    found = fetched(br.Executor(mode=mode), prog, feed, made)
    for case in cases:
        with np.errstate(all="ignore"):
            wanted = several(case.oracle(*case.given))
        assert len(found[case.name]) == len(wanted), case.name
        for got, want in zip(found[case.name], wanted, strict=True):
            got, want = np.asarray(got), np.asarray(want)
            kinds = got.dtype.kind, want.dtype.kind
            assert (got.shape, kinds[0]) == (want.shape, kinds[1]), f"{case.name}: {kinds}"
            np.testing.assert_allclose(
                got, want, rtol=case.tolerance, atol=case.tolerance, err_msg=case.name
            )


def fetched(
    exe: br.Executor, prog: br.Program, feed: dict[str, Any], wanted: dict[str, list[br.Var]]
) -> dict[str, list[Any]]:
    """Return the results of a run for each list of variables."""
    listed = {(name, i): x for name, found in wanted.items() for i, x in enumerate(found)}
    values = exe.run(prog, br.Scope(), feed=feed, fetch=list(listed.values()))
    found = dict(zip(listed, values, strict=True))
    return {name: [found[name, i] for i in range(len(xs))] for name, xs in wanted.items()}


def data_of(case: Case) -> list[br.Var]:
    """Data for the arrays of a case."""
    return [
        br.data(f"{case.name}.{i}", sizes(x.shape, case.fixed), dtype=str(x.dtype))
        for i, x in enumerate(map(np.asarray, case.given))
    ]


def sizes(shape: tuple[int, ...], fixed: bool) -> list[Any]:
    return list(shape) if fixed or not shape else [f"d{shape[0]}", *shape[1:]]


def hold_slopes(cases: Sequence[Case], rng: np.random.Generator) -> None:
    """Slopes are those of central differences, and slopes of slopes."""
    feed, moves = dict[str, Any](), dict[str, Any]()
    made = dict[str, list[br.Var]]()
    with br.Program() as prog:
        for case in cases:
            made[case.name] = _derivatives(case, rng, feed, moves)

    def run(step: float) -> Any:
        moved = {
            name: x + step * moves[name] if name in moves else x for name, x in feed.items()
        }
        return fetched(exe, prog, moved, made)

    exe = br.Executor()
    here, ahead, behind = run(0.0), run(STEP), run(-STEP)
    for case in cases:
        for order, slope in enumerate(here[case.name][1:]):
            wanted = (ahead[case.name][order] - behind[case.name][order]) / (2 * STEP)
            message = f"{case.name}, order {order + 1}"
            np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-5, err_msg=message)
        assert abs(here[case.name][1]) > 1e-6, f"{case.name} does not move"


def _derivatives(
    case: Case, rng: np.random.Generator, feed: dict[str, Any], moves: dict[str, Any]
) -> list[br.Var]:
    """A number, its slope along a direction, and the slope of that."""
    data = data_of(case)
    feed.update({f"{case.name}.{i}": np.asarray(x) for i, x in enumerate(case.given)})
    sources = [x for x in data if x.dtype.kind == "f"]
    moves.update({x.name: rng.normal(size=feed[x.name].shape) for x in sources})
    feed.update({f"{x.name}.way": moves[x.name] for x in sources})
    ways = [br.data(f"{x.name}.way", x.shape, dtype="float64") for x in sources]
    outs = [x for x in several(case.build(*data)) if x.dtype.kind == "f"]
    zero = br.constant(0.0, "float64")
    found = [sum((br.sum(br.sin(out)) for out in outs), zero)]
    for _ in range(1 + case.curved):
        grads = br.gradients([found[-1]], sources)
        found.append(sum((br.sum(g * way) for g, way in zip(grads, ways, strict=True)), zero))
    return found
