"""Functions of NumPy on variables: elementwise ones append, the others say what to type.

NumPy asks a variable what `np.tanh(x)` is, and `array + x` too. What is elementwise has one
meaning, so it becomes the operator of that name. Other functions differ in defaults and in what
they call their arguments, so they name the function of Braces and stop there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any, ClassVar, NoReturn

from braces.builder.source_line import user_line
from braces.define.core.signature import call_signature
from braces.define.decorator import OPS, OpDef
from braces.errors import SymbolicValueError, did_you_mean
from braces.hints import ALIASES, HINTS, METHODS

_UFUNCS = {
    "absolute": "abs",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
}
"""Operators that NumPy calls otherwise; `&`, `|`, `^` and `~` are for bools here."""


class NumPyCalls:
    """What NumPy asks a variable, which appends with its own `op`."""

    __slots__ = ()

    op: ClassVar[Callable[..., Any]]
    """Appends an operator with one output; a class of variables says how."""
    composed: ClassVar[Mapping[str, Callable[..., Any]]]
    """Functions of users that are made of several operators, by name."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """What `np.UFUNC(*inputs)` appends.

        Raises:
            SymbolicValueError: There is no such operator, or more than a result is wanted.
        """
        name: str = ufunc.__name__
        known = _UFUNCS.get(name, ALIASES.get(name, name))
        if method != "__call__":
            _refuse(f"{name}.{method}")
        if options:
            _refuse(f"{name}(…, {next(iter(options))}=…)", known)
        if _function(known) is not None:
            return self.op(known, *inputs)
        if known not in self.composed:
            _refuse(name)
        return self.composed[known](*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Say what to type in place of `np.FUNCTION(x)`.

        Raises:
            SymbolicValueError: Always.
        """
        name: str = function.__name__
        _refuse(name, name, self.composed.get(name))


def no_attribute(name: str, known: Iterable[str]) -> AttributeError:
    """The error for `x.NAME` of a variable, which says what to type.

    Args:
        name: What was asked for.
        known: The attributes that a variable has.
    """
    near = did_you_mean(name, [one for one in known if not one.startswith("_")])
    definition = _function(name)
    hint = METHODS.get(name) or HINTS.get(name.lower())
    if name not in METHODS and (
        name in NumPyCalls.composed or (definition and definition.inputs)
    ):
        hint = f"br.{name}(x)"
    fix = f"Use {hint}." if hint else near or "See dir(br.Var)."
    return AttributeError(f"A variable has no `{name}`. {fix}", name=name)


def _refuse(
    written: str, name: str = "", composed: Callable[..., Any] | None = None
) -> NoReturn:
    hint, definition = HINTS.get(written), _function(name)
    if composed is not None:
        parameters = signature(composed).parameters.values()
        shown = [str(one.replace(annotation=one.empty)) for one in parameters]
        hint = f"br.{name}({', '.join(shown)})"
    elif hint is None and definition is not None:
        hint = f"br.{name}{call_signature(definition.inputs, definition.attrs)}"
    raise SymbolicValueError(
        f"np.{written} computes with arrays, and a symbolic variable has no value yet.",
        at=user_line(),
        fix=f"Use {hint}." if hint else "Use what is in dir(br), or fetch the value: exe.run.",
    )


def _function(name: str) -> OpDef | None:
    """The operator that users call by this name."""
    definition = OPS.find(name)
    return definition if definition is not None and definition.public else None
