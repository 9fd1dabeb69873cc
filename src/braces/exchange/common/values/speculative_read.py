"""Speculative reads: roll back a failed read, and report its cause."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from braces.errors import BracesError, ProgramError
from braces.exchange.common.model.unsupported import MissingValue
from braces.exchange.common.values.symbolic_arithmetic import NotConstant
from braces.extend.building import Builder, SymbolTable, Var

V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Lifted(Generic[V]):
    """A value that has become a variable.

    Attributes:
        value: The value, kept alive because it is looked up by its identity.
        table: The block that has the variable.
        var: The variable.
    """

    value: V
    table: SymbolTable
    var: Var


def names_lifted(lifted: dict[Any, Lifted[Any]], before: int) -> list[str]:
    """Return the names of the variables that were lifted last.

    Args:
        lifted: All values that have become variables, in order.
        before: The number of these that are left out.
    """
    return [entry.var.name for entry in islice(reversed(lifted.values()), len(lifted) - before)]


@contextmanager
def read_transaction(program: Builder, *held: dict[Any, Any]) -> Generator[None]:
    """Run the block as a transaction: an exception rolls back the program and the dictionaries.

    Args:
        program: The program that is built.
        *held: Dictionaries that only grow during a read.
    """
    marks = [len(entries) for entries in held]
    try:
        with program.transaction():
            yield
    except (BracesError, MissingValue):
        for entries, mark in zip(held, marks, strict=True):
            while len(entries) > mark:
                entries.popitem()
        raise


@contextmanager
def reporting_invalid_operator(
    what: str, sizes: str, fix: str | None = None, kind: type[BracesError] = ProgramError
) -> Generator[None]:
    """Report an exception of an invalid operator as an error of that operator.

    Args:
        what: The operator.
        sizes: The advice if an operand is not a size.
        fix: The advice otherwise, if there is one.
        kind: The type of the error if an operand is not a size.
    """
    try:
        yield
    except BracesError:
        raise
    except NotConstant:
        raise kind(
            f"{what:.80}: expected a size, got a value computed at run time.", fix=sizes
        ) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ProgramError(
            f"{what:.80} is invalid: {type(error).__name__}: {error!s:.200}", fix=fix
        ) from error
