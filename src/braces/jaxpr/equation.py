"""One equation of a jaxpr, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np

from braces.builder.var import Var
from braces.define.inference import Translation
from braces.dims import Shape
from braces.dtypes import DType, TensorType
from braces.errors import ProgramError
from braces.lazy import jax

Array: TypeAlias = "np.ndarray[Any, Any]"
Value: TypeAlias = "Var | Array"
"""A variable, or a number that the jaxpr has written out."""


class Runner(Protocol):
    """What turns jaxprs into operators, of the block that is current when it is asked."""

    what: str
    translation: Translation

    @property
    def line(self) -> str | None:
        """The line outside of JAX that made what is being appended."""
        ...

    def run(self, jaxpr: Any, consts: Sequence[Any], given: Sequence[Value]) -> list[Value]:
        """Append the operators of a jaxpr, and return what it gives."""
        ...

    def lift(self, value: Value) -> Var:
        """A value as a variable."""
        ...

    def inner(self) -> Runner:
        """One for a block inside the current one."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """An equation: a primitive of JAX, its parameters, and what it gives.

    Attributes:
        runner: What appends it.
        eqn: JAX's own record of it.
    """

    runner: Runner
    eqn: Any

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.eqn.primitive.name

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the primitive."""
        return self.eqn.params

    @property
    def types(self) -> list[TensorType]:
        """The types of what it gives."""
        return [self.runner.translation.type(v.aval) for v in self.eqn.outvars]

    @property
    def dtype(self) -> DType:
        """The dtype of the first that it gives."""
        return np.dtype(self.eqn.outvars[0].aval.dtype)

    @property
    def shape(self) -> Shape:
        """The shape of the first that it gives."""
        return self.sizes(self.eqn.outvars[0].aval.shape)

    def sizes(self, given: Sequence[Any]) -> Shape:
        """Sizes of JAX as ours."""
        return self.runner.translation.shape(given)

    def lift(self, value: Value) -> Var:
        """A value as a variable."""
        return self.runner.lift(value)

    def call(self, closed: Any, given: Sequence[Value]) -> list[Value]:
        """Put the equations of what is called in its place."""
        return self.runner.run(closed.jaxpr, closed.consts, given)

    def refuse(self, why: str) -> NoReturn:
        """Say that this equation has no operator.

        Raises:
            ProgramError: In any case.
        """
        raise ProgramError(
            f"{self.runner.what} uses `{self.name}` of JAX, {why}.",
            given=self.runner.line,
            fix="Compute it from other functions of jax.numpy, or write it with operators.",
        )


Rule: TypeAlias = "Callable[..., Value | Sequence[Value]]"
"""From an equation and its values, one by one, to what it gives."""


def written_at(eqn: Any) -> str | None:
    """The innermost line outside of JAX that made an equation.

    Only that of an outermost equation is sure: JAX traces a function that is called again once.
    """
    trace = eqn.source_info.traceback
    library = str(Path(jax.__file__).parent)
    frames = trace.frames if trace is not None else ()
    for frame in frames:
        if not frame.file_name.startswith((library, "<")):
            return f"{frame.file_name}:{frame.line_num}, in {frame.function_name}"
    return None
