"""One context of MLIR for many programs that JAX lowers.

JAX makes a new one for each program and loads all its dialects: 4 ms, a fifth of what it takes
to compile a small kernel, and tests compile thousands. What a program becomes does not depend
on it. A context keeps every type and constant that it has seen, so it is renewed at times.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

PROGRAMS = 100
"""The number of programs of a context."""


@contextmanager
def shared_contexts() -> Generator[None]:
    """Inside, JAX takes the same context for many programs in turn."""
    from jax._src.interpreters import mlir

    # JAX 0.11 and later give the same context to ten programs of a thread.
    make: Any = getattr(mlir, "_create_ir_context", mlir.make_ir_context)
    kept = dict[int, tuple[Iterator[int], Any]]()

    def context() -> Any:
        """That of this thread; two threads never meet in one.

        It is not kept in a `threading.local`: a thread of XLA that calls Python would destroy
        it as it leaves Python, and crash.
        """
        thread = threading.get_ident()
        if thread not in kept or next(kept[thread][0]) >= PROGRAMS:
            kept[thread] = itertools.count(1), make()
        return kept[thread][1]

    with mock.patch.object(mlir, "make_ir_context", context):
        yield
