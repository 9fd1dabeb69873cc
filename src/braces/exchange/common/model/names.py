"""Convert names of a model to names of a program."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Protocol, Self, TypeVar

from braces.extend.building import Builder, SymbolTable, Var, emit, var_of
from braces.extend.programs import LONGEST_NAME, VALUE

N = TypeVar("N", bound="NestedScope")
FUNCTIONS = "braces"
"""The ONNX domain of the functions that plain blocks are exported to."""
RECOMPUTE = "braces.recompute"
"""The function metadata key that marks a function for rematerialization."""
_STRANGE = re.compile(r"[^\w.@/-]", re.ASCII)
LONGEST_PREFIX = LONGEST_NAME - 40
"""The length to which long names are cut, so that a suffix can follow."""


class NestedScope(Protocol):
    """The names visible in a block: its own, and those of the enclosing blocks."""

    @property
    def outer(self) -> Self | None:
        """The names of the enclosing block."""
        ...

    @property
    def values(self) -> Mapping[str, Any]:
        """The values of the block's own names."""
        ...


def defining_scope(names: N, name: str) -> N | None:
    """Return the innermost scope that defines `name`, or `None`."""
    scope: N | None = names
    while scope is not None and name not in scope.values:
        scope = scope.outer
    return scope


def clean_name(name: str, otherwise: str = "value") -> str:
    """Replace the characters of a model's name that names of programs cannot have.

    Example:
        >>> clean_name("/encoder/layers.0/MatMul_output_0"), clean_name("x:0"), clean_name("")
        ('encoder/layers.0/MatMul_output_0', 'x_0', 'value')
    """
    word = _STRANGE.sub("_", name).strip("/")[-LONGEST_PREFIX:].strip("/") or otherwise
    return word if word[0].isalpha() or word[0] == "_" else f"_{word}"


def dimension_name(name: str) -> str | None:
    """Return the name of a model's symbolic size; `None` if the size is unknown.

    Example:
        >>> dimension_name("batch size"), dimension_name("?"), dimension_name("2*n")
        ('batch_size', None, '_2_n')
    """
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not word.strip("_"):
        return None
    return word if word[0].isalpha() else f"_{word.lstrip('_')}"


def unused_name(table: SymbolTable, name: str) -> str:
    """Return this name, with a numeric suffix if it is taken."""
    return table.names.unique_word(name) if name in table.names.taken else name


def fetch_as(program: Builder, var: Var, name: str, *, reserved: bool = False) -> None:
    """Fetch a variable under the name that the model gives it.

    Args:
        program: The program.
        var: The variable.
        name: The name.
        reserved: Whether the name was reserved for a fetch.
    """
    if var.name != name or var.info.kind != VALUE:
        is_free = reserved and program.table.find_var(name) is None
        chosen = name if is_free else unused_name(program.table, name)
        var = emit("identity", var, name=chosen)
    program.give(var.name)


def rename_result(
    table: SymbolTable, before: int, var: Var, name: str, kept: Collection[str] = ()
) -> Var:
    """Name the last result as the model does, if it is the only result of the last operator.

    Args:
        table: The block that is being built.
        before: The number of operators it had before.
        var: The result.
        name: Its name in the model.
        kept: Variables that keep their names because later nodes read them.
    """
    ops = table.ops
    alone = len(ops) > before and list(ops[-1].binds()) == [var.name] and var.name not in kept
    if not alone or var.table is not table or name in table.names.taken:
        return var
    table.rename_last(name)
    return var_of(var.program, table, name)
