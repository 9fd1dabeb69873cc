"""Reading what may not be readable: nothing is left of it, and what it trips over is said."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var
from braces.errors import BracesError, ProgramError
from braces.exchange.common.model.unsupported import Missing
from braces.exchange.common.values.symbolic_arithmetic import Unknown

V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Lifted(Generic[V]):
    """A value that has become a variable.

    Attributes:
        value: The value, which is known by its identity as long as it is kept here.
        table: The block in which it is one.
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
    return [one.var.name for one in islice(reversed(lifted.values()), len(lifted) - before)]


@contextmanager
def attempt(program: Builder, *held: dict[Any, Any]) -> Generator[None]:
    """Where an exception leaves, nothing was built, and what is held is as it was.

    Args:
        program: What is built.
        *held: What only grows while something is read.
    """
    marks = [len(kept) for kept in held]
    try:
        with program.transaction():
            yield
    except (BracesError, Missing):
        for kept, mark in zip(held, marks, strict=True):
            while len(kept) > mark:
                kept.popitem()
        raise


@contextmanager
def sensible(
    what: str, sizes: str, fix: str | None = None, kind: type[BracesError] = ProgramError
) -> Generator[None]:
    """Inside, what only an operator that makes no sense leads to is said of the operator.

    Args:
        what: The operator.
        sizes: The way out where it computes with what is no size.
        fix: The way out elsewhere, where one is known.
        kind: The error where it computes with what is no size.
    """
    try:
        yield
    except BracesError:
        raise
    except Unknown:
        raise kind(f"{what:.80} computes with what is no size.", fix=sizes) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ProgramError(
            f"{what:.80} makes no sense: {type(error).__name__}, {error!s:.200}", fix=fix
        ) from error
