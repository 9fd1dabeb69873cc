"""What layers share: their parameters and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from braces.dtypes import DType
from braces.errors import (
    DuplicateNameError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.frontend.variables import persistable
from braces.ir.program import default_program
from braces.ir.records import PARAMETER
from braces.ops.build import Var, one, tensor_type, var_of
from braces.ops.define import OPS
from braces.ops.rules import axis_index

Activation: TypeAlias = "str | Callable[[Var], Var] | None"


class Parameters:
    """The parameters of one layer: what they are called, made where they are not there.

    Args:
        layer: What kind of layer it is.
        name: The layer's name; made up where it is `None`.
        params: The parameters' own names, of which the ones that exist are shared.
        roles: What the parameters are for, as `("w", "b")`; `params` may leave out the last.
    """

    def __init__(
        self,
        layer: str,
        name: str | None,
        params: Sequence[str] | None = None,
        roles: Sequence[str] = (),
    ) -> None:
        self.layer = layer
        self.name = name or default_program().table.names.unique(layer)
        self.shared = params is not None
        self.names = {role: f"{self.name}.{role}" for role in roles}
        if params is not None:
            self.names = self._given(params, roles)

    def _given(self, params: Sequence[str], roles: Sequence[str]) -> dict[str, str]:
        least = max(len(roles) - 1, 1)
        if isinstance(params, str) or not least <= len(params) <= len(roles):
            raise ProgramError(
                f"{self.layer} cannot take params={params!r}.",
                fix=f"Give a list with a name for each of: {', '.join(roles)}.",
            )
        return dict(zip(roles, params, strict=False))

    def find(self, role: str) -> Var | None:
        """The parameter of this role where it exists and may be shared.

        Raises:
            DuplicateNameError: It exists, but the layer was to make its own.
        """
        program = default_program()
        name = self.names[role]
        table = program.current.table_of(name)
        if table is None:
            return None
        found = var_of(program, table, name)
        if not self.shared:
            raise DuplicateNameError(
                f"There is a parameter `{name}` already.",
                given=f"{name}: {found.type}",
                fix=f"Use another name, or share: params={list(self.names.values())}.",
            )
        return found

    def get(self, role: str, shape: Sequence[int], dtype: DType, init: Any) -> Var | None:
        """The parameter of this role, made where it is not there; `None` where unwanted."""
        if role not in self.names:
            return None
        found = self.find(role)
        return self.new(role, shape, dtype, init) if found is None else found

    def new(self, role: str, shape: Sequence[int], dtype: object, init: Any) -> Var:
        """A new parameter for this role."""
        name = self.names[role]
        return persistable(name, shape, init, dtype, kind=PARAMETER, trainable=True)


def fixed_size(x: Var, axis: int, layer: str) -> int:
    """The size of an axis that parameters depend on.

    Raises:
        ShapeError: It is symbolic, or there is no such axis.
    """
    whole = tensor_type(x)
    size = whole.shape[axis_index(axis, whole.rank, layer)]
    if not isinstance(size, int):
        raise ShapeError(
            f"{layer} needs to know the size of axis {axis} to make its parameters.",
            given=f"{x.name}: {x.type}",
            fix="Declare this axis with a number, or br.reshape to one.",
        )
    return size


def activated(x: Var, act: Activation, name: str) -> Var:
    """`act(x)`, where `act` is a function or the name of an operator.

    Raises:
        UnknownNameError: There is no operator of this name that takes just `x`.
    """
    if callable(act):
        return act(x)
    known = [d.type for d in OPS.definitions.values() if _is_activation(d.type)]
    if act not in known:
        raise UnknownNameError(f"There is no activation {act!r}.", fix=suggest(str(act), known))
    return one(act, x, name=name)


def _is_activation(type_: str) -> bool:
    definition = OPS.get(type_)
    required = any(spec.required for spec in definition.attrs)
    return [slot.many for slot in definition.inputs] == [False] and not required


def named(act: Activation, name: str) -> str:
    """The name for the operator before the activation: the layer's, where it is the last."""
    return name if act is None else ""
