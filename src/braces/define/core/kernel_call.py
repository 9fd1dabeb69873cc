"""Calls of kernels and rules of operator definitions, with error reporting.

Users write kernels and rules, too. A failure is reported as an error of the operator, with the
line that failed. Errors of Braces and interrupts pass unchanged.
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

RULE_RESULTS = {
    "axes=": "a notation, as '... i -> ...', or an AxisMap",
    "operations=": "an integer, or a size computed from sizes of its types",
    "dtypes=": "a dtype, or a tuple with one for each output",
    "infer": "the type of each output, as TensorType(dtype, shape)",
    "resolved": "a dict of attributes by name",
    "learned": "a dict of integers by dimension name",
    "gradient": "a dict of cotangents by input slot, one for each input of the slot",
    "jvp": "a dict of tangents by output slot, a tuple with one for each output of the slot",
    "masked": "an operator",
    "rounded": "an operator",
    "checked": "an array of bools",
}
"""The required result of each rule of a definition, by its name in `@op`."""


def call_rule(
    type: str,
    part: str,
    rule: Callable[..., Any],
    arguments: Sequence[Any],
    attrs: Mapping[str, Any],
    read: Callable[[Any], T],
    at: str | None = None,
) -> T:
    """Call a rule of a definition and return its checked result.

    Args:
        type: The operator.
        part: The name of the rule, a key of `GIVES`.
        rule: The rule.
        arguments: Its positional arguments.
        attrs: Its keyword arguments.
        read: Checks and converts the result; raises an exception if it is invalid.
        at: The source location of the operator, if known.

    Raises:
        OpDefinitionError: If the rule fails, or returns an invalid result.
    """
    try:
        result = rule(*arguments, **attrs)
    except Exception as error:
        reraise_foreign(error)
        detail = f"{error.__class__.__name__}: {first_line(error)}"
        what, line = f"{_rule_name(type, part)} raised {detail}", _failing_line(error, rule)
        raise _definition_error(what, part, line, (arguments, attrs), at) from error
    try:
        return read(result)
    except Exception as error:
        detail = f"{result.__class__.__name__}, {' '.join(repr(result).split()):.80}"
        what, line = (
            f"{_rule_name(type, part)} returned an invalid result: {detail}.",
            first_line_of(rule),
        )
        raise _definition_error(what, part, line, (arguments, attrs), at) from error


def raise_input_error(
    kind: type[BracesError],
    type: str,
    kernel: Callable[..., Any],
    values: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, Any],
    error: Exception,
) -> NoReturn:
    """Raise the error for inputs with which a kernel failed.

    Args:
        kind: The class of the error.
        type: The operator.
        kernel: Its kernel.
        values: The inputs by slot.
        attrs: The attributes.
        error: The exception of the kernel.
    """
    reraise_foreign(error)
    raise kind(
        f"{type}: the kernel failed for these inputs: {first_line(error)}",
        given=_format_inputs([_format_value(values)], attrs),
        fix=f"Pass inputs that the kernel supports; see {_failing_line(error, kernel)}",
    ) from error


def reraise_foreign(error: Exception) -> None:
    """Reraise an error that the called rule did not cause.

    Errors of Braces are complete. Memory exhaustion and exceptions of signal handlers belong to
    the program.
    """
    if isinstance(error, BracesError | MemoryError) or is_out_of_memory(error):
        raise error
    handlers = (signal.getsignal(item) for item in signal.valid_signals())
    codes = {getattr(item, "__code__", None) for item in handlers}
    if any(f.f_code in codes for f, _ in traceback.walk_tb(error.__traceback__)):
        raise error


def is_out_of_memory(error: Exception) -> bool:
    """Return whether JAX reports insufficient memory."""
    return "RESOURCE_EXHAUSTED" in str(error)


def first_line(error: Exception) -> str:
    """Return the first line of an error message, or else the class name."""
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__


def _rule_name(type: str, part: str) -> str:
    return f"{part} of {type}" if part.endswith("=") else f"@{type}.{part}"


def _definition_error(
    what: str,
    part: str,
    line: str,
    call: tuple[Sequence[Any], Mapping[str, Any]],
    at: str | None,
) -> OpDefinitionError:
    arguments, attrs = call
    return OpDefinitionError(
        what,
        at=at,
        given=_format_inputs(map(_format_value, arguments), attrs),
        fix=f"Return {RULE_RESULTS[part]}. See {line}",
    )


def _failing_line(error: Exception, function: Callable[..., Any]) -> str:
    """Return the line at which a function failed, or else its first line."""
    return innermost_line(error) or first_line_of(function)


def first_line_of(function: Callable[..., Any]) -> str:
    """Return file and first line of a function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _format_inputs(inputs: Iterable[str], attrs: Mapping[str, Any]) -> str:
    attr_texts = (f"{name}={value!r:.60}" for name, value in attrs.items())
    return "   ".join(filter(None, [*inputs, *attr_texts])) or "no inputs"


def _format_value(value: Any) -> str:
    """Format an array as its type, a mapping by slot, and other values by their own `str`."""
    if isinstance(value, Mapping):
        return "   ".join(
            f"{slot}: {_format_value(slot_value)}" for slot, slot_value in value.items()
        )
    if isinstance(value, tuple):
        return ", ".join(map(_format_value, value))
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if isinstance(value, TensorType) or dtype is None or shape is None:
        return "" if type(value).__str__ is object.__str__ else f"{value!s:.200}"
    return str(TensorType(np.dtype(dtype), tuple(shape)))
