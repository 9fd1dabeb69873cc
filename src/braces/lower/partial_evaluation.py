"""Partial evaluation of a traced function for inputs whose values are known.

    known inputs ──► early equations ──► values that the others read
                                                   │
    other inputs ──────────────────────────────────┴──► late equations ──► results

Early equations are those of known inputs alone, as transposes, concatenations and conversions
of weights: they are computed once. Equations whose results are much larger than their inputs,
as `broadcast_in_dim`, are late: XLA fuses them with their readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.lazy import extend

SMALL_BYTES, MAX_GROWTH, MOST_BYTES = 4096, 4, 1 << 24
"""The room of results of early equations: small ones always fit; others are at most so many
times as large as their inputs, and at most so many bytes larger."""
_UNBOUNDED = frozenset(("while",))
"""Primitives that may not end, and are never computed in advance."""
_CALLS = frozenset(("jit", "pjit"))
"""Primitives whose function is inlined if only some of its inputs are known."""


@dataclass(frozen=True)
class SplitFunction:
    """A traced function in two parts.

    Attributes:
        early: A closed jaxpr from the known inputs to the values that `late` reads of them,
            without those that are inputs themselves.
        late: A closed jaxpr from the other inputs, and then these values, to the results.
        passed: For each of these values, its position among the known inputs if it is one.
    """

    early: Any
    late: Any
    passed: tuple[int | None, ...]


def split_function(closed: Any, known: Sequence[bool]) -> SplitFunction:
    """Split a traced function.

    Args:
        closed: The function, a closed jaxpr.
        known: For each input, whether its value is known.
    """
    jaxpr = closed.jaxpr
    inputs = list(zip(jaxpr.invars, known, strict=True))
    known_inputs = [var for var, is_known in inputs if is_known]
    splitter = _Splitter(set(known_inputs), set(jaxpr.constvars))
    names = dict[Any, Any]()
    splitter.add(jaxpr.eqns, names)
    results = [_rename(atom, names) for atom in jaxpr.outvars]
    needed = [atom for eqn in splitter.late for atom in eqn.invars] + results
    read = list(dict.fromkeys(atom for atom in needed if splitter.is_known(atom)))
    others = [var for var, is_known in inputs if not is_known]
    info = jaxpr.debug_info.with_unknown_names()
    places = {var: at for at, var in enumerate(known_inputs)}
    computed = [var for var in read if var not in places]
    early = jaxpr.replace(
        invars=known_inputs,
        outvars=computed,
        eqns=splitter.early,
        effects=set(),
        debug_info=info,
    )
    late = jaxpr.replace(
        invars=[*others, *read], outvars=results, eqns=splitter.late, debug_info=info
    )
    return SplitFunction(
        extend.ClosedJaxpr(early, closed.consts),
        extend.ClosedJaxpr(late, closed.consts),
        tuple(map(places.get, read)),
    )


class _Splitter:
    """Equations in two lists, with inlined calls.

    Args:
        known: The known inputs.
        constants: The constants of the function, which both parts have.
    """

    def __init__(self, known: set[Any], constants: set[Any]) -> None:
        self._known, self._constants = known, constants
        self.early, self.late = list[Any](), list[Any]()

    def is_known(self, atom: Any) -> bool:
        """Return whether an atom is an input, or the result of an early equation."""
        return not isinstance(atom, extend.Literal) and atom in self._known

    def add(self, eqns: Iterable[Any], names: dict[Any, Any], inlined: bool = False) -> None:
        """Add equations.

        Args:
            eqns: The equations.
            names: New variables and literals of variables of these equations.
            inlined: Whether results get new variables, since a function may be inlined twice.
        """
        for old in eqns:
            eqn = old.replace(invars=[_rename(atom, names) for atom in old.invars])
            if self._is_inlined(eqn):
                self._inline(eqn, names)
                continue
            if inlined:
                outs = [extend.Var(var.aval) for var in eqn.outvars]
                names.update(zip(eqn.outvars, outs, strict=True))
                eqn = eqn.replace(outvars=outs)
            if self._is_early(eqn):
                self._known.update(eqn.outvars)
                self.early.append(eqn)
            else:
                self.late.append(eqn)

    def _inline(self, eqn: Any, names: dict[Any, Any]) -> None:
        inner = eqn.params["jaxpr"].jaxpr
        inner_names = dict(zip(inner.invars, eqn.invars, strict=True))
        stack = eqn.source_info.name_stack
        eqns = (
            each.replace(
                source_info=each.source_info.replace(
                    name_stack=stack + each.source_info.name_stack
                )
            )
            for each in inner.eqns
        )
        self.add(eqns, inner_names, inlined=True)
        results = (_rename(atom, inner_names) for atom in inner.outvars)
        names.update(zip(eqn.outvars, results, strict=True))

    def _is_inlined(self, eqn: Any) -> bool:
        if eqn.primitive.name not in _CALLS or eqn.params["jaxpr"].consts:
            return False
        some = any(map(self.is_known, eqn.invars))
        return some and not self._is_early(eqn)

    def _is_early(self, eqn: Any) -> bool:
        if eqn.effects or eqn.primitive.name in _UNBOUNDED:
            return False
        atoms = [atom for atom in eqn.invars if not isinstance(atom, extend.Literal)]
        if not all(atom in self._known or atom in self._constants for atom in atoms):
            return False
        if not any(map(self.is_known, atoms)) or not all(map(_is_array, eqn.outvars)):
            return False
        size = sum(map(_size_bytes, atoms))
        room = max(SMALL_BYTES, size + min((MAX_GROWTH - 1) * size, MOST_BYTES))
        return sum(map(_size_bytes, eqn.outvars)) <= room


def _rename(atom: Any, names: dict[Any, Any]) -> Any:
    return atom if isinstance(atom, extend.Literal) else names.get(atom, atom)


def _is_array(var: Any) -> bool:
    """Return whether a variable is an array of numbers, not of keys."""
    return isinstance(getattr(var.aval, "dtype", None), np.dtype)


def _size_bytes(atom: Any) -> int:
    return atom.aval.size * atom.aval.dtype.itemsize if _is_array(atom) else 0
