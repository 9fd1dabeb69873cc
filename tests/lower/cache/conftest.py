"""A persistent cache of each test's own."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from braces.lower.cache.cache_directory import VARIABLE
from braces.lower.cache.persistent_cache import get_persistent_cache
from tests.lower.cache.cache_settings import JAX_FOLDER, SETTINGS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """The folder of the cache, which does not exist yet; JAX has its own settings."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    for name in SETTINGS:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "named"))
    jax.config.update(JAX_FOLDER, None)
    jax.config.update("jax_enable_compilation_cache", True)  # CI has none
    compilation_cache.reset_cache()
    get_persistent_cache.cache_clear()
    yield tmp_path / "named" / "xla"
    get_persistent_cache.cache_clear()
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
