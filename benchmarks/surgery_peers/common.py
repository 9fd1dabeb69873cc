"""Parts of the comparison that all systems share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

NONE = "–"
"""The entry of a system that has no such notion."""
X = np.linspace(-1.0, 2.0, 6, dtype="float32").reshape(2, 3)


def load(name: str) -> Any:
    """Import a module whose types are not known."""
    module: Any = __import__(name)
    for part in name.split(".")[1:]:
        module = getattr(module, part)
    return module


def ratio(probed: Callable[[], Any], plain: Callable[[], Any], repeats: int = 200) -> str:
    """Return the ratio of the median times of two calls, which alternate."""
    times: tuple[list[float], list[float]] = [], []
    for _ in range(repeats):
        for function, measured in zip((probed, plain), times, strict=True):
            start = time.perf_counter()
            function()
            measured.append(time.perf_counter() - start)
    first, second = (sorted(measured)[repeats // 2] for measured in times)
    return f"{first / second:.2f} × ({second * 1e3:.2f} ms)"
