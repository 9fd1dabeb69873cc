"""The battery as models of ONNX: values, gradients and tangents in another runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from battery import CASES
from checking import derive, direction
from tests.exported import check_exported

pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("name", CASES)
def test_constructs_and_their_derivatives_give_the_same_elsewhere(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    made = derive(case.build, case.feeds[0], case.shapes, second=False)
    feeds = [
        {**feed, **{f"{n}.v": direction(n, np.shape(feed[n])) for n in made.inputs}}
        for feed in case.feeds
    ]
    fetch = list({var.name: var for var in made.fetches.values()}.values())
    check_exported(made.program, feeds, fetch, tmp_path)


@pytest.mark.parametrize("name", list(CASES)[::16])
def test_second_derivatives_give_the_same_elsewhere(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    made = derive(case.build, case.feeds[0], case.shapes)
    feed = dict(case.feeds[0])
    feed |= {f"{n}.v": direction(n, feed[n].shape) for n in made.inputs}
    fetch = list({var.name: var for var in made.fetches.values()}.values())
    check_exported(made.program, [feed], fetch, tmp_path)
