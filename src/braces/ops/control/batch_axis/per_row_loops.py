"""Loops over the rows of a padded batch.

Iterations of padding change no memory, in either direction:

    h = loop(init=a, sliced=s) {length=size(m)}
      body (t, before, row) { after = …; return after }

    h = loop(init=a, sliced=s) {length=size(m)}
      body (t, before, row) {
        after = …
        real = less(x=t, y=count)
        kept = where(condition=real, x=after, y=before)
        return kept
      }
"""

from __future__ import annotations

from dataclasses import replace

from braces.builder.append import emit
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import var_of
from braces.dtypes import INT64, TensorType
from braces.ir.records import Op
from braces.ir.views import LoopView
from braces.ir.walk import with_captures
from braces.ops.common.row_semantics import mixed_rows_error


def guard_padding_iterations(
    program: Builder, table: SymbolTable, view: LoopView, count: str
) -> list[Op]:
    """Return a loop whose memories do not change in iterations of padding.

    Args:
        program: The program under construction.
        table: The block of the loop.
        view: The loop, which has one iteration per row.
        count: The variable of the number of valid rows.

    Raises:
        ProgramError: If the loop may end early, or carries a list.
    """
    op = view.origin
    if view.condition is not None or view.count is not None:
        raise mixed_rows_error(op, "it may end before the last batch element.")
    inner = table.within(op).thaw(view.content)
    guarded_nexts = dict[str, str]()
    with program.building(inner), program.at(op.source):
        outer = table.table_of(count)
        assert outer is not None
        real = emit("less", var_of(program, inner, view.index), var_of(program, outer, count))
        for memory in view.memories:
            if memory.next == memory.param:
                continue
            if not isinstance(inner.type_of(memory.param), TensorType):
                raise mixed_rows_error(op, f"its memory `{memory.param}` is a list.")
            before = var_of(program, inner, memory.param)
            owner = inner.table_of(memory.next)
            assert owner is not None
            after = var_of(program, owner, memory.next)
            guarded_nexts[memory.param] = emit("where", real, after, before).name
    memories = tuple(replace(m, next=guarded_nexts.get(m.param, m.next)) for m in view.memories)
    trips = table.new_var(type=TensorType(INT64, ()), stem="trips").name
    guarded_loop = replace(view, content=inner.freeze(), memories=memories, trips=trips).to_op()
    count_op = Op(
        "cast", f"{op.name}.trips", {"x": (count,)}, {"out": (view.trips,)}, {"dtype": INT64}
    )
    return [with_captures(guarded_loop), count_op]
