"""What layers share: their parameters and activations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from braces.builder.append import one
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
"""A weight as a layer takes it: `True` makes a parameter, `False` leaves it out, a variable or
an array is the weight itself. Where nothing is said, `None`, one is made unless the layer is
given another one."""


def is_given(weight: Weight) -> bool:
    """Whether this is a weight itself, and not whether there is one."""
    return not isinstance(weight, bool | None)


def count_of(size: Any) -> int | None:
    """The size that weights are made for, where it is a number and not the weights.

    Raises:
        ShapeError: It is a pair, and not of a name and a number.
    """
    said: Any = named_size(size)
    return NamedSize.of(int(said), axis_name(said)) if is_number(said) else None


def to_make(said: Mapping[str, Weight], *, beside: bool = False) -> list[str]:
    """The roles of the parameters that a layer makes, of what is said of each.

    Args:
        said: By role, in the order in which `params=` names them.
        beside: Whether the layer is given something else that it would make.
    """
    given = beside or any(map(is_given, said.values()))
    return [role for role, one in said.items() if one is True or (one is None and not given)]


class Parameters:
    """The persistable variables of one layer: what they are called, made where there are none.

    Args:
        layer: What kind of layer it is.
        name: The layer's name; made up where it is `None`.
        params: The variables' own names, of which the ones that exist are shared.
        roles: What the parameters are for, as `("w", "b")`; `params` may leave out the last.
        states: What those after them are for that no optimizer trains; `params` may leave out
            all of them, and the layer then has its own.
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
        every = (*roles, *states)
        if not every:
            raise ProgramError(
                f"{self.layer} makes no parameters here, and has no use for {params!r}.",
                fix="Give either the weights themselves, or params= with their names.",
            )
        counts = {len(every), len(roles)} if states else {len(roles), max(len(roles) - 1, 1)}
        wrong = isinstance(params, str) or not all(isinstance(one, str) for one in params)
        if wrong or len(params) not in counts - {0}:
            raise ProgramError(
                f"{self.layer} cannot take params={params!r}.",
                fix=f"Give a list with a name for each of: {', '.join(every)}.",
            )
        table = current_program().current
        names = [table.look_up(given) or table.prefixed(given) for given in params]
        given = dict(zip(every, names, strict=False))
        self.shared = set(given)
        own = {role: self.names[role] for role in states if role not in given}
        self.names = given | own

    def find(self, role: str) -> Var | None:
        """The variable of this role where it exists and may be shared.

        Raises:
            DuplicateNameError: It exists, but the layer was to make its own.
        """
        program = current_program()
        name = self.names[role]
        table = program.current.table_of(name)
        if table is None:
            return None
        own = program.current.own_part(name)
        found = var_of(program, table, name) if own is None else own
        if role not in self.shared:
            raise DuplicateNameError(
                f"There is a parameter `{name}` already.",
                given=f"{name}: {found.type}",
                fix=f"Use another name; to share, write params={list(self.names.values())} in "
                "place of the name.",
            )
        return found

    def get(self, role: str, shape: Sequence[Extent], dtype: DType, init: Any) -> Var | None:
        """The parameter of this role, made where it is not there; `None` where unwanted.

        Raises:
            ShapeError: The one that is there has another shape.
        """
        if role not in self.names:
            return None
        found = self.find(role)
        if found is not None:
            self._check_shape(found, shape)
        return self.new(role, shape, dtype, init) if found is None else found

    def _check_shape(self, found: Var, shape: Sequence[Extent]) -> None:
        if found.shape != tuple(map(named_size, shape)):
            raise ShapeError(
                f"{self.layer} needs a parameter of {list(shape)}, and `{found.name}` is "
                f"{found.type}.",
                fix="Share with layers of the same sizes only.",
            )

    def new(self, role: str, shape: Sequence[Extent], dtype: object, init: Any) -> Var:
        """A new parameter for this role."""
        name = self.names[role]
        return persistable(name, shape, init, dtype, kind=PARAMETER, trainable=True)

    def state(self, role: str, shape: Sequence[Extent], dtype: DType, init: Any) -> Var:
        """The variable of this role that no optimizer trains, made where it is not there.

        Raises:
            ProgramError: The one that is there does not outlive a run.
            ShapeError: It has another shape.
        """
        found, name = self.find(role), self.names[role]
        if found is None:
            return persistable(name, shape, init, dtype, kind=STATE, trainable=False)
        if not found.persistable:
            raise ProgramError(
                f"{self.layer} cannot share `{name}`, which does not outlive a run.",
                given=f"{name}: {found.type}",
                fix="Share what br.state or another layer made.",
            )
        self._check_shape(found, shape)
        return found


def fixed_size(x: Var, axis: int, layer: str) -> int:
    """The size of an axis that parameters depend on, with its name where it has one.

    Raises:
        ShapeError: It is symbolic, or there is no such axis.
    """
    whole = tensor_type(x)
    at = axis_index(axis, whole.rank, layer)
    size, names = whole.shape[at], x.table.axis_names(x.name)
    if not isinstance(size, int):
        raise ShapeError(
            f"{layer} needs to know the size of axis {axis} to make its parameters.",
            given=f"{x.name}: {x.type}",
            fix="Declare this axis with a number, or br.reshape to one.",
        )
    return NamedSize.of(size, names[at] if names else None)


def refuse_options(layer: str, ways: str, options: Mapping[str, object]) -> None:
    """Refuse options of weights that are made, where the weights themselves are given.

    Args:
        layer: What kind of layer it is.
        ways: The two ways to call it.
        options: By name; `None` is not said.

    Raises:
        ProgramError: One is said.
    """
    said = [name for name, value in options.items() if value is not None]
    if said:
        raise ProgramError(
            f"{layer} is given its weights, and has no use for {', '.join(said)}.",
            fix=f"Write {ways}.",
        )


def activated(x: Var, act: Activation, name: str) -> Var:
    """`act(x)`, where `act` is a function or the name of an operator.

    Raises:
        UnknownNameError: There is no operator of this name that takes just `x`.
    """
    if callable(act):
        return act(x)
    if not (isinstance(act, str) and act in OPS.definitions and _is_activation(act)):
        known = [type_ for type_ in OPS.definitions if _is_activation(type_)]
        raise UnknownNameError(f"There is no activation {act!r}.", fix=suggest(str(act), known))
    return one(act, x, name=name)


def _is_activation(type_: str) -> bool:
    definition = OPS.get(type_)
    required = any(spec.required for spec in definition.attrs)
    return [slot.many for slot in definition.inputs] == [False] and not required


def named(act: Activation, name: str) -> str:
    """The name for the operator before the activation: the layer's, where it is the last."""
    return name if act is None else ""
