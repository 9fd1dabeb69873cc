"""A suite with a case for each verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np

import braces as br
from braces.errors import ShapeError
from suites.case import Check, Excluded, Group, attempt
from suites.comparison import Imported, value_checks


def _equal() -> Iterator[Check]:
    x = np.ones((2, 3), "f")
    yield from value_checks(Imported(*br.from_jax(lambda x: x * 2, x), {"x": x}), [2 * x])


def _differs() -> Iterator[Check]:
    x = np.ones((2, 3), "f")
    yield from value_checks(Imported(*br.from_jax(lambda x: x * 2, x), {"x": x}), [3 * x])


def _refused() -> Iterator[Check]:
    def refuse() -> str:
        raise ShapeError("no such shape", at="here")

    yield attempt("interpreted", refuse)


def _failed() -> Iterator[Check]:
    yield attempt("interpreted", lambda: str(1 // 0))


def _excluded() -> Iterator[Check]:
    raise Excluded("the original fails")


def _dies() -> Iterator[Check]:
    print("a message of a library")
    os._exit(3)


def _hangs() -> Iterator[Check]:
    time.sleep(600)
    yield Check("never", "equal")  # type: ignore[arg-type]


CASES = {
    "equal": _equal, "differs": _differs, "refused": _refused, "failed": _failed,
    "excluded": _excluded, "dies": _dies, "hangs": _hangs,
}  # fmt: skip
TITLE, PACKAGES = "Toy suite", ("numpy", "no-such-package")
GROUPS = {
    "toy": Group(
        0.5, lambda: [name for name in CASES if name != "hangs"], lambda name: CASES[name]()
    ),
    "slow": Group(
        1.0, lambda: ["hangs"], lambda name: CASES[name](), seconds=4, needs="Patience."
    ),
}
