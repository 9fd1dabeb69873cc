"""Backward slice: the operators of a block that compute given variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from braces.builder.symbol_table import SymbolTable
from braces.ir.records import VALUE, Op


def backward_slice(
    table: SymbolTable, names: Iterable[str], is_known: Callable[[str], bool] | None = None
) -> list[Op]:
    """Return the operators of a block that compute these names, in order (backward slice).

    The search stops before the first of them, so the cost of a gradient does not depend on the
    operators built before.

    Args:
        table: The block.
        names: The variables to compute.
        is_known: Returns whether a variable needs no operators.
    """

    def bound(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            is_value = name in table.vars and table.vars[name].kind == VALUE
            if is_value and not (is_known and is_known(name)):
                yield name

    missing, needed_ops = set(bound(names)), list[Op]()
    for op in reversed(table.ops):
        if not missing:
            break
        if not missing.isdisjoint(op.binds()):
            missing.difference_update(op.binds())
            missing.update(bound(op.reads()))
            needed_ops.append(op)
    return needed_ops[::-1]
