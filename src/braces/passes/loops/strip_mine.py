"""Cut a loop into chunks of trips where all of them at once would take too much.

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

`batch` and `defer` then compute for all trips of a chunk at once, as many as fit: so there is
one long product for each, and never all of it. Gradients are loops like any other. What is left
over where chunks do not come out even is a loop of its own. Rows and slices are copied then, so
where these are too large too, the loop stays. Results are those of the loop. Which trips fit
follows from the sizes of a run; see `braces.passes.core.context`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from braces.dims import Size
from braces.dtypes import bytes_of
from braces.ir.records import Op, ProgramDef
from braces.ir.views import LoopView
from braces.ir.walk import all_bodies
from braces.passes.autodiff.checkpoint import carries_lists, segmented
from braces.passes.batching.trip_space import Trips, apart
from braces.passes.core.context import at_once, gibibytes, surely_fit, too_many
from braces.passes.core.pipeline import Pass, note
from braces.passes.core.rewrite import Change, Place, rewrite_loops
from braces.passes.loops.vectorize_after import bytes_after
from braces.passes.loops.vectorize_before import bytes_before

OF_INDEX = 16
"""Bytes of what counts the trips of a chunk."""


def chunked(program: ProgramDef) -> ProgramDef:
    """A program whose loops have no more trips than can be taken together."""
    return rewrite_loops(program, None, _chunk)


def _chunk(view: LoopView, op: Op, place: Place) -> Change:
    if apart(view) or carries_lists(view, place):
        return op
    trips = Trips.over(view, place)
    if surely_fit(_everything(trips), trips.length):  # which takes no time to see
        return op
    taken = [*bytes_before(trips), *bytes_after(trips)]
    fits = at_once([*taken, OF_INDEX], trips.length) if taken else 0
    if fits < 2:
        return op
    every = _even(fits, trips.length)
    if trips.length % every != 0 and any(map(_too_large(trips), _outside(view))):
        note(
            place.where(op),
            "computes all in each trip: chunks would copy what it cuts or stacks",
        )
        return op
    size = gibibytes(taken, trips.length)
    note(place.where(op), f"has chunks of {every} trips: all at once would take {size}")
    with place.building():
        return segmented(view, place, every, recompute=False)


def _everything(trips: Trips) -> list[Size]:
    """The bytes of all that a trip computes."""
    bodies = (body for body, _ in all_bodies(trips.body))
    types = Counter(info.type for body in bodies for info in body.vars.values())
    return [OF_INDEX, *(bytes_of(type_) * count for type_, count in types.items())]


def _outside(view: LoopView) -> list[str]:
    """What there is of all trips outside, which is copied where chunks do not come out even."""
    return [*(one.param for one in view.slices), *(row.result for row in view.rows)]


def _too_large(trips: Trips) -> Callable[[str], bool]:
    return lambda name: too_many(trips.sizes_of([name]), trips.length)


def _even(fits: int, trips: Size) -> int:
    """As many trips as fit, or down to half of them where all chunks are full then."""
    if not isinstance(trips, int):
        return fits
    return next((n for n in range(fits, fits // 2, -1) if trips % n == 0), fits)


STRIP_MINE = Pass(
    "strip_mine",
    chunked,
    "Split a loop into chunks where vectorizing all iterations takes too much memory.",
    trusted=True,
)
