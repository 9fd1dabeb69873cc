"""JAX lowers many programs of a test run in one context."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from jax._src.interpreters import mlir

from tests.plugins.mlir_context import PROGRAMS


def test_programs_of_a_thread_share_a_context_for_a_while() -> None:
    found = [mlir.make_ir_context() for _ in range(2 * PROGRAMS)]
    assert len(set(map(id, found))) in (2, 3)


def test_threads_never_share_a_context() -> None:
    here = mlir.make_ir_context()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(mlir.make_ir_context).result() is not here
