"""Comparisons that suites share: values in both modes, gradients and files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from suites.case import Check, attempt


def difference(made: Any, wanted: Any, rtol: float = 1e-4, atol: float = 1e-5) -> str:
    """The difference of two arrays in shape, dtype or values; empty if there is none."""
    made, wanted = np.asarray(made), np.asarray(wanted)
    if (made.shape, made.dtype) != (wanted.shape, wanted.dtype):
        return f"{made.dtype}{list(made.shape)} for {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind not in "fcV":
        same = np.array_equal(made, wanted)
        return "" if same else f"{np.sum(made != wanted)} of {wanted.size} elements differ"
    kind = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = made.astype(kind), wanted.astype(kind)
    with np.errstate(invalid="ignore"):
        near = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        most = np.nanmax(np.abs(a - b), initial=0.0, where=~near)
    return (
        ""
        if near.all()
        else f"{np.sum(~near)} of {b.size} elements differ, by up to {most:.2g}"
    )


def differences(made: Sequence[Any], wanted: Sequence[Any], **tolerances: float) -> str:
    """The first difference of two lists of arrays."""
    if len(made) != len(wanted):
        return f"{len(made)} results for {len(wanted)}"
    pairs = enumerate(zip(made, wanted, strict=True))
    texts = ((at, difference(*pair, **tolerances)) for at, pair in pairs)
    return next((f"result {at}: {text}" for at, text in texts if text), "")


SLOPE_STEP = 1e-5
"""The step of difference quotients in double precision."""


def only_second_is_slope(
    ends: Sequence[float], moves: Sequence[Any], first: Sequence[Any], second: Sequence[Any]
) -> bool:
    """Whether the second gradient is a slope along a direction, and the first is not.

    Args:
        ends: The values at `SLOPE_STEP` times the direction, and at its negative.
        moves: The direction: a move for each array with a gradient.
        first: The gradients by these arrays, in the convention of JAX.
        second: Others.
    """
    slope = (float(ends[0]) - float(ends[1])) / (2 * SLOPE_STEP)
    most = 1e-3 * max(1.0, abs(slope))
    near = [abs(_along(moves, grads) - slope) <= most for grads in (first, second)]
    return near == [False, True]


def _along(moves: Sequence[Any], grads: Sequence[Any]) -> float:
    """The slope along a direction by gradients in the convention of JAX."""
    pairs = zip(moves, grads, strict=True)
    return float(sum(np.sum(move * np.asarray(g).astype(complex)).real for move, g in pairs))


class Imported:
    """An imported program with the values of its parameters, and its comparisons."""

    def __init__(
        self, program: br.Program, values: Mapping[str, Any], feed: Mapping[str, Any]
    ) -> None:
        self.program, self.values, self.feed = program, dict(values), dict(feed)

    def run(self, mode: str, fetch: Sequence[Any] = (), *, seed: int = 0) -> list[Any]:
        """The values of the fetched variables, by default those of the program."""
        fetches = list(fetch or self.program.fetches)
        scope, executor = self._scope(seed), br.Executor(mode=mode)
        return executor.run(self.program, scope, feed=self.feed, fetch=fetches)

    def _scope(self, seed: int = 0) -> br.Scope:
        scope = br.Executor().init(self.program, br.Scope(), seed=seed)
        scope.update(self.values)
        return scope

    def gradients(self, total: br.Var, names: Sequence[str]) -> list[Any]:
        """The gradients of a variable with respect to others; zeros without a path."""
        with self.program:
            found = br.gradients(total, [self.program.var(name) for name in names])
        values = iter(self.run("compile", [grad for grad in found if grad is not None]))
        return [
            np.zeros_like(self.feed.get(name, self.values.get(name)))
            if grad is None
            else next(values)
            for name, grad in zip(names, found, strict=True)
        ]

    def reloaded(self) -> list[Any]:
        """The values of the model after `br.save_model` and `br.load_model`."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.brc"
            feeds, fetches = list(self.feed), list(self.program.fetches)
            br.save_model(path, self.program, self._scope(), feeds, fetches)
            made = br.load_model(path).run(**self.feed)
        return list(made.values()) if isinstance(made, Mapping) else [made]

    def text(self) -> str:
        """The difference of the program's text and that of its reparsed form; usually empty."""
        text = str(self.program)
        return "" if str(br.parse(text)) == text else "the reparsed program has another text"


def import_check(read: Callable[[], Imported]) -> tuple[Check, Imported | None]:
    """Import a case; the check, and the program if it is imported."""
    found = list[Imported]()
    check = attempt("import", lambda: found.append(read()) or "")
    return check, next(iter(found), None)


def value_checks(made: Imported, wanted: Sequence[Any], **tolerances: float) -> Iterator[Check]:
    """Compare values interpreted, compiled, and after a round trip through text and a file."""
    for what, run in (
        ("interpreted", lambda: made.run("interpret")),
        ("compiled", lambda: made.run("compile")),
        ("file", made.reloaded),
    ):
        yield attempt(what, lambda run=run: differences(run(), wanted, **tolerances))
    yield attempt("text", made.text)
