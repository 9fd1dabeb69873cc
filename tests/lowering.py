"""One context of MLIR for many programs that JAX lowers.

JAX makes a new one for each program and loads all its dialects: 4 ms, a fifth of what it takes
to compile a small kernel, and tests compile thousands. What a program becomes does not depend
on it. A context keeps every type and constant that it has seen, so it is renewed at times.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

PROGRAMS = 100
"""How many programs share a context."""


@contextmanager
def shared_contexts() -> Generator[None]:
    """Inside, JAX takes the same context for many programs in turn."""
    from jax._src.interpreters import mlir

    make, kept = mlir.make_ir_context, threading.local()

    def context() -> Any:
        """That of this thread; two threads never meet in one."""
        if not hasattr(kept, "programs") or next(kept.programs) >= PROGRAMS:
            kept.programs, kept.context = itertools.count(1), make()
        return kept.context

    with mock.patch.object(mlir, "make_ir_context", context):
        yield
