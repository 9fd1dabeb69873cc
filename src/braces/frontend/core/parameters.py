"""Helpers of layers: their parameters and activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from braces.builder.append import emit
from braces.builder.builder import current_program
from braces.builder.var import Operand, Var, tensor_type, var_of
from braces.define.decorator import OPS
from braces.dims import NamedSize, axis_name
from braces.dtypes import DType, Extent, is_number, named_size
from braces.errors import (
    DuplicateNameError,
    ProgramError,
    ShapeError,
    UnknownNameError,
    suggest,
)
from braces.frontend.core.variables import persistable
from braces.ir.records import PARAMETER, STATE
from braces.ops.common.rules import axis_index

Activation: TypeAlias = "str | Callable[[Var], Var] | None"
Weight: TypeAlias = "Operand | bool | None"
"""Weight argument of a layer: `True` makes a parameter, `False` omits it, a variable or array
is the weight itself. `None` makes a parameter unless another weight is given explicitly."""


def is_given(weight: Weight) -> bool:
    """Return whether the argument is a weight itself, rather than a flag."""
    return not isinstance(weight, bool | None)


def feature_count(size: Any) -> int | None:
    """Return a layer's size argument if it is a number; `None` if it is the weights.

    Raises:
        ShapeError: If `size` is a pair other than a name and a number.
    """
    extent: Any = named_size(size)
    return NamedSize.of(int(extent), axis_name(extent)) if is_number(extent) else None


def roles_to_create(said: Mapping[str, Weight], *, beside: bool = False) -> list[str]:
    """Return the roles of the parameters that a layer makes itself.

    Args:
        said: Weight arguments by role, in the order of `params=`.
        beside: Whether another weight of the layer is given explicitly.
    """
    has_shared = beside or any(map(is_given, said.values()))
    return [
        role
        for role, weight in said.items()
        if weight is True or (weight is None and not has_shared)
    ]


class LayerParameters:
    """The persistable variables of one layer: their names, created on demand or shared.

    Args:
        layer: The kind of layer.
        name: The layer's name; generated if it is `None`.
        params: Explicit names of the variables; existing ones are shared.
        roles: The roles of the parameters, as `("w", "b")`; `params` may omit the last.
        states: The roles of variables that no optimizer trains; `params` may omit all of them,
            and the layer then has its own.
    """

    def __init__(
        self,
        layer: str,
        name: str | None,
        params: Sequence[str] | None = None,
        roles: Sequence[str] = (),
        states: Sequence[str] = (),
    ) -> None:
        self.layer = layer
        table = current_program().current
        self.name = table.prefixed(name) if name else table.names.unique(layer)
        self.names = {role: f"{self.name}.{role}" for role in (*roles, *states)}
        self.shared = set[str]()
        if params is not None:
            self._share(params, roles, states)

    def _share(
        self, params: Sequence[Any], roles: Sequence[str], states: Sequence[str]
    ) -> None:
        all_roles = (*roles, *states)
        if not all_roles:
            raise ProgramError(
                f"{self.layer} creates no parameters here, so params={params!r} is unused.",
                fix="Pass either the weights themselves, or params= with their names.",
            )
        counts = (
            {len(all_roles), len(roles)} if states else {len(roles), max(len(roles) - 1, 1)}
        )
        wrong = isinstance(params, str) or not all(isinstance(param, str) for param in params)
        if wrong or len(params) not in counts - {0}:
            raise ProgramError(
                f"invalid params={params!r} of {self.layer}.",
                fix=f"Pass a list with a name for each of: {', '.join(all_roles)}.",
            )
        table = current_program().current
        names = [table.look_up(name) or table.persistable_name(name) for name in params]
        shared_names = dict(zip(all_roles, names, strict=False))
        self.shared = set(shared_names)
        own = {role: self.names[role] for role in states if role not in shared_names}
        self.names = shared_names | own

    def find(self, role: str) -> Var | None:
        """Return the variable of this role if it exists and may be shared.

        Raises:
            DuplicateNameError: If the variable exists, but the layer must create a new one.
        """
        program = current_program()
        name = self.names[role]
        table = program.current.table_of(name)
        if table is None:
            return None
        own = program.current.own_part(name)
        var = var_of(program, table, name) if own is None else own
        if role not in self.shared:
            raise DuplicateNameError(
                f"duplicate parameter `{name}`.",
                given=f"{name}: {var.type}",
                fix="Use another name. To share it between the calls of a function, decorate "
                f"that with @br.shared; or pass params={list(self.names.values())} instead of "
                "the name after the first call.",
            )
        return var

    def get(self, role: str, shape: Sequence[Extent], dtype: DType, init: Any) -> Var | None:
        """Return the parameter of this role, created if needed; `None` without this role.

        Raises:
            ShapeError: If the shape of the existing parameter differs.
        """
        if role not in self.names:
            return None
        var = self.find(role)
        if var is not None:
            self._check_shape(var, shape)
        return self.new(role, shape, dtype, init) if var is None else var

    def _check_shape(self, var: Var, shape: Sequence[Extent]) -> None:
        if var.shape != tuple(map(named_size, shape)):
            raise ShapeError(
                f"{self.layer}: expected a parameter of shape {list(shape)}, got {var.type}.",
                given=f"{var.name}: {var.type}",
                fix="Share parameters only between layers of equal sizes.",
            )

    def new(self, role: str, shape: Sequence[Extent], dtype: object, init: Any) -> Var:
        """Create a new parameter for this role."""
        name = self.names[role]
        return persistable(name, shape, init, dtype, kind=PARAMETER, trainable=True)

    def state(self, role: str, shape: Sequence[Extent], dtype: DType, init: Any) -> Var:
        """Return the state of this role, which no optimizer trains; created if needed.

        Raises:
            ProgramError: If the existing variable is not persistable.
            ShapeError: If the shape of the existing variable differs.
        """
        var, name = self.find(role), self.names[role]
        if var is None:
            return persistable(name, shape, init, dtype, kind=STATE, trainable=False)
        if not var.persistable:
            raise ProgramError(
                f"{self.layer} cannot share `{name}`: it is not persistable.",
                given=f"{name}: {var.type}",
                fix="Share a variable of br.state or of another layer.",
            )
        self._check_shape(var, shape)
        return var


def fixed_size(x: Var, axis: int, layer: str) -> int:
    """Return the fixed size of an axis, with its axis name if it has one.

    Raises:
        ShapeError: If the size is symbolic, or the axis is out of range.
    """
    type_ = tensor_type(x)
    at = axis_index(axis, type_.rank, layer)
    size, names = type_.shape[at], x.table.axis_names(x.name)
    if not isinstance(size, int):
        raise ShapeError(
            f"{layer} needs a constant size of axis {axis} for its parameters.",
            given=f"{x.name}: {x.type}",
            fix="Declare this axis with an integer, or use br.reshape.",
        )
    return NamedSize.of(size, names[at] if names else None)


def refuse_options(layer: str, ways: str, options: Mapping[str, object]) -> None:
    """Refuse options for creating weights if the weights themselves are given.

    Args:
        layer: The kind of layer.
        ways: The two ways to call it, for the message.
        options: Options by name; `None` if not set.

    Raises:
        ProgramError: If an option is set.
    """
    used_options = [name for name, value in options.items() if value is not None]
    if used_options:
        raise ProgramError(
            f"{layer} with given weights does not use {', '.join(used_options)}.",
            fix=f"Write {ways}.",
        )


def apply_activation(x: Var, act: Activation, name: str) -> Var:
    """Apply an activation: a function or the name of an operator.

    Raises:
        UnknownNameError: If there is no operator of this name with a single input.
    """
    if callable(act):
        return act(x)
    if not (isinstance(act, str) and act in OPS.definitions and _is_activation(act)):
        known = [type_ for type_ in OPS.definitions if _is_activation(type_)]
        raise UnknownNameError(f"unknown activation {act!r}.", fix=suggest(str(act), known))
    return emit(act, x, name=name)


def _is_activation(type_: str) -> bool:
    definition = OPS.get(type_)
    required = any(spec.required for spec in definition.attrs)
    return [slot.many for slot in definition.inputs] == [False] and not required


def pre_activation_name(act: Activation, name: str) -> str:
    """Return the name for the operator before the activation: the layer's if it is the last."""
    return name if act is None else ""
