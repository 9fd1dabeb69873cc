"""Names of a model as names of a program."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self, TypeVar

from braces.builder.append import one
from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.ir.names import LONGEST_NAME
from braces.ir.records import VALUE

N = TypeVar("N", bound="Nested")
FUNCTIONS = "braces"
"""The domain of functions of ONNX that plain blocks become."""
RECOMPUTE = "braces.recompute"
"""The entry of a function's metadata that says that gradients run it again."""
_STRANGE = re.compile(r"[^\w.@/-]", re.ASCII)
ROOM = LONGEST_NAME - 40
"""What is left of a long name, so that what is made for it can be called after it."""


class Nested(Protocol):
    """The names that a block sees: its own, and those of the blocks around it."""

    @property
    def outer(self) -> Self | None:
        """The names of the block around this one."""
        ...

    @property
    def values(self) -> Mapping[str, Any]:
        """What its own names stand for."""
        ...


def holder(names: N, name: str) -> N | None:
    """The innermost of these names and those around them that has one."""
    found: N | None = names
    while found is not None and name not in found.values:
        found = found.outer
    return found


def cleaned(name: str, otherwise: str = "value") -> str:
    """A name of a model with no other characters than names of programs have.

    Example:
        >>> cleaned("/encoder/layers.0/MatMul_output_0"), cleaned("x:0"), cleaned("")
        ('encoder/layers.0/MatMul_output_0', 'x_0', 'value')
    """
    found = _STRANGE.sub("_", name).strip("/")[-ROOM:].strip("/") or otherwise
    return found if found[0].isalpha() or found[0] == "_" else f"_{found}"


def dimension_name(name: str) -> str | None:
    """A symbolic size of a model as a name of one; `None` where it is not known.

    Example:
        >>> dimension_name("batch size"), dimension_name("?"), dimension_name("2*n")
        ('batch_size', None, '_2_n')
    """
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not found.strip("_"):
        return None
    return found if found[0].isalpha() else f"_{found.lstrip('_')}"


def free(table: SymbolTable, name: str) -> str:
    """This name, or with a count where there is such a variable already."""
    return table.names.unique_word(name) if name in table.names.taken else name


def give(program: Builder, var: Var, name: str) -> None:
    """Add a value to what a program gives, under the name that it has elsewhere."""
    if var.name != name or var.info.kind != VALUE:
        var = one("identity", var, name=free(program.table, name))
    program.give(var.name)


def rename_made(
    table: SymbolTable, before: int, var: Var, name: str, kept: Collection[str] = ()
) -> Var:
    """Call what was computed last as the model does, where one operator computed just that.

    Args:
        table: The block that is being built.
        before: How many operators it had.
        var: What was computed.
        name: What the model calls it.
        kept: Variables that keep their names, since others will read them.
    """
    ops = table.ops
    alone = len(ops) > before and list(ops[-1].binds()) == [var.name] and var.name not in kept
    if not alone or var.table is not table or name in table.names.taken:
        return var
    table.rename_last(name)
    return var_of(var.program, table, name)
