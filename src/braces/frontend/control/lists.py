"""Lists of arrays of one type, with a data-dependent length.

A list is an immutable value: functions that change it return another list, and loops carry it
as a memory. `xs[i]` reads an element; the index may be a variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from braces.builder.append import apply, emit
from braces.builder.builder import current_program
from braces.builder.var import Var
from braces.dims import Dim
from braces.dtypes import ListType, TensorType, dtype_of
from braces.errors import DTypeError, ProgramError
from braces.frontend.control.construct import new_dim
from braces.frontend.core.all_or_nothing import operand, transactional
from braces.frontend.core.random_state import as_shape
from braces.ops.control.core.residuals import find_filling_loop
from braces.ops.lists.list_to_array import append_stack, append_unstack
from braces.ops.lists.random_access import append_resize
from braces.ops.lists.stack import EMPTY, PUSH, list_attrs

_LAST = -1


def _a_list(xs: Any, what: str) -> Var:
    xs_var = operand(xs, what)
    if not isinstance(xs_var.type, ListType):
        raise DTypeError(
            f"{what}: expected a list, got an array.",
            given=f"{xs_var.name}: {xs_var.type}",
            fix="Create one with br.lists.create, or br.lists.unstack(x) from an array.",
        )
    return xs_var


@transactional
def create(shape: Sequence[Any] | int | Dim, dtype: object = "float32") -> Var:
    """Create an empty list.

    Args:
        shape: The shape of its elements; numbers or symbolic dimensions.
        dtype: Their dtype.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     n = br.data("n", [], dtype="int64")
        ...     powers = br.lists.append(br.lists.create([]), br.constant(1.0))
        ...     loop = br.create_while()
        ...     with loop.block() as body:
        ...         i, xs = body.add_memory(init=br.constant(0)), body.add_memory(init=powers)
        ...         body.set_condition(i < n)
        ...         xs.update(br.lists.append(xs, xs[i] * 2.0))
        ...         i.update(i + 1)
        ...     last = loop.final(xs)[-1]
        >>> print(br.Executor().run(prog, br.Scope(), feed={"n": 10}, fetch=last))
        1024.0
    """
    element = TensorType(dtype_of(dtype), as_shape(shape))
    history = current_program().current.names.unique("list")
    return apply(EMPTY, {}, list_attrs(element, history))["out"][0]


@transactional
def append(xs: Var, x: Any) -> Var:
    """Return a list with a value appended.

    Raises:
        DTypeError: If the type of the value differs from that of the elements.
    """
    list_var, table = _a_list(xs, "br.lists.append"), current_program().current
    history = find_filling_loop(table, list_var.name) or table.names.unique("list")
    return apply(PUSH, {"list": (list_var,), "value": (x,)}, {"history": history})["out"][0]


@transactional
def get(xs: Var, index: Any) -> Var:
    """Return the element at an index; the same as `xs[index]`.

    Args:
        xs: A list.
        index: An integer, or an integer variable; negative indices count from the end.

    Raises:
        IndexRangeError: If the index is out of range at run time.
    """
    return emit("list_get", _a_list(xs, "br.lists.get"), index)


@transactional
def set(xs: Var, index: Any, x: Any) -> Var:
    """Return a list with the element at an index replaced.

    Raises:
        DTypeError: If the value does not have the type of the elements.
        IndexRangeError: If the index is out of range at run time.
    """
    return emit("list_set", _a_list(xs, "br.lists.set"), index, x)


@transactional
def insert(xs: Var, index: Any, x: Any) -> Var:
    """Return a list with a value inserted before an index; the length appends it.

    Raises:
        DTypeError: If the value does not have the type of the elements.
        IndexRangeError: If the index is out of range at run time.
    """
    return emit("list_insert", _a_list(xs, "br.lists.insert"), index, x)


@transactional
def erase(xs: Var, index: Any) -> Var:
    """Return a list without the element at an index.

    Raises:
        IndexRangeError: If the index is out of range at run time.
    """
    return emit("list_erase", _a_list(xs, "br.lists.erase"), index)


@transactional
def pop(xs: Var) -> tuple[Var, Var]:
    """Return the last element of a list, and the list without it.

    Raises:
        IndexRangeError: If the list is empty at run time.
    """
    list_var = _a_list(xs, "br.lists.pop")
    return emit("list_get", list_var, _LAST), emit("list_erase", list_var, _LAST)


@transactional
def write(xs: Var, index: Any, x: Any) -> Var:
    """Return a list with the element at an index replaced; the index may be past the end.

    The list grows to hold the index; new elements in between are zero.

    Raises:
        DTypeError: If the value does not have the type of the elements.
        IndexRangeError: If the index is out of range or too large at run time.
    """
    list_var = _a_list(xs, "br.lists.write")
    length = emit(
        "maximum", emit("list_length", list_var), emit("cast", index, dtype="int64") + 1
    )
    return emit("list_set", append_resize(list_var, length), index, x)


@transactional
def resize(xs: Var, length: Any) -> Var:
    """Return a list truncated to a length, or padded with zeros.

    Raises:
        IndexRangeError: If the length is negative or too large at run time.
    """
    return append_resize(_a_list(xs, "br.lists.resize"), length)


@transactional
def length(xs: Var) -> Var:
    """Return the length of a list as an int64 scalar."""
    return emit("list_length", _a_list(xs, "br.lists.length"))


@transactional
def stack(xs: Var, name: str | None = None) -> Var:
    """Stack the elements of a list to one array with a leading axis of data-dependent size.

    Args:
        xs: A list.
        name: The name of that size in shapes; a new name by default.

    Raises:
        ProgramError: If the list is in a loop, where the size would differ between iterations.
    """
    list_var, table = _a_list(xs, "br.lists.stack"), current_program().current
    refuse_in_loops(list_var)
    return append_stack(list_var, as_shape((name,))[0] if name else new_dim(table, "values"))


def refuse_in_loops(xs: Var) -> None:
    """Refuse to stack a list in a loop, where the size would differ in each iteration.

    Raises:
        ProgramError: If the current block is in a loop.
    """
    if any(block.trip_index for block in current_program().current.chain()):
        raise ProgramError(
            "br.lists.stack has an output of data-dependent size, which is unsupported in a "
            "loop.",
            given=f"{xs.name}: {xs.type}",
            fix="Read single values with xs[i], or stack the list after the loop.",
        )


@transactional
def unstack(x: Var) -> Var:
    """Return the slices of an array along its first axis as a list, in order.

    Raises:
        ShapeError: If the array is a scalar.
    """
    return append_unstack(operand(x, "br.lists.unstack"))
