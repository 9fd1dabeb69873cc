"""Dead code elimination in a loop: unused memories, scanned inputs and stacked outputs.

x, y, ys, zs = loop(init=[a, b], sliced=[s, r])       # of these only `x` is read
    body (t, h, k, c, d) { h2 = add(h, c)  k2 = add(k, h)  return h2, k2, c, d }

x = loop(init=a, sliced=s)
    body (t, h, c) { h2 = add(h, c)  return h2 }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from braces.ir.records import Body
from braces.ir.views import LoopView, names_read


def trim_loop(
    view: LoopView, live: Set[str], eliminate: Callable[[Body, Sequence[str]], Body]
) -> LoopView:
    """Drop dead memories, scanned inputs and stacked outputs: a fixpoint over memories."""
    cond = view.cond
    if cond is not None:
        cond = eliminate(cond, cond.results)
    used = names_read(cond) if cond is not None else set[str]()
    rows = [row for row in view.rows if row.stacked in live]
    live_memories = {m for m in view.memories if m.final in live or m.param in used}
    while True:
        nexts = [memory.next for memory in view.memories if memory in live_memories]
        body = eliminate(view.body, [*nexts, *(row.result for row in rows)])
        used = names_read(body)
        needed = {memory for memory in view.memories if memory.param in used}
        if needed <= live_memories:
            break
        live_memories |= needed
    slices = [slice_ for slice_ in view.slices if slice_.param in used]
    if not slices and not isinstance(view.length, int):
        slices = view.slices[:1]  # it determines the trip count
    return replace(
        view,
        content=body,
        memories=tuple(memory for memory in view.memories if memory in live_memories),
        slices=tuple(slices),
        rows=tuple(rows),
        condition=cond,
    )
