"""The battery on several devices: values, gradients, second order and forward mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.testing.gradients import build_derivatives
from tests.control.battery.programs import CASES

pytestmark = pytest.mark.unoptimized

PARTS = 4
LAYOUTS = {name: br.Layout(br.Mesh({"data": PARTS}), {name: "data"}) for name in ("b", "t")}


def cut() -> Iterator[tuple[str, str]]:
    """Each program, and a size of it that has a name."""
    for name, case in CASES.items():
        sizes = {size for shape in case.shapes.values() for size in shape}
        yield from ((name, size) for size in sorted(sizes & LAYOUTS.keys(), key=str))


def grown(feeds: Mapping[str, Any], shapes: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Feeds that have parts for all devices along a size: copies, and then numbers nearby."""
    rng, found = np.random.default_rng(0), dict[str, Any]()
    for key, value in feeds.items():
        array = np.asarray(value)
        for axis, size in enumerate(shapes.get(key, ())):
            array = np.concatenate([array] * PARTS, axis) if size == name else array
        if array.dtype.kind == "f":
            array = array + rng.normal(size=array.shape) * 0.1
        found[key] = array
    return found


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "size"), [*cut()])
def test_all_of_it_is_that_of_one_device(name: str, size: str) -> None:
    case, rng = CASES[name], np.random.default_rng(1)
    made = build_derivatives(case.build, case.feeds[0], case.shapes)
    one, several = br.Executor(), br.Executor(layout=LAYOUTS[size])
    for feeds in case.feeds:
        fed = grown(feeds, case.shapes, size)
        fed |= {f"{key}.v": rng.normal(size=fed[key].shape) for key in made.inputs}
        alone, found = (
            exe.run(made.program, br.Scope(), feed=fed, fetch=made.fetches)
            for exe in (one, several)
        )
        for key, value in alone.items():
            atol = 1e-12 * max(1.0, np.abs(value).max(initial=0.0))
            np.testing.assert_allclose(found[key], value, rtol=0, atol=atol, err_msg=key)
