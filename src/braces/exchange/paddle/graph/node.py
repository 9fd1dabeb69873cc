"""The interface of rules to an operator of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np

from braces.errors import ProgramError
from braces.exchange.common.values.constants import Constant
from braces.exchange.paddle.graph.dtypes import dtype_named
from braces.exchange.paddle.graph.environment import (
    BlockScope,
    OperatorReader,
    RaggedSequences,
    Value,
)
from braces.exchange.paddle.graph.program_desc import Operator
from braces.extend import data_dependent, functions as ops
from braces.extend.building import Var
from braces.extend.types import Dim, DType, Shape, Size

Results: TypeAlias = "Value | Mapping[str, Value | Sequence[Value]]"
"""The results of an operator: a value of its main slot, or values by slot."""
MAIN = ("Out", "out", "Output", "Y", "Hidden", "ViterbiPath", "Loss")
"""The output slots of a rule that returns a single value."""
FIRST, SECOND = ("X", "x", "Input", "X1"), ("Y", "y", "Other", "X2")
"""The names of the slots of the operands of functions of one or two arrays."""


@dataclass(frozen=True, eq=False)
class PaddleOp:
    """An operator: its inputs and attributes.

    Attributes:
        names: The names visible to it.
        op: Its record in the file.
        later: The operators that follow in its block.
    """

    names: BlockScope
    op: Operator
    later: Sequence[Operator] = ()

    @property
    def type(self) -> str:
        """The type of the operator."""
        return self.op.type

    @property
    def runner(self) -> OperatorReader:
        """The reader of the program."""
        return self.names.runner

    # ---- attributes --------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute or a default value."""
        return self.op.attrs.get(name, default)

    def many(self, name: str) -> list[Any]:
        """Return an attribute as a list; a number is a list of one, a missing one is empty."""
        attribute: Any = self.op.attrs.get(name, [])
        return cast("list[Any]", attribute) if isinstance(attribute, list) else [attribute]

    def dtype(self, name: str, default: Any = None) -> DType:
        """Return an attribute that is a dtype; -1 means none."""
        code = self.attr(name, -1)
        return np.dtype(default) if code == -1 and default is not None else dtype_named(code)

    def axis(self, name: str, rank: int, default: int = -1) -> int:
        """Return an attribute that is an axis; negative ones count from the end.

        Raises:
            ProgramError: If the axis is out of range.
        """
        axis_ = self.attr(name, default)
        if rank == 0 and axis_ in (-1, 0):
            return 0
        if not isinstance(axis_, int) or not -rank <= axis_ < max(rank, 1):
            self.refuse(f"axis {axis_} is out of range for an array of rank {rank}")
        return axis_ % max(rank, 1)

    # ---- inputs ------------------------------------------------------------------------------

    def input_names(self, slot: str) -> tuple[str, ...]:
        """Return the names in an input slot."""
        return self.op.inputs.get(slot, ())

    def has(self, slot: str) -> bool:
        """Return whether an input is present."""
        return bool(self.input_names(slot))

    def name(self, slot: str) -> str:
        """Return the first name in a slot.

        Raises:
            ProgramError: If the slot is empty.
        """
        if not self.has(slot):
            self.refuse(f"missing input `{slot}`")
        return self.input_names(slot)[0]

    def value(self, slot: str) -> Value:
        """Return the value of an input."""
        return self.names.value(self.name(slot))

    def values(self, slot: str) -> list[Value]:
        """Return the values of all names in a slot."""
        return [self.names.value(name) for name in self.input_names(slot)]

    def var(self, slot: str) -> Var:
        """Return an input as a variable."""
        return self.runner.lift(self.value(slot))

    def maybe(self, slot: str) -> Var | None:
        """Return an input as a variable, or `None`."""
        return self.var(slot) if self.has(slot) else None

    def vars(self, slot: str) -> list[Var]:
        """Return all variables in a slot."""
        return [self.runner.lift(value) for value in self.values(slot)]

    def x(self) -> Var:
        """Return the first operand of a function."""
        return self.var(next((slot for slot in FIRST if self.has(slot)), FIRST[0]))

    def y(self) -> Var:
        """Return the second operand of a function."""
        return self.var(next((slot for slot in SECOND if self.has(slot)), SECOND[0]))

    def rows(self, slot: str) -> RaggedSequences:
        """Return an input that is ragged sequences.

        Raises:
            ProgramError: If the input is a dense array.
        """
        value_ = self.value(slot)
        if not isinstance(value_, RaggedSequences):
            self.refuse(f"expected an array with LoD as `{slot}`")
        return value_

    def shape(self, slot: str) -> Shape:
        """Return the shape of an input."""
        value = self.value(slot)
        return tuple(value.array.shape) if isinstance(value, Constant) else self.var(slot).shape

    def known_value(self, slot: str) -> Constant | None:
        """Return an input that is known at import time, or `None`."""
        value_ = self.value(slot) if self.has(slot) else None
        return value_ if isinstance(value_, Constant) else None

    # ---- numbers that are attributes or inputs -----------------------------------------------

    def sizes(self, attr: str, tensor: str, each: str = "") -> list[Size]:
        """Return sizes from an attribute, from a tensor, or from a list of scalars.

        Run-time values become named sizes.

        Args:
            attr: The attribute.
            tensor: The slot of a tensor with all sizes.
            each: The slot of a list of scalars.
        """
        if each and self.has(each):
            return [self._size(value) for value in self.values(each)]
        if tensor and self.has(tensor):
            known_sizes = self.known_value(tensor)
            if known_sizes is not None:
                return [_as_size(item) for item in known_sizes.items()]
            return self._runtime_size(self.var(tensor))
        return [int(n) for n in self.attr(attr) or ()]

    def _size(self, value: Value) -> Size:
        if isinstance(value, Constant) and value.array.size == 1:
            return _as_size(value.items()[0])
        return data_dependent.as_size(self._number(self.runner.lift(value)))

    def _runtime_size(self, var: Var) -> list[Size]:
        count = var.shape[0] if var.ndim == 1 else None
        if not isinstance(count, int):
            self.refuse(f"expected sizes of static length, got {var.type}")
        return [data_dependent.as_size(self._number(var[i])) for i in range(count)]

    @staticmethod
    def _number(var: Var) -> Var:
        return ops.cast(ops.reshape(var, ()), "int64")

    def number(self, attr: str, tensor: str, default: Any = None) -> Any:
        """Return a number from an attribute, or from an input that must be known.

        Raises:
            ProgramError: If the number depends on the feeds of a run.
        """
        if not tensor or not self.has(tensor):
            return self.attr(attr, default)
        constant = self.known_value(tensor)
        if constant is None or constant.array.size != 1:
            self.refuse(f"expected a constant as `{tensor}`, got a value computed at run time")
        return constant.items()[0]

    def places(self, attr: str, stem: str) -> list[Any]:
        """Return numbers and sizes, and run-time values as variables.

        Args:
            attr: The attribute.
            stem: The prefix of the slots that replace it.
        """
        list_slot, tensor_slot = f"{stem}TensorList", f"{stem}Tensor"
        if self.has(list_slot):
            return [self._place(value) for value in self.values(list_slot)]
        if self.has(tensor_slot) and self.known_value(tensor_slot) is None:
            return list(ops.unstack(self.var(tensor_slot), axis=0))
        return self.sizes(attr, tensor_slot)

    def _place(self, value: Value) -> Any:
        if isinstance(value, Constant) and value.array.size == 1:
            return value.items()[0]
        return ops.reshape(self.runner.lift(value), ())

    # ---- outputs -----------------------------------------------------------------------------

    def output_names(self, slot: str) -> tuple[str, ...]:
        """Return the names in an output slot."""
        return self.op.outputs.get(slot, ())

    @property
    def main(self) -> str:
        """The output slot of a rule that returns a single value."""
        own = [slot for slot in MAIN if self.output_names(slot)]
        return own[0] if own else next((s for s, names in self.op.outputs.items() if names), "")

    def __str__(self) -> str:
        output = next(iter(self.op.output_names()), "")
        return f"`{output:.80}`" if output else f"`{self.type:.80}`"

    def refuse(self, why: str, fix: str | None = None) -> NoReturn:
        """Raise an error that this operator is not supported.

        Raises:
            ProgramError: Always.
        """
        raise ProgramError(f"{self.type:.80}: {why}.", fix=fix)


def _as_size(item: Any) -> Size:
    return item if isinstance(item, Dim) else int(item)


Rule: TypeAlias = "Callable[[PaddleOp], Results]"
"""Maps an operator to its results."""
