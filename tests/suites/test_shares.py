"""A share of the suites of other projects whose packages are installed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from suites.case import Verdict
from suites.runner import chosen, records, run, verdict

PACKAGES = {"jax": "jax", "torch": "torch", "onnx_files": "skl2onnx"}
"""The suites, and the package without which nothing of a suite runs."""
CASES = 16
"""The number of cases of each group in a test."""


@pytest.mark.thorough
@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("suite", PACKAGES)
def test_no_case_differs_or_fails(suite: str, part: float, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[suite])
    module = f"suites.{suite}"
    groups = {
        name: replace(group, names=lambda group=group: _share(list(group.names()), part))
        for name, group in importlib.import_module(module).GROUPS.items()
    }
    path = tmp_path / "share.jsonl"
    run(module, groups, chosen(groups, {}), path, workers=1)
    found = records(path)
    wrong = {Verdict.DIFFERS, Verdict.FAILED}
    assert not {case: r["checks"] for case, r in found.items() if verdict(r) in wrong}
    assert found


def _share(names: list[str], part: float) -> list[str]:
    """A few names at even distances, from a place that depends on the part."""
    step = max(1, len(names) // CASES)
    return names[int(part * step) :: step][:CASES]
