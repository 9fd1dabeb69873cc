"""What a definition is made of is called here: its kernel, and functions that say more of it.

They are written by users too. What fails in one is told as an error of the operator, with the
line that failed; errors of ours, and what interrupts the whole program, pass as they are.
"""

from __future__ import annotations

import inspect
import signal
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from braces.define.core.tracer_guard import innermost_line
from braces.dtypes import TensorType
from braces.errors import BracesError, OpDefinitionError

T = TypeVar("T")

GIVES = {
    "axes=": "a notation, as '... i -> ...', or an AxisMap",
    "operations=": "a whole number, or a size made of those of its types",
    "dtypes=": "a dtype, or a tuple with one for each output",
    "infer": "the type of each output, as TensorType(dtype, shape)",
    "resolved": "a dict of attributes by name",
    "learned": "a dict of whole numbers by the names of dimensions",
    "gradient": "a dict of cotangents by input slot, one for each input of the slot",
    "jvp": "a dict of tangents by output slot, a tuple with one for each output of the slot",
    "masked": "an operator",
    "rounded": "an operator",
    "checked": "an array of bools",
}
"""What the functions of a definition have to give, by the names that `@op` has for them."""


def ask(
    type: str,
    part: str,
    rule: Callable[..., Any],
    arguments: Sequence[Any],
    attrs: Mapping[str, Any],
    read: Callable[[Any], T],
    at: str | None = None,
) -> T:
    """What a function of a definition says.

    Args:
        type: The operator.
        part: Which function it is, a key of `GIVES`.
        rule: The function.
        arguments: What it is called with.
        attrs: Its keyword arguments.
        read: Brings to a form what it gave, and fails where that is not what it has to give.
        at: Where the operator is, if that is known here.

    Raises:
        OpDefinitionError: It fails, or gives something else.
    """
    try:
        found = rule(*arguments, **attrs)
    except Exception as error:
        raise_foreign(error)
        said = f"{error.__class__.__name__}: {first_line(error)}"
        what, line = f"{_called(type, part)} fails: {said}", _failed_at(error, rule)
        raise _undefined(what, part, line, (arguments, attrs), at) from error
    try:
        return read(found)
    except Exception as error:
        said = f"{found.__class__.__name__}, {' '.join(repr(found).split()):.80}"
        what, line = f"{_called(type, part)} gives something else: {said}.", _begins_at(rule)
        raise _undefined(what, part, line, (arguments, attrs), at) from error


def refuse_inputs(
    kind: type[BracesError],
    type: str,
    kernel: Callable[..., Any],
    values: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
    error: Exception,
) -> NoReturn:
    """Raise what tells that a kernel failed, where the kernel is what failed.

    Args:
        kind: The class of the error.
        type: The operator.
        kernel: Its kernel.
        values: The inputs by slot.
        attrs: The attributes.
        error: How it failed.
    """
    raise_foreign(error)
    raise kind(
        f"{type} cannot take these inputs: {first_line(error)}",
        given=_given([_shown(values)], attrs),
        fix=f"Give what its kernel takes; it failed at {_failed_at(error, kernel)}",
    ) from error


def raise_foreign(error: Exception) -> None:
    """Raise an error again that is not the fault of what was called.

    Errors of ours say all that there is to say; where memory ends, and what a handler of a
    signal raises, belongs to whom the whole program belongs.
    """
    if isinstance(error, BracesError | MemoryError) or exhausted(error):
        raise error
    handlers = (signal.getsignal(one) for one in signal.valid_signals())
    codes = {getattr(one, "__code__", None) for one in handlers}
    if any(f.f_code in codes for f, _ in traceback.walk_tb(error.__traceback__)):
        raise error


def exhausted(error: Exception) -> bool:
    """Whether JAX says that there is not enough memory."""
    return "RESOURCE_EXHAUSTED" in str(error)


def first_line(error: Exception) -> str:
    """The first line of what an error says, or what it is called."""
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__


def _called(type: str, part: str) -> str:
    return f"{part} of {type}" if part.endswith("=") else f"@{type}.{part}"


def _undefined(
    what: str,
    part: str,
    line: str,
    asked: tuple[Sequence[Any], Mapping[str, Any]],
    at: str | None,
) -> OpDefinitionError:
    arguments, attrs = asked
    return OpDefinitionError(
        what,
        at=at,
        given=_given(map(_shown, arguments), attrs),
        fix=f"It has to give {GIVES[part]}. See {line}",
    )


def _failed_at(error: Exception, function: Callable[..., Any]) -> str:
    """The line at which a function failed; where it is not Python's, where it begins."""
    return innermost_line(error) or _begins_at(function)


def _begins_at(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _given(inputs: Iterable[str], attrs: Mapping[str, Any]) -> str:
    rest = (f"{name}={value!r:.60}" for name, value in attrs.items())
    return "   ".join(filter(None, [*inputs, *rest])) or "no inputs"


def _shown(value: Any) -> str:
    """An array as its type, values by slot as theirs, and what else describes itself."""
    if isinstance(value, Mapping):
        return "   ".join(f"{slot}: {_shown(found)}" for slot, found in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if isinstance(value, TensorType) or dtype is None or shape is None:
        return "" if type(value).__str__ is object.__str__ else f"{value!s:.200}"
    return str(TensorType(np.dtype(dtype), tuple(shape)))
