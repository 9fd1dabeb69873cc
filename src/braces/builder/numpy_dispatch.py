"""NumPy functions on variables: ufuncs append operators, others raise with a suggestion.

NumPy dispatches `np.tanh(x)` and `array + x` to the variable. Elementwise functions have one
meaning, so they append the operator of that name. Other functions differ in defaults and
argument names, so the error names the Braces function instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from typing import Any, ClassVar, NoReturn

from braces.builder.source_line import user_line
from braces.define.core.signature import call_signature
from braces.define.decorator import OPS, OpDef
from braces.errors import SymbolicValueError, did_you_mean
from braces.homes import public_path

_UFUNCS = {
    "absolute": "abs",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
    "power": "pow",
}
"""NumPy ufuncs with another operator name; `&`, `|`, `^` and `~` are logical here."""


class NumPyDispatch:
    """Mixin for NumPy's dispatch protocols; it appends with the `op` of the class."""

    __slots__ = ()

    op: ClassVar[Callable[..., Any]]
    """Append an operator with one output; set by the class of variables."""
    composed: ClassVar[Mapping[str, Callable[..., Any]]]
    """Public functions composed of several operators, by name."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Append the operator for `np.UFUNC(*inputs)`.

        Raises:
            SymbolicValueError: If the ufunc has no operator, or the call has options.
        """
        name: str = ufunc.__name__
        op_type = _UFUNCS.get(name, name)
        if method != "__call__":
            _refuse(f"{name}.{method}")
        if options:
            _refuse(f"{name}(…, {next(iter(options))}=…)", op_type)
        if _find_public_op(op_type) is not None:
            return self.op(op_type, *inputs)
        if op_type not in self.composed:
            _refuse(name)
        return self.composed[op_type](*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Raise an error that suggests the Braces function for `np.FUNCTION(x)`.

        Raises:
            SymbolicValueError: Always.
        """
        name: str = function.__name__
        _refuse(name, name, self.composed.get(name))


def missing_attribute_error(name: str, known: Iterable[str]) -> AttributeError:
    """Build the error for `x.NAME` of a variable, with a suggestion.

    Args:
        name: The unknown attribute.
        known: The attributes of a variable.
    """
    from braces.hints.answers import habit_of, method_hint  # on an error only

    suggestion = did_you_mean(
        name, [attribute for attribute in known if not attribute.startswith("_")]
    )
    definition = _find_public_op(name)
    hint = method_hint(name)
    if not hint and (name in NumPyDispatch.composed or (definition and definition.inputs)):
        hint = f"{public_path(name)}(x)"
    hint = hint or habit_of(name)
    if not hint and name.endswith("_"):  # x.add_(y) of PyTorch
        hint = "a new variable, as x = x + y or br.where: variables are immutable"
    fix = f"Use {hint}." if hint else suggestion or "See dir(br.Var)."
    return AttributeError(f"Var has no attribute `{name}`. {fix}", name=name)


def _refuse(
    written: str, name: str = "", composed: Callable[..., Any] | None = None
) -> NoReturn:
    from braces.hints.answers import class_hint, habit_of  # on an error only

    hint, definition = habit_of(written), _find_public_op(name)
    if composed is not None:
        parameters = signature(composed).parameters.values()
        arguments = [
            str(parameter.replace(annotation=parameter.empty)) for parameter in parameters
        ]
        hint = f"{public_path(name)}({', '.join(arguments)})"
    elif not hint and definition is not None:
        hint = f"{public_path(name)}{call_signature(definition.inputs, definition.attrs)}"
    hint = hint or class_hint(written)
    raise SymbolicValueError(
        f"np.{written}: expected arrays, got a symbolic variable, which has no value yet.",
        at=user_line(),
        fix=f"Use {hint}."
        if hint
        else "Use a function in dir(br), or fetch the value: exe.run.",
    )


def _find_public_op(name: str) -> OpDef | None:
    """Return the public operator of this name, if any."""
    definition = OPS.find(name)
    return definition if definition is not None and definition.public else None
