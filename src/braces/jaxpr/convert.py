"""Convert the equations of a jaxpr to operators of the current block.

    a:f32[3] = mul 0.5:f32[] x          constant_0 = constant(value=0.5)
                                        multiply_0 = multiply(x=constant_0, y=x)
    b:f32[3] = jit[jaxpr=…] a           the equations of the called jaxpr, inlined
    c:f32[]  = mul 0.5:f32[] y          multiply_1 = multiply(x=constant_0, y=y)

Dead equations are skipped. Named scopes become plain blocks in a separate program. Equal
literals become one constant, and equal equations become one operator (CSE): work that an
optimizer's parameters share is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np

from braces.builder.append import emit
from braces.builder.var import Var
from braces.define.jax_types import JaxTypeConverter
from braces.errors import BracesError
from braces.ir.records import Literal, Source
from braces.jaxpr.core.equation import (
    Equation,
    ProgramImport,
    UnsupportedEquation,
    Value,
    abstract_words,
    constant_array,
    eliminate_dead_equations,
    literal_array,
    run_equations,
    run_live_equations,
    source_of,
    user_line,
    values_of,
)
from braces.jaxpr.core.implemented_primitives import implementation
from braces.jaxpr.core.literal_folding import fold_literals
from braces.jaxpr.core.named_scopes import Path, build_scopes, common_depth, scope_path
from braces.jaxpr.registry import REFUSAL_REASONS, RULES
from braces.lazy import extend
from braces.passes.autodiff.common import DifferentiablePaths


class Importer:
    """Converts jaxprs to operators.

    Attributes:
        what: The name of the traced function, for messages.
        translation: The mapping between symbolic sizes of JAX and ours.
        whole: The import options if the function becomes a separate program.
        standing: The calls whose custom gradients are being built, with their results.
        paths: The variables that depend on differentiable ones.
        traced: The jaxprs of functions that replace equations, by function and types.
    """

    def __init__(
        self, what: str, translation: JaxTypeConverter, whole: ProgramImport | None = None
    ) -> None:
        self.what = what
        self.translation = translation
        self.whole = whole
        self.standing = dict[Hashable, list[Value]]()
        self.paths = DifferentiablePaths()
        self.traced = dict[Hashable, Any]()
        self._constants = dict[Literal, Var]()
        self._made = dict[Any, list[Value]]()
        self._outermost: Any = None
        self._read = list[tuple[Any, dict[Any, Value]]]()

    @property
    def line(self) -> str | None:
        """The user's line for the operator that is being appended."""
        return None if self._outermost is None else user_line(self._outermost)

    def inner(self) -> Importer:
        """Return an importer for a nested block; it inherits the values that are available."""
        nested = Importer(self.what, self.translation, self.whole)
        nested._constants, nested._made = dict(self._constants), dict(self._made)
        nested._outermost, nested.standing = self._outermost, dict(self.standing)
        nested._read = list(self._read)
        nested.paths, nested.traced = self.paths, self.traced
        return nested

    def find(self, variable: Any) -> Value | None:
        """Compute a variable of the jaxprs that are being read, innermost first.

        A custom derivative may close over any of them, computed or not.

        Returns:
            The value, or `None` if no jaxpr has the variable.
        """
        for jaxpr, environment in reversed(self._read):
            value = self._find_in(jaxpr, environment, variable)
            if value is not None:
                return value
        return None

    def _find_in(
        self, jaxpr: Any, environment: Mapping[Any, Value], variable: Any
    ) -> Value | None:
        if isinstance(variable, extend.Literal):
            return literal_array(variable)
        if variable in environment:
            return environment[variable]
        eqn = next((eqn for eqn in jaxpr.eqns if variable in eqn.outvars), None)
        if eqn is None:
            return None
        values = [self._find_in(jaxpr, environment, atom) for atom in eqn.invars]
        assert all(value is not None for value in values), "free variable in a jaxpr"
        results = self.append(eqn, cast("list[Value]", values))
        return results[list(eqn.outvars).index(variable)]

    def run(self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[Value]) -> list[Value]:
        """Append the operators of a jaxpr.

        Args:
            jaxpr: The jaxpr.
            consts: The captured arrays.
            inputs: Its arguments.

        Raises:
            ProgramError: If an equation is not supported.
        """
        environment: dict[Any, Value] = dict(zip(jaxpr.invars, inputs, strict=True))
        environment.update(zip(jaxpr.constvars, map(self._captured_value, consts), strict=True))

        self._read.append((jaxpr, environment))
        if self.whole is not None and not self.standing:
            _, equations = eliminate_dead_equations(jaxpr)
            depth = common_depth(equations, scope_path)
            build_scopes(equations, depth, _ScopeReader(self, environment))
            results = values_of(jaxpr.outvars, environment, np.asarray)
        else:
            results = run_equations(jaxpr, environment, np.asarray, self.append)
        self._read.pop()
        return results

    def _captured_value(self, array: Any) -> Value:
        """Return a captured array, or the variable that holds it."""
        if isinstance(array, Var):
            return array
        variable = self._array_var(array)
        return constant_array(array) if variable is None else variable

    def _array_var(self, array: Any) -> Var | None:
        """Return the variable that holds an array, or `None` for a constant."""
        variable = self.whole.keep(array) if self.whole is not None else None
        if variable is not None and self.whole is not None:
            self.whole.brought.add(variable.name)
        return variable

    def lift(self, value: Value) -> Var:
        """Return a value as a variable; equal numbers share a constant."""
        if isinstance(value, Var):
            return value
        variable = self._array_var(value)
        if variable is not None:
            return variable
        literal = Literal.of(value)
        if literal not in self._constants:
            self._constants[literal] = emit("constant", value=literal)
        return self._constants[literal]

    def append(self, eqn: Any, values: list[Value]) -> list[Value]:
        """Append the operators of an equation, and return its results."""
        folded = fold_literals(eqn, values)
        if folded is not None:
            return folded
        key = self._key(eqn, values)
        if key is not None and key in self._made:
            return self._made[key]
        outer = self._outermost
        self._outermost = outer or eqn
        results = self._appended(Equation(self, eqn), values)
        self._outermost = outer
        if key is not None:
            self._made[key] = results
        return results

    def _appended(self, equation: Equation, values: list[Value]) -> list[Value]:
        """Append an equation; after a problem, return placeholders of its types."""
        if self.whole is None:
            return self._append(equation, values)
        try:
            source = source_of(equation.eqn) or source_of(self._outermost)
            with self.whole.program.at(source):
                return self._append(equation, values)
        except BracesError as error:
            line = user_line(equation.eqn) or self.line or "unknown line"
            problem = UnsupportedEquation(equation.name, line, error)
            self.whole.problems.append(problem)
            return [
                emit("full", shape=type_.shape, value=0.0, dtype=type_.dtype)
                for type_ in equation.types
            ]

    def _append(self, equation: Equation, values: list[Value]) -> list[Value]:
        rule = RULES.get(equation.name)
        if rule is None and equation.name in REFUSAL_REASONS:
            equation.refuse(REFUSAL_REASONS[equation.name])
        output = (rule or implementation)(equation, *values)
        results: list[Value] = (
            [output] if isinstance(output, Var | np.ndarray) else list(output)
        )
        _check(equation, results)
        return results

    def _key(self, eqn: Any, values: list[Value]) -> Any:
        """Return the CSE key of an equation; `None` if it has none.

        Variables are represented by their names, because `==` on variables builds an operator.
        """
        params = tuple(eqn.params.items())
        names = [v.name if isinstance(v, Var) else Literal.of(v) for v in values]
        try:
            hash(params)
        except TypeError:
            return None
        return eqn.primitive.name, params, *names


@dataclass(frozen=True)
class _ScopeReader:
    """Appends the equations of a jaxpr for `build_scopes`.

    Attributes:
        importer: The importer of the block.
        environment: The values of variables; gains those of the equations.
    """

    importer: Importer
    environment: dict[Any, Value]

    def path_of(self, eqn: Any) -> Path:
        return scope_path(eqn)

    def source_of(self, eqn: Any) -> Source | None:
        return source_of(eqn)

    def inner(self) -> Self:
        return type(self)(self.importer.inner(), self.environment)

    def append_equations(self, equations: Sequence[Any], depth: int) -> None:
        run_live_equations(equations, self.environment, np.asarray, self.importer.append)


def _check(equation: Equation, results: Sequence[Value]) -> None:
    """Check the results of a rule against JAX's abstract values."""
    for value, outvar in zip(results, equation.eqn.outvars, strict=True):
        aval = abstract_words(outvar.aval)
        same = value.dtype == aval.dtype and value.ndim == len(aval.shape)
        assert same, f"{equation.name}: expected {outvar.aval}, got {value!r}"
