"""Strip mining: cut a loop into chunks if all its iterations at once exceed the memory limit.

    data x: f32[4096,…]                       y: f32[64,64,…] = reshape(x=x)
    …, stacked=[s: f32[4096]], … =            …, stacked=[r: f32[64,64]], … =
      loop(sliced=x) captures [w] as l          loop(init=…, sliced=y) {length=64} captures [w]
      body (t: i64[], h: …, a: …) {     ->      body (c: i64[], h: …, b: f32[64,…]) {
        …                                         …, stacked=[q: f32[64]], … =
        z: f32[…,50000] = matmul(x=h, y=w)          loop(init=h, sliced=b) captures [w]
        …                                           body (t: i64[], h: …, a: …) { … }
        return h2, e                              return …, q
      }                                         }
                                              s: f32[4096] = reshape(x=r)

`vectorize_before` and `vectorize_after` then vectorize the iterations of a chunk, as many as
fit. So each chunk has one long product, and all of it never exists at once. Gradient loops are
treated like any other. If the trip count is no multiple of the chunk size, a second loop runs
the remainder. Stacked outputs and scanned inputs are copied then, so the loop stays if these
are too large too. Results are those of the loop. The chunk size follows from the sizes of a
run; see `braces.passes.core.context`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from braces.dims import Size
from braces.dtypes import bytes_of
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView
from braces.ir.walk import all_bodies
from braces.passes.autodiff.checkpoint import build_segments, carries_lists
from braces.passes.batching.iteration_space import IterationSpace, reason_not_vectorizable
from braces.passes.core.context import (
    exceeds_memory,
    format_total_bytes,
    iterations_that_fit,
    surely_fit,
)
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite_loops
from braces.passes.loops.vectorize_after import bytes_after
from braces.passes.loops.vectorize_before import bytes_before

INDEX_BYTES = 16
"""Bytes of the iteration index of a chunk."""


def strip_mine(program: ProgramDef) -> ProgramDef:
    """Return a program whose loops are strip-mined if their iterations do not fit at once."""
    return rewrite_loops(program, None, _strip_mine_loop)


def _strip_mine_loop(view: LoopView, op: Op, place: InsertionPoint) -> Replacement:
    if reason_not_vectorizable(view) or carries_lists(view, place):
        return op
    trips = IterationSpace.over(view, place)
    if surely_fit(_iteration_bytes(trips), trips.length):  # a cheap test
        return op
    byte_sizes = [*bytes_before(trips), *bytes_after(trips)]
    fits = iterations_that_fit([*byte_sizes, INDEX_BYTES], trips.length) if byte_sizes else 0
    if fits < 2:
        return op
    chunk_size = _chunk_size(fits, trips.length)
    if trips.length % chunk_size != 0 and any(map(_too_large(trips), _stacked_names(view))):
        note(
            place.where(op),
            "not strip-mined: scanned inputs and stacked outputs are too large to copy",
            "missed",
        )
        return op
    size = format_total_bytes(byte_sizes, trips.length)
    note(
        place.where(op),
        f"strip-mined into chunks of {chunk_size} iterations: all at once take {size}",
    )
    with place.building():
        return build_segments(view, place, chunk_size, recompute=False)


def _iteration_bytes(trips: IterationSpace) -> list[Size]:
    """Return the bytes of all values of an iteration."""
    bodies = (body for body, _ in all_bodies(trips.body))
    types = Counter(info.type for body in bodies for info in body.vars.values())
    return [INDEX_BYTES, *(bytes_of(type_) * count for type_, count in types.items())]


def _stacked_names(view: LoopView) -> list[str]:
    """Return scanned inputs and stacked outputs, which are copied if there is a remainder."""
    return [*(scanned.param for scanned in view.slices), *(row.result for row in view.rows)]


def _too_large(trips: IterationSpace) -> Callable[[str], bool]:
    return lambda name: exceeds_memory(trips.sizes_of([name]), trips.length)


def _chunk_size(fits: int, trips: Size) -> int:
    """Return the largest divisor of the trip count that fits, or all that fit if below half."""
    if not isinstance(trips, int):
        return fits
    return next((n for n in range(fits, fits // 2, -1) if trips % n == 0), fits)


STRIP_MINE = Pass(
    "strip_mine",
    strip_mine,
    "Split a loop into chunks where vectorizing all iterations takes too much memory.",
    trusted=True,
)
