"""A value on its way out of nested blocks, and the checks on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from braces.dtypes import ListType, TensorType, Type
from braces.errors import ProgramError
from braces.ir.records import VarInfo
from braces.ir.walk import dimensions
from braces.passes.core.rewrite import InsertionPoint


@dataclass(frozen=True, slots=True)
class Exposed:
    """A value on its way out of nested blocks.

    Attributes:
        name: Its variable in the current block.
        type: The type of the variable; of the elements, for a list.
        loops: The number of leading axes that loops added.
        history: The history of the list; empty for an array.
        start: The empty list, which an outer block binds; empty for an array.
    """

    name: str
    type: TensorType
    loops: int = 0
    history: str = ""
    start: str = ""

    @property
    def info(self) -> VarInfo:
        """The declaration of the variable."""
        return VarInfo(self.name, self.declared)

    @property
    def declared(self) -> Type:
        """The type of the variable."""
        return ListType(self.type) if self.history else self.type

    def named(self, name: str) -> Exposed:
        """Return the same value in another variable."""
        return replace(self, name=name)


def check_sizes(item: Exposed, place: InsertionPoint, owner: str) -> None:
    """Refuse a value with sizes that no variable outside of a construct has.

    Raises:
        ProgramError: If a size is unknown outside.
    """
    known = {
        name
        for table in place.table.chain()
        for info in table.vars.values()
        for name in _dimensions(info.type)
    }
    unknown = _dimensions(item.type) - known
    if unknown:
        raise ProgramError(
            f"cannot probe `{item.name}`: the size `{min(unknown)}` is unknown outside "
            f"`{owner}`.",
            given=f"{item.name}: {item.type}",
            fix="Probe a value without this axis, for example its sum over it.",
        )


def _dimensions(type_: Type) -> set[str]:
    array = type_.element if isinstance(type_, ListType) else type_
    return dimensions(array.shape)
