"""The operators as functions: `softmax(x, axis=-1)` appends a `softmax` to the program.

Each function is generated from its operator's definition. Inputs come first, then attributes,
by position or by keyword. Operators with a variable number of inputs take them as one list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from braces.builder.append import apply, unpack_outputs
from braces.define.completion import DefinitionRules
from braces.define.core.signature import call_signature
from braces.define.decorator import OPS, OpDef, op as define_op
from braces.errors import ProgramError
from braces.homes import ELSEWHERE, FUNCTIONS as NAMES, OPERATORS, public_path
from braces.keywords import say_keyword
from braces.passes.autodiff.common import as_list


class OperatorFunction(DefinitionRules):
    """The public function of an operator.

    Attributes:
        definition: The operator.
    """

    def __init__(self, definition: OpDef) -> None:
        self.definition = definition
        self.__qualname__ = public_path(definition.type).removeprefix("br.")
        self.__name__ = self.__qualname__.rpartition(".")[2]
        self.__doc__ = definition.doc
        self.__module__ = "braces"
        self.__signature__ = call_signature(definition.inputs, definition.attrs)
        parameters = self.__signature__.parameters.values()
        self._positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self._required = frozenset(p.name for p in parameters if p.default is p.empty)
        self._names_itself = "name" in self.__signature__.parameters

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Append the operator; inputs first, then attributes, by position or by keyword.

        `name=` names the operator and its output, unless the operator has such a slot itself.
        """
        definition = self.definition
        name = "" if self._names_itself else kwargs.pop("name", "")
        arguments = dict(zip(self._positional, args, strict=False)) | kwargs
        known = self.__signature__.parameters.keys()
        fits = len(arguments) == len(args) + len(kwargs) and arguments.keys() <= known
        if not fits or not self._required <= arguments.keys():
            raise self._argument_error(args, kwargs)
        inputs: dict[str, Sequence[Any]] = {}
        attrs: dict[str, Any] = {}
        for key, value in arguments.items():
            slot = definition.input_slots.get(key)
            if slot is None:
                attrs[key] = value
            elif slot.many:
                inputs[key] = as_list(value)
            elif value is not None or not slot.optional:
                inputs[key] = (value,)
        return unpack_outputs(definition, apply(definition, inputs, attrs, name=name))

    def _argument_error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ProgramError:
        """Return an error with Python's message about the arguments."""
        try:
            self.__signature__.bind(*args, **kwargs)
            what = "invalid arguments"
        except TypeError as error:
            what = str(error)
        known = self.__signature__.parameters
        unknown = next((word for word in kwargs if word not in known), None)
        hint = "" if unknown is None else say_keyword(unknown, known)
        fix = f"{hint} Call {self.__name__}{self.__signature__}.".lstrip()
        return ProgramError(f"{self.__name__}: {what}.", fix=fix)

    def __repr__(self) -> str:
        return f"<operator {self.__name__}{self.__signature__}>"


def function_of(type_: str) -> OperatorFunction:
    """Return the public function of an operator."""
    return OperatorFunction(OPS.get(type_))


def op(kernel: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Define a custom operator; see `braces.define.decorator.op` for the options.

    Example:
        >>> import braces as br
        >>> @br.op(examples=("x=f32[2]",))
        ... def cube(x: br.Tensor, *, scale: float = 1.0) -> br.Tensor:
        ...     '''The third power.'''
        ...     return scale * x**3
        >>> with br.Program():
        ...     print(cube(br.data("x", ["b"]), scale=2.0).type)
        f32[b]
    """

    def decorate(kernel: Callable[..., Any]) -> OperatorFunction:
        return OperatorFunction(define_op(kernel, **options))

    return decorate if kernel is None else decorate(kernel)


def public_operators() -> list[str]:
    """Return the operators with a public function: those on arrays, without sub-blocks."""
    return [definition.type for definition in OPS.definitions.values() if definition.public]


FUNCTIONS: dict[str, OperatorFunction] = {
    name: function_of(name) for name in public_operators()
}
"""The function of each public operator, by its type."""
ALIASES = {**OPERATORS, "add_two": "add"}
"""Names of functions that are not the type of their operator; `add_two` is a word of Paddle."""
UNLISTED = ("add_two",)
"""Aliases that are not listed in `dir(br)`."""
globals().update(FUNCTIONS, **{alias: FUNCTIONS[name] for alias, name in ALIASES.items()})
__all__ = sorted({NAMES.get(name, name) for name in FUNCTIONS}.difference(ELSEWHERE))  # pyright: ignore[reportUnsupportedDunderAll]
