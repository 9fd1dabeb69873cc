"""The interface of rules to an equation of a jaxpr."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias, TypeVar, cast

import numpy as np

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.define.core.jax_settings import braces_jax_settings
from braces.define.core.tracer_guard import is_in_packages, is_package_file
from braces.define.jax_types import JaxTypeConverter
from braces.dims import Shape
from braces.dtypes import DType, TensorType
from braces.errors import BracesError, ProgramError
from braces.ir.records import Source
from braces.lazy import extend, jax
from braces.notebook import line_text
from braces.passes.autodiff.common import DifferentiablePaths

Result = TypeVar("Result")
Array: TypeAlias = "np.ndarray[Any, Any]"
Value: TypeAlias = "Var | Array"
"""A variable, or a literal of the jaxpr."""


@dataclass(frozen=True)
class UnsupportedEquation:
    """An unsupported equation.

    Attributes:
        primitive: Its name in JAX.
        line: The user's line.
        error: The reason.
    """

    primitive: str
    line: str
    error: BracesError


@dataclass(frozen=True)
class ProgramImport:
    """The import of a function as a separate program.

    Functions under `jit` stay blocks, operators record their source lines, and problems are
    collected so that one message lists all of them.

    Attributes:
        program: The program that is built.
        keep: Maps an array to the variable that holds it; `None` if it is small enough to be a
            constant.
        problems: The unsupported equations.
        brought: The variables of captured arrays.
    """

    program: Builder
    keep: Callable[[Array], Var | None]
    problems: list[UnsupportedEquation] = field(default_factory=list[UnsupportedEquation])
    brought: set[str] = field(default_factory=set[str])


class JaxprReader(Protocol):
    """Converts jaxprs to operators of the block that is current at the call.

    Attributes:
        standing: The calls whose custom gradients are being built, with their results.
        paths: The variables that depend on differentiable ones.
        traced: The jaxprs of functions that replace equations, by function and types.
    """

    what: str
    translation: JaxTypeConverter
    whole: ProgramImport | None
    standing: dict[Hashable, list[Value]]
    paths: DifferentiablePaths
    traced: dict[Hashable, Any]

    @property
    def line(self) -> str | None:
        """The user's line for the operator that is being appended."""
        ...

    def run(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        """Append the operators of a jaxpr, and return its results."""
        ...

    def lift(self, value: Value) -> Var:
        """Return a value as a variable."""
        ...

    def inner(self) -> JaxprReader:
        """Return an importer for a nested block."""
        ...

    def find(self, variable: Any) -> Value | None:
        """Compute a variable of the jaxprs that are being read, or return `None`."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """An equation: a JAX primitive, its parameters, and its result types.

    Attributes:
        runner: The importer.
        eqn: The JAX record.
    """

    runner: JaxprReader
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
        """The types of the results."""
        return [self.runner.translation.type(abstract_words(v.aval)) for v in self.eqn.outvars]

    @property
    def dtype(self) -> DType:
        """The dtype of the first result."""
        return np.dtype(abstract_words(self.eqn.outvars[0].aval).dtype)

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.sizes(abstract_words(self.eqn.outvars[0].aval).shape)

    def sizes(self, jax_sizes: Sequence[Any]) -> Shape:
        """Convert sizes of JAX."""
        return self.runner.translation.shape(jax_sizes)

    def lift(self, value: Value) -> Var:
        """Return a value as a variable."""
        return self.runner.lift(value)

    def lift_number(self, number: int) -> Var:
        """Return an index as a variable."""
        return self.runner.lift(np.asarray(number, np.int32))

    def call(self, closed: Any, inputs: Sequence[Value]) -> list[Value]:
        """Inline the equations of a called jaxpr."""
        return self.runner.run(closed.jaxpr, closed.consts, inputs)

    def written(self, function: Callable[..., Any], *given: Value) -> list[Value]:
        """Replace the equation by a JAX function.

        The function consists of supported primitives, with explicit dtypes.
        """
        to_struct = self.runner.translation.struct
        vars_ = [self.lift(value) for value in given]
        structs = [to_struct(TensorType(v.dtype, v.shape)) for v in vars_]
        key, traced = (function, *structs), self.runner.traced
        if key not in traced:
            with braces_jax_settings():
                traced[key] = cast("Any", jax).make_jaxpr(function)(*structs)
        return self.call(traced[key], vars_)

    def refuse(self, why: str) -> NoReturn:
        """Raise an error that this equation is not supported.

        Raises:
            ProgramError: Always.
        """
        raise ProgramError(
            f"{self.runner.what} uses unsupported JAX primitive `{self.name}`: {why}.",
            given=self.runner.line,
            fix="Use other functions of jax.numpy, or operators.",
        )


Rule: TypeAlias = "Callable[..., Value | Sequence[Value]]"
"""Maps an equation and its operands to its results."""


def eliminate_dead_equations(jaxpr: Any) -> tuple[set[Any], list[Any]]:
    """Eliminate dead code: return the live variables and the live equations in order."""
    live = {atom for atom in jaxpr.outvars if not isinstance(atom, extend.Literal)}
    live_equations = list[Any]()
    for eqn in reversed(jaxpr.eqns):
        if eqn.effects or not live.isdisjoint(eqn.outvars):
            live_equations.append(eqn)
            live.update(a for a in eqn.invars if not isinstance(a, extend.Literal))
    return live, live_equations[::-1]


def run_equations(
    jaxpr: Any,
    environment: dict[Any, Result],
    literal: Callable[[Array], Result],
    run: Callable[[Any, list[Result]], Sequence[Result]],
) -> list[Result]:
    """Run the live equations of a jaxpr in order, and return its results.

    Args:
        jaxpr: The jaxpr.
        environment: The values of its inputs and constants; gains those of the equations.
        literal: Converts a literal, as an array in its dtype, to a value.
        run: Maps an equation and its operands to its results.
    """
    _, equations = eliminate_dead_equations(jaxpr)
    run_live_equations(equations, environment, literal, run)
    return values_of(jaxpr.outvars, environment, literal)


def run_live_equations(
    equations: Sequence[Any],
    environment: dict[Any, Result],
    literal: Callable[[Array], Result],
    run: Callable[[Any, list[Result]], Sequence[Result]],
) -> None:
    """Run equations in order; the arguments are those of `run_equations`."""
    for eqn in equations:
        results = run(eqn, values_of(eqn.invars, environment, literal))
        environment.update(zip(eqn.outvars, results, strict=True))


def values_of(
    atoms: Sequence[Any], environment: Mapping[Any, Result], literal: Callable[[Array], Result]
) -> list[Result]:
    """Return the values of variables and literals."""
    return [
        literal(literal_array(atom)) if isinstance(atom, extend.Literal) else environment[atom]
        for atom in atoms
    ]


def literal_array(literal: Any) -> Array:
    """Return a literal of a jaxpr as an array in its dtype."""
    return constant_array(np.asarray(literal.val, literal.aval.dtype))


def constant_array(array: Any) -> Array:
    """Return a constant of a jaxpr as an array; tangents of integers are `False`."""
    is_tangent = array.dtype == _float0()
    return np.zeros(array.shape, bool) if is_tangent else np.asarray(array)


def abstract_words(aval: Any) -> Any:
    """Return an abstract value as that of an array of a program.

    A random key becomes its words. The tangents of integers (`float0`), which have no values,
    become bools, as in XLA.
    """
    library: Any = jax
    if aval.dtype == _float0():
        return library.ShapeDtypeStruct(aval.shape, np.dtype(bool))
    is_key = library.dtypes.issubdtype(aval.dtype, library.dtypes.prng_key)
    return library.eval_shape(library.random.key_data, aval) if is_key else aval


def _float0() -> Any:
    library: Any = jax
    return library.dtypes.float0


def user_line(eqn: Any) -> str | None:
    """Return the innermost line outside JAX that created an equation.

    It is only reliable for outermost equations, since JAX caches the trace of a function.
    """
    frame = _frame(eqn)
    if frame is None:
        return None
    return f"{line_text(frame.file_name, frame.line_num)}, in {frame.function_name}"


def source_of(eqn: Any) -> Source | None:
    """Return the same line as a source record of operators."""
    frame = _frame(eqn)
    return None if frame is None else Source(frame.file_name, frame.line_num)


@functools.cache
def is_library_file(file: str | None) -> bool:
    """Return whether a file belongs to JAX; code of `exec` and consoles does not."""
    return file is None or is_in_packages(file, jax)


def _frame(eqn: Any) -> Any:
    """Return the innermost frame outside JAX; `None` in a function of the importer itself."""
    trace = eqn.source_info.traceback
    frames = trace.frames if trace is not None else ()
    frame = next((frame for frame in frames if not is_library_file(frame.file_name)), None)
    return None if frame is None or is_package_file(frame.file_name) else frame
