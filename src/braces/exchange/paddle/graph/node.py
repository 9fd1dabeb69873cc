"""One operator of a program, as rules have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np

from braces.builder.var import Var
from braces.dims import Dim, Shape, Size
from braces.dtypes import DType
from braces.errors import ProgramError
from braces.exchange.common.values.constants import Known
from braces.exchange.paddle.graph.dtypes import dtype_named
from braces.exchange.paddle.graph.environment import Names, Rows, Runner, Value
from braces.exchange.paddle.graph.program_desc import Operator
from braces.frontend.array_api import data_dependent as finding
from braces.frontend.core import functions as ops

Results: TypeAlias = "Value | Mapping[str, Value | Sequence[Value]]"
"""What an operator gives: a value of its main slot, or values by slot."""
MAIN = ("Out", "Output", "Y", "Hidden", "ViterbiPath")
"""The slots that a single value is meant for."""


@dataclass(frozen=True, eq=False)
class Node:
    """An operator: its inputs and attributes.

    Attributes:
        names: What it sees.
        op: What the file says of it.
        later: The operators that stand after it in its block.
    """

    names: Names
    op: Operator
    later: Sequence[Operator] = ()

    @property
    def type(self) -> str:
        """The type of the operator."""
        return self.op.type

    @property
    def runner(self) -> Runner:
        """What reads it."""
        return self.names.runner

    # ---- attributes --------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or what stands for it where it is left out."""
        return self.op.attrs.get(name, default)

    def many(self, name: str) -> list[Any]:
        """An attribute that is a list; one number is a list of it, none an empty one."""
        found: Any = self.op.attrs.get(name, [])
        return cast("list[Any]", found) if isinstance(found, list) else [found]

    def dtype(self, name: str, default: Any = None) -> DType:
        """An attribute that is a dtype; -1 says none."""
        code = self.attr(name, -1)
        return np.dtype(default) if code == -1 and default is not None else dtype_named(code)

    def axis(self, name: str, rank: int, default: int = -1) -> int:
        """An attribute that is an axis, from the end where it is negative.

        Raises:
            ProgramError: There is no such axis.
        """
        found = self.attr(name, default)
        if not isinstance(found, int) or not -rank <= found < max(rank, 1):
            self.refuse(f"has the axis {found} of an array with {rank}")
        return found % max(rank, 1)

    # ---- inputs ------------------------------------------------------------------------------

    def given(self, slot: str) -> tuple[str, ...]:
        """The names in a slot of inputs."""
        return self.op.inputs.get(slot, ())

    def has(self, slot: str) -> bool:
        """Whether an input is given."""
        return bool(self.given(slot))

    def name(self, slot: str) -> str:
        """The first name in a slot.

        Raises:
            ProgramError: There is none.
        """
        if not self.has(slot):
            self.refuse(f"has no input `{slot}`")
        return self.given(slot)[0]

    def value(self, slot: str) -> Value:
        """What an input stands for."""
        return self.names.value(self.name(slot))

    def values(self, slot: str) -> list[Value]:
        """What all names in a slot stand for."""
        return [self.names.value(name) for name in self.given(slot)]

    def var(self, slot: str) -> Var:
        """An input as a variable."""
        return self.runner.lift(self.value(slot))

    def maybe(self, slot: str) -> Var | None:
        """An input as a variable, where it is given."""
        return self.var(slot) if self.has(slot) else None

    def vars(self, slot: str) -> list[Var]:
        """All variables in a slot."""
        return [self.runner.lift(value) for value in self.values(slot)]

    def rows(self, slot: str) -> Rows:
        """An input that is sequences.

        Raises:
            ProgramError: It is an array without them.
        """
        found = self.value(slot)
        if not isinstance(found, Rows):
            self.refuse(f"is given an array without sequences as `{slot}`")
        return found

    def shape(self, slot: str) -> Shape:
        """The shape of an input."""
        value = self.value(slot)
        return tuple(value.array.shape) if isinstance(value, Known) else self.var(slot).shape

    def known(self, slot: str) -> Known | None:
        """An input that is known while the program is read."""
        found = self.value(slot) if self.has(slot) else None
        return found if isinstance(found, Known) else None

    # ---- numbers that are attributes or inputs -----------------------------------------------

    def sizes(self, attr: str, tensor: str, each: str = "") -> list[Size]:
        """Sizes: an attribute, or in its place an array, or an array for each.

        What only a run tells becomes a size with a name.

        Args:
            attr: The attribute.
            tensor: The slot of an array of all.
            each: The slot of an array for each.
        """
        if each and self.has(each):
            return [self._size(value) for value in self.values(each)]
        if tensor and self.has(tensor):
            found = self.known(tensor)
            if found is not None:
                return [_whole(item) for item in found.items()]
            return self._told(self.var(tensor))
        return [int(n) for n in self.attr(attr) or ()]

    def _size(self, value: Value) -> Size:
        if isinstance(value, Known) and value.array.size == 1:
            return _whole(value.items()[0])
        return finding.as_size(self._number(self.runner.lift(value)))

    def _told(self, var: Var) -> list[Size]:
        count = var.shape[0] if var.ndim == 1 else None
        if not isinstance(count, int):
            self.refuse(f"is told sizes, but not how many: {var.type}")
        return [finding.as_size(self._number(var[i])) for i in range(count)]

    @staticmethod
    def _number(var: Var) -> Var:
        return ops.cast(ops.reshape(var, ()), "int64")

    def number(self, attr: str, tensor: str, default: Any = None) -> Any:
        """A number: an attribute, or in its place an input that must be known.

        Raises:
            ProgramError: It is computed from what a run is fed.
        """
        if not tensor or not self.has(tensor):
            return self.attr(attr, default)
        found = self.known(tensor)
        if found is None or found.array.size != 1:
            self.refuse(f"must know `{tensor}` when it is read, and a run computes it")
        return found.items()[0]

    def places(self, attr: str, stem: str) -> list[Any]:
        """Numbers, sizes, and what only a run tells, as variables.

        Args:
            attr: The attribute.
            stem: What the slots in its place begin with.
        """
        each, whole = f"{stem}TensorList", f"{stem}Tensor"
        if self.has(each):
            return [self._place(value) for value in self.values(each)]
        if self.has(whole) and self.known(whole) is None:
            return list(ops.unstack(self.var(whole), axis=0))
        return self.sizes(attr, whole)

    def _place(self, value: Value) -> Any:
        if isinstance(value, Known) and value.array.size == 1:
            return value.items()[0]
        return ops.reshape(self.runner.lift(value), ())

    # ---- outputs -----------------------------------------------------------------------------

    def made(self, slot: str) -> tuple[str, ...]:
        """The names in a slot of outputs."""
        return self.op.outputs.get(slot, ())

    @property
    def main(self) -> str:
        """The slot of its outputs that a single value is meant for."""
        own = [slot for slot in MAIN if self.made(slot)]
        return own[0] if own else next((s for s, names in self.op.outputs.items() if names), "")

    def __str__(self) -> str:
        made = next(iter(self.op.made()), "")
        return f"`{made:.80}`" if made else f"`{self.type:.80}`"

    def refuse(self, why: str, fix: str | None = None) -> NoReturn:
        """Say that this operator cannot be read.

        Raises:
            ProgramError: In any case.
        """
        raise ProgramError(f"{self.type:.80} {why}.", fix=fix)


def _whole(item: Any) -> Size:
    return item if isinstance(item, Dim) else int(item)


Rule: TypeAlias = "Callable[[Node], Results]"
"""From an operator to what it gives."""
