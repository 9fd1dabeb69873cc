"""Lists of arrays of one type, whose length only a run knows.

A list is a value like any other: what changes it gives another list, and loops carry it as a
memory. `xs[i]` reads the value at a place that may be a variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import apply, one
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Dim
from braces.dtypes import ListType, TensorType, dtype_of
from braces.errors import DTypeError, ProgramError
from braces.frontend.control.construct import new_dim
from braces.frontend.core.all_or_nothing import building, operand
from braces.frontend.core.random_state import sizes_of
from braces.ops.control.core.residuals import history_of
from braces.ops.lists.list_to_array import stack, unstack
from braces.ops.lists.random_access import resize
from braces.ops.lists.stack import EMPTY, PUSH, list_attrs

__all__ = [
    "create_list", "list_append", "list_erase", "list_get", "list_insert", "list_length",
    "list_pop", "list_resize", "list_set", "list_stack", "list_unstack", "list_write",
]  # fmt: skip

_LAST = -1


def _a_list(xs: Any, what: str) -> Var:
    found = operand(xs, what)
    if not isinstance(found.type, ListType):
        raise DTypeError(
            f"{what} takes a list, not an array.",
            given=f"{found.name}: {found.type}",
            fix="Begin one with br.create_list, or br.list_unstack(x) of the rows of an array.",
        )
    return found


@building
def create_list(shape: Sequence[Any] | int | Dim, dtype: object = "float32") -> Var:
    """A list with nothing in it.

    Args:
        shape: The shape of its values; numbers or symbolic dimensions.
        dtype: Their dtype.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     n = br.data("n", [], dtype="int64")
        ...     powers = br.list_append(br.create_list([]), br.constant(1.0))
        ...     loop = br.create_while()
        ...     with loop.block() as body:
        ...         i, xs = body.add_memory(init=br.constant(0)), body.add_memory(init=powers)
        ...         body.set_condition(i < n)
        ...         xs.update(br.list_append(xs, xs[i] * 2.0))
        ...         i.update(i + 1)
        ...     last = loop.final(xs)[-1]
        >>> print(br.Executor().run(prog, br.Scope(), feed={"n": 10}, fetch=last))
        1024.0
    """
    element = TensorType(dtype_of(dtype), sizes_of(shape))
    history = current_program().current.names.unique("list")
    return apply(EMPTY, {}, list_attrs(element, history))["out"][0]


@building
def list_append(xs: Var, x: Any) -> Var:
    """A list with one more value at its end.

    Raises:
        DTypeError: The value is not of the type of those in the list.
    """
    found, table = _a_list(xs, "list_append"), current_program().current
    history = history_of(table, found.name) or table.names.unique("list")
    return apply(PUSH, {"list": (found,), "value": (x,)}, {"history": history})["out"][0]


@building
def list_get(xs: Var, index: Any) -> Var:
    """The value of a list at a place; the same as `xs[index]`.

    Args:
        xs: A list.
        index: An integer, or a variable that is one; negative ones count from the end.

    Raises:
        IndexRangeError: In a run, there is no such place.
    """
    return one("list_get", _a_list(xs, "list_get"), index)


@building
def list_set(xs: Var, index: Any, x: Any) -> Var:
    """A list with another value at a place.

    Raises:
        DTypeError: The value is not of the type of those in the list.
        IndexRangeError: In a run, there is no such place.
    """
    return one("list_set", _a_list(xs, "list_set"), index, x)


@building
def list_insert(xs: Var, index: Any, x: Any) -> Var:
    """A list with one more value, before the one at a place; at its length, at its end.

    Raises:
        DTypeError: The value is not of the type of those in the list.
        IndexRangeError: In a run, there is no such place.
    """
    return one("list_insert", _a_list(xs, "list_insert"), index, x)


@building
def list_erase(xs: Var, index: Any) -> Var:
    """A list without the value at a place.

    Raises:
        IndexRangeError: In a run, there is no such place.
    """
    return one("list_erase", _a_list(xs, "list_erase"), index)


@building
def list_pop(xs: Var) -> tuple[Var, Var]:
    """The last value of a list, and the list without it.

    Raises:
        IndexRangeError: In a run, the list is empty.
    """
    found = _a_list(xs, "list_pop")
    return one("list_get", found, _LAST), one("list_erase", found, _LAST)


@building
def list_write(xs: Var, index: Any, x: Any) -> Var:
    """A list with another value at a place, which may lie beyond its end.

    It is then as long as that takes, with zeros between.

    Raises:
        DTypeError: The value is not of the type of those in the list.
        IndexRangeError: In a run, the place lies before the list, or far too far beyond it.
    """
    found = _a_list(xs, "list_write")
    length = one("maximum", one("list_length", found), one("cast", index, dtype="int64") + 1)
    return one("list_set", resize(found, length), index, x)


@building
def list_resize(xs: Var, length: Any) -> Var:
    """The first values of a list, so many of them, with zeros where there are fewer.

    Raises:
        IndexRangeError: In a run, the length is negative, or far too large.
    """
    return resize(_a_list(xs, "list_resize"), length)


@building
def list_length(xs: Var) -> Var:
    """How many values a list has, as an int64 that a run tells."""
    return one("list_length", _a_list(xs, "list_length"))


@building
def list_stack(xs: Var, name: str | None = None) -> Var:
    """The values of a list as one array, with a leading axis of a size that the run tells.

    Args:
        xs: A list.
        name: What that size is called in shapes; a new name where it is not said.

    Raises:
        ProgramError: It is in a loop, each trip of which would have another size.
    """
    found, table = _a_list(xs, "list_stack"), current_program().current
    refuse_in_loops(found)
    return stack(found, sizes_of((name,))[0] if name else new_dim(table, "values"))


def refuse_in_loops(xs: Var) -> None:
    """Refuse to make an array of a list where each trip would have another size.

    Raises:
        ProgramError: The block that is built is in a loop.
    """
    if any(block.trip_index for block in current_program().current.chain()):
        raise ProgramError(
            "list_stack makes a size that only a run tells, which would change from trip to "
            "trip of a loop.",
            given=f"{xs.name}: {xs.type}",
            fix="Read single values with xs[i], or stack the list after the loop.",
        )


@building
def list_unstack(x: Var) -> Var:
    """The rows of an array as a list: along its first axis, in order.

    Raises:
        ShapeError: The array is a scalar.
    """
    return unstack(operand(x, "list_unstack"))
