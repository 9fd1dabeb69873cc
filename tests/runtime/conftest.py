"""Counts of compilations."""

from __future__ import annotations

from typing import Any

import pytest

from braces.runtime.backend.compiled import CompiledPlan


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each compilation."""
    found, compile_ = list[str](), CompiledPlan._compile

    def compiling(plan: CompiledPlan, *given: Any) -> Any:
        found.append("once more")
        return compile_(plan, *given)

    monkeypatch.setattr(CompiledPlan, "_compile", compiling)
    return found
