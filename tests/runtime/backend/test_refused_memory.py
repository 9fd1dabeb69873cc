"""Memory that XLA is refused while it compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from braces.runtime.backend import compiled


def test_memory_that_is_refused_in_compilation_is_a_run_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> Any:
        raise compiled.jax.errors.JaxRuntimeError(
            "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 64.00TiB"
        )

    monkeypatch.setattr(compiled, "compile_function", refuse)
    with br.Program() as prog:
        y = br.data("x", ["n"]) * 2.0
    with pytest.raises(br.RunError, match="out of memory") as error:
        br.Executor().run(prog, br.Scope(), {"x": np.ones(2, "f")}, y)
    assert "64.00TiB" in str(error.value)
