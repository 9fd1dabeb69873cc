"""Errors of calls of compiled code, explained."""

from __future__ import annotations

from collections.abc import Iterable

from braces.define.core.kernel_call import first_line, is_out_of_memory
from braces.errors import BracesError
from braces.ir.records import Op
from braces.lazy import jax
from braces.lower.checks.out_of_memory import out_of_memory
from braces.lower.interpret.interpreter import describe_location
from braces.runtime.compile.executable import check_donated
from braces.runtime.devices.device_placement import (
    ShardedPlan,
    lost_process_error,
    refuse_sharded_values,
)
from braces.runtime.inputs.persistables import Run


def explain_call_error(
    error: Exception, run: Run, states: Iterable[str], placed: ShardedPlan | None
) -> None:
    """Raise the error of Braces that explains an error of a call, if there is one.

    Args:
        error: The error.
        run: The run.
        states: The persistable variables that it reads.
        placed: Their placement on several devices.

    Raises:
        BracesError: If memory is exhausted, a process is lost, values are on several devices,
            or another run donated them.
    """
    if is_out_of_memory(error):
        raise out_of_memory(first_line(error)) from None
    if placed is not None and jax.process_count() > 1:
        raise lost_process_error(error) from error
    with run.scope.turn:
        check_donated(run.states)
    if placed is None:
        refuse_sharded_values(states, run.states)


def locate_error(error: BaseException, path: str, op: Op) -> BaseException:
    """Return the error of an interrupted run, with its loop."""
    return (
        error.located(describe_location(path, op)) if isinstance(error, BracesError) else error
    )
