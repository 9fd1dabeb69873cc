"""Shared fixtures of the tests of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.nets import Net


@pytest.fixture(scope="module")
def built() -> Net:
    return Net()


@pytest.fixture
def net(built: Net) -> Net:
    return built.reset()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "net.safetensors"
