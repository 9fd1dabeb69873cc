"""Workflows, hooks and the Makefile: they name targets, scripts and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
AUTOMATION = [*WORKFLOWS, ROOT / ".pre-commit-config.yaml", ROOT / "Makefile"]

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="a source archive has no workflows")


def commands() -> list[str]:
    """The arguments of `make` in workflows."""
    texts = (path.read_text(encoding="utf-8") for path in WORKFLOWS)
    return [line for text in texts for line in re.findall(r": make (.*)", text)]


def test_workflows_call_targets_of_the_makefile() -> None:
    called = {word for line in commands() for word in line.split() if re.match("[a-z]", word)}
    assert {"lint", "types", "imports", "test", "coverage", "check-wheel"} <= called
    assert called <= TARGETS


def test_actions_are_pinned_by_commit_with_their_version_beside_it() -> None:
    lines = [
        line.strip()
        for path in WORKFLOWS
        for line in path.read_text(encoding="utf-8").splitlines()
        if "uses: " in line and "uses: ./" not in line
    ]
    assert len(lines) > 10
    for line in lines:
        assert re.fullmatch(r"(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_every_job_has_a_time_limit_and_no_workflow_may_write() -> None:
    for path in (path for path in WORKFLOWS if path.parent.name == "workflows"):
        text = path.read_text(encoding="utf-8")
        assert text.count("runs-on:") == text.count("timeout-minutes:"), path
        assert "\npermissions:\n  contents: read\n" in text, path


@pytest.mark.parametrize("path", AUTOMATION, ids=lambda path: path.name)
def test_named_scripts_and_tests_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("\\.", ".")
    for name in re.findall(r"\b(?:scripts|tests)/\w[\w/]*(?:\.\w+)?", text):
        assert (ROOT / name).exists(), name
