"""From the equations of a jaxpr to operators of the current block.

    a:f32[3] = mul 0.5:f32[] x          constant_0 = constant(value=0.5)
                                        multiply_0 = multiply(x=constant_0, y=x)
    b:f32[3] = jit[jaxpr=…] a           the equations of what is called, in its place
    c:f32[]  = mul 0.5:f32[] y          multiply_1 = multiply(x=constant_0, y=y)

What nothing needs is left out. A number that is written several times becomes one constant, and
an equation that stands there twice becomes one operator: what the parameters of an optimizer
share is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from braces.builder.append import one
from braces.builder.var import Var
from braces.define.jax_types import Translation
from braces.errors import BracesError
from braces.ir.records import Literal
from braces.jaxpr.core.equation import (
    Equation,
    Problem,
    Runner,
    Value,
    Whole,
    in_words,
    needed,
    source_of,
    written_at,
)
from braces.jaxpr.core.implemented_primitives import implementation
from braces.jaxpr.registry import RULES, WHY
from braces.lazy import extend


class Importer:
    """Turns jaxprs into operators.

    Attributes:
        what: What messages call the function that was traced.
        translation: Between JAX's symbolic sizes and ours.
        whole: Where a function becomes a program of its own, how.
        standing: Calls in whose own gradients this stands, and what they give.
    """

    def __init__(self, what: str, translation: Translation, whole: Whole | None = None) -> None:
        self.what = what
        self.translation = translation
        self.whole = whole
        self.standing = dict[Hashable, list[Value]]()
        self._constants = dict[Literal, Var]()
        self._made = dict[Any, list[Value]]()
        self._outermost: Any = None
        self._read = list[tuple[Any, dict[Any, Value]]]()

    @property
    def line(self) -> str | None:
        """The line outside of JAX that made what is being appended."""
        return None if self._outermost is None else written_at(self._outermost)

    def inner(self) -> Runner:
        """One for a block inside the current one, which sees what is there already."""
        made = Importer(self.what, self.translation, self.whole)
        made._constants, made._made = dict(self._constants), dict(self._made)
        made._outermost, made.standing = self._outermost, dict(self.standing)
        made._read = list(self._read)
        return made

    def find(self, variable: Any) -> Value | None:
        """Compute a variable of the jaxprs that are being read, innermost first.

        A derivative that a function brings along may close over any of them, computed or not.

        Returns:
            The value, or `None` where no jaxpr has the variable.
        """
        for jaxpr, known in reversed(self._read):
            found = self._find_in(jaxpr, known, variable)
            if found is not None:
                return found
        return None

    def _find_in(self, jaxpr: Any, known: Mapping[Any, Value], variable: Any) -> Value | None:
        if isinstance(variable, extend.Literal):
            return written(variable)
        if variable in known:
            return known[variable]
        eqn = next((eqn for eqn in jaxpr.eqns if variable in eqn.outvars), None)
        if eqn is None:
            return None
        values = [self._find_in(jaxpr, known, atom) for atom in eqn.invars]
        assert all(value is not None for value in values), "a jaxpr is closed"
        made = self._equation(eqn, cast("list[Value]", values))
        return made[list(eqn.outvars).index(variable)]

    def run(self, jaxpr: Any, consts: Sequence[Any], given: Sequence[Value]) -> list[Value]:
        """Append the operators of a jaxpr.

        Args:
            jaxpr: The jaxpr.
            consts: The arrays that it brings along.
            given: Its arguments.

        Raises:
            ProgramError: An equation has no operator.
        """
        known: dict[Any, Value] = dict(zip(jaxpr.invars, given, strict=True))
        known.update(zip(jaxpr.constvars, map(self._brought, consts), strict=True))

        def read(atom: Any) -> Value:
            return written(atom) if isinstance(atom, extend.Literal) else known[atom]

        _, equations = needed(jaxpr)
        self._read.append((jaxpr, known))
        for eqn in equations:
            made = self._equation(eqn, [read(atom) for atom in eqn.invars])
            known.update(zip(eqn.outvars, made, strict=True))
        self._read.pop()
        return [read(atom) for atom in jaxpr.outvars]

    def _brought(self, array: Any) -> Value:
        """An array that a jaxpr brings along: itself, or the variable that holds it."""
        if isinstance(array, Var):
            return array
        kept = self._kept(array)
        return np.asarray(array) if kept is None else kept

    def _kept(self, array: Any) -> Var | None:
        """The variable that holds an array, where it is no constant."""
        kept = self.whole.keep(array) if self.whole is not None else None
        if kept is not None and self.whole is not None:
            self.whole.brought.add(kept.name)
        return kept

    def lift(self, value: Value) -> Var:
        """A value as a variable; a number becomes a constant, once."""
        if isinstance(value, Var):
            return value
        kept = self._kept(value)
        if kept is not None:
            return kept
        literal = Literal.of(value)
        if literal not in self._constants:
            self._constants[literal] = one("constant", value=literal)
        return self._constants[literal]

    def _equation(self, eqn: Any, values: list[Value]) -> list[Value]:
        key = self._key(eqn, values)
        if key is not None and key in self._made:
            return self._made[key]
        before = self._outermost
        self._outermost = before or eqn
        made = self._appended(Equation(self, eqn), values)
        self._outermost = before
        if key is not None:
            self._made[key] = made
        return made

    def _appended(self, equation: Equation, values: list[Value]) -> list[Value]:
        """What an equation gives; where that is noted as a problem, anything of its types."""
        if self.whole is None:
            return self._append(equation, values)
        try:
            source = source_of(equation.eqn) or source_of(self._outermost)
            with self.whole.program.at(source):
                return self._append(equation, values)
        except BracesError as error:
            line = written_at(equation.eqn) or self.line or "a line of JAX"
            problem = Problem(equation.name, line, error)
            self.whole.problems.append(problem)
            return [
                one("full", shape=type_.shape, value=0.0, dtype=type_.dtype)
                for type_ in equation.types
            ]

    def _append(self, equation: Equation, values: list[Value]) -> list[Value]:
        rule = RULES.get(equation.name)
        if rule is None and equation.name in WHY:
            equation.refuse(WHY[equation.name])
        made = (rule or implementation)(equation, *values)
        found: list[Value] = [made] if isinstance(made, Var | np.ndarray) else list(made)
        _check(equation, found)
        return found

    def _key(self, eqn: Any, values: list[Value]) -> Any:
        """What two equations share that give the same; `None` where that is not known.

        A variable stands there by its name, for `==` on variables builds.
        """
        params = tuple(eqn.params.items())
        names = [v.name if isinstance(v, Var) else Literal.of(v) for v in values]
        try:
            hash(params)
        except TypeError:
            return None
        return eqn.primitive.name, params, *names


def written(literal: Any) -> np.ndarray[Any, Any]:
    """A number that a jaxpr has written out, in the jaxpr's dtype."""
    return np.asarray(literal.val, literal.aval.dtype)


def _check(equation: Equation, made: Sequence[Value]) -> None:
    """Hold what a rule made against what JAX says of it."""
    for value, want in zip(made, equation.eqn.outvars, strict=True):
        aval = in_words(want.aval)
        same = value.dtype == aval.dtype and value.ndim == len(aval.shape)
        assert same, f"{equation.name} gave {value!r} for {want.aval}"
