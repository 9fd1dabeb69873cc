"""One equation of a jaxpr, as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias, cast

import numpy as np

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.define.core.jax_settings import own_settings
from braces.define.core.tracer_guard import in_packages
from braces.define.jax_types import Translation
from braces.dims import Shape
from braces.dtypes import DType, TensorType
from braces.errors import BracesError, ProgramError
from braces.ir.records import Source
from braces.lazy import extend, jax

Array: TypeAlias = "np.ndarray[Any, Any]"
Value: TypeAlias = "Var | Array"
"""A variable, or a number that the jaxpr has written out."""


@dataclass(frozen=True)
class Problem:
    """What of a function of JAX has no operator.

    Attributes:
        primitive: Its name in JAX.
        line: The user's line that asked for it.
        error: Why.
    """

    primitive: str
    line: str
    error: BracesError


@dataclass(frozen=True)
class Whole:
    """How a function is read that becomes a program of its own.

    Its functions that are compiled by themselves stay blocks, each operator knows its line, and
    what cannot be read is noted: a user learns of everything at once.

    Attributes:
        program: What is built.
        keep: From an array that is written out to a variable that holds it; `None` where it is
            small enough to be a constant.
        problems: What could not be read.
        brought: The variables that hold arrays which functions close over.
    """

    program: Builder
    keep: Callable[[Array], Var | None]
    problems: list[Problem] = field(default_factory=list[Problem])
    brought: set[str] = field(default_factory=set[str])


class Runner(Protocol):
    """What turns jaxprs into operators, of the block that is current when it is asked.

    Attributes:
        standing: Calls of functions in whose own gradients it stands, and what they give.
    """

    what: str
    translation: Translation
    whole: Whole | None
    standing: dict[Hashable, list[Value]]

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

    def find(self, variable: Any) -> Value | None:
        """Compute a variable of the jaxprs that are being read, or return `None`."""
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
        return [self.runner.translation.type(in_words(v.aval)) for v in self.eqn.outvars]

    @property
    def dtype(self) -> DType:
        """The dtype of the first that it gives."""
        return np.dtype(in_words(self.eqn.outvars[0].aval).dtype)

    @property
    def shape(self) -> Shape:
        """The shape of the first that it gives."""
        return self.sizes(in_words(self.eqn.outvars[0].aval).shape)

    def sizes(self, given: Sequence[Any]) -> Shape:
        """Sizes of JAX as ours."""
        return self.runner.translation.shape(given)

    def lift(self, value: Value) -> Var:
        """A value as a variable."""
        return self.runner.lift(value)

    def lift_number(self, number: int) -> Var:
        """An index as a variable."""
        return self.runner.lift(np.asarray(number, np.int32))

    def call(self, closed: Any, given: Sequence[Value]) -> list[Value]:
        """Put the equations of what is called in its place."""
        return self.runner.run(closed.jaxpr, closed.consts, given)

    def written(self, function: Callable[..., Any], *given: Value) -> list[Value]:
        """Put what a function of JAX does in place of the equation.

        The function is written with primitives that have rules, and names its dtypes.
        """
        to_struct = self.runner.translation.struct
        vars_ = [self.lift(value) for value in given]
        structs = [to_struct(TensorType(v.dtype, v.shape)) for v in vars_]
        with own_settings():
            closed = cast("Any", jax).make_jaxpr(function)(*structs)
        return self.call(closed, vars_)

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


def needed(jaxpr: Any) -> tuple[set[Any], list[Any]]:
    """What the results of a jaxpr follow from: variables, and equations in order."""
    used = {atom for atom in jaxpr.outvars if not isinstance(atom, extend.Literal)}
    kept = list[Any]()
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not used.isdisjoint(eqn.outvars):
            kept.append(eqn)
            used.update(a for a in eqn.invars if not isinstance(a, extend.Literal))
    return used, kept[::-1]


def in_words(aval: Any) -> Any:
    """What is known of an array; a key of random numbers is the words that it is made of."""
    library: Any = jax
    is_key = library.dtypes.issubdtype(aval.dtype, library.dtypes.prng_key)
    return library.eval_shape(library.random.key_data, aval) if is_key else aval


def written_at(eqn: Any) -> str | None:
    """The innermost line outside of JAX that made an equation.

    Only that of an outermost equation is sure: JAX traces a function that is called again once.
    """
    frame = _frame(eqn)
    if frame is None:
        return None
    return f"{frame.file_name}:{frame.line_num}, in {frame.function_name}"


def source_of(eqn: Any) -> Source | None:
    """The same line, as operators keep it."""
    frame = _frame(eqn)
    return None if frame is None else Source(frame.file_name, frame.line_num)


def of_library(file: str | None) -> bool:
    """Return whether a file belongs to JAX; what `exec` and consoles run does not."""
    return file is None or in_packages(file, jax)


def _frame(eqn: Any) -> Any:
    trace = eqn.source_info.traceback
    frames = trace.frames if trace is not None else ()
    return next((frame for frame in frames if not of_library(frame.file_name)), None)
