"""Functions of NumPy on variables: elementwise ones append, the others say what to type.

NumPy asks a variable what `np.tanh(x)` is, and `array + x` too. What is elementwise has one
meaning, so it becomes the operator of that name. Other functions differ in defaults and in what
they call their arguments, so they name the function of Braces and stop there.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from braces.errors import SymbolicValueError
from braces.frontend.functions import ALIASES, FUNCTIONS
from braces.frontend.habits import HINTS
from braces.ops.source import user_line

_UFUNCS = {
    "absolute": "abs",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
}
"""Operators that NumPy calls otherwise; `&`, `|`, `^` and `~` are for bools here."""


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: Any) -> Any:
    """What `np.UFUNC(*inputs)` appends.

    Raises:
        SymbolicValueError: There is no such operator, or it is asked for more than a result.
    """
    name = ufunc.__name__
    known = _UFUNCS.get(name, ALIASES.get(name, name))
    if method != "__call__":
        _refuse(f"{name}.{method}")
    if options:
        _refuse(f"{name}(…, {next(iter(options))}=…)", known)
    if known not in FUNCTIONS:
        _refuse(name)
    return FUNCTIONS[known](*inputs)


def call_function(function: Callable[..., Any]) -> NoReturn:
    """Say what to type in place of `np.FUNCTION(x)`.

    Raises:
        SymbolicValueError: Always.
    """
    _refuse(function.__name__, function.__name__)


def _refuse(written: str, name: str | None = None) -> NoReturn:
    hint, own = HINTS.get(written), vars(sys.modules["braces"]).get(name or "")
    if hint is None and callable(own):
        hint = f"br.{name}{inspect.signature(own)}"
    raise SymbolicValueError(
        f"np.{written} computes with arrays, and a symbolic variable has no value yet.",
        at=user_line(),
        fix=f"Use {hint}." if hint else "Use what is in dir(br), or fetch the value: exe.run.",
    )
