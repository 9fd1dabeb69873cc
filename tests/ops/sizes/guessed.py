"""Examples of operators in which one size is data-dependent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import braces as br
from braces import Var
from braces.errors import BracesError
from braces.extend.building import apply
from braces.extend.types import FLOAT64, Dim, Size
from braces.lazy import jax
from tests.ops.cases import Case, cases, number

TOLD = Dim.named("told")
"""The size of which only a run tells the number."""


@dataclass(frozen=True)
class Told:
    """An example of an operator with one size taken for `TOLD`.

    Attributes:
        case: The example.
        number: The size that it was.
    """

    case: Case
    number: int

    def __str__(self) -> str:
        return str(self.case)

    def sizes(self, told: int) -> dict[str, int]:
        """All symbolic sizes."""
        return {**self.case.sizes(), str(TOLD): told}

    def values(self, told: int) -> dict[str, tuple[np.ndarray, ...]]:
        """Suitable inputs."""
        return dict(self.case.values(self.sizes(told)))

    def accepts(self, told: int) -> bool:
        """Return whether the kernel takes inputs of this size."""
        case, sizes = self.case, self.sizes(told)
        attrs = {name: number(value, sizes) for name, value in case.attrs.items()}
        structs = {
            slot: tuple(jax.ShapeDtypeStruct(number(t.shape, sizes), t.dtype) for t in types)
            for slot, types in case.types.items()
        }
        wanted = [slot.name for slot in case.definition.outputs]
        try:
            with jax.enable_x64(True):
                jax.eval_shape(lambda v: case.definition.compute(v, attrs, wanted), structs)
        except Exception:
            return False
        return True

    def apply(self, inputs: Mapping[str, Sequence[Var]], told: Size) -> list[Var]:
        """The outputs, one after another."""
        given = {slot: tuple(found) for slot, found in inputs.items()}
        attrs = {n: number(value, self.case.sizes()) for n, value in self.case.attrs.items()}
        made = apply(self.case.op, given, _replaced(attrs, told))
        return [out for outs in made.values() for out in outs]

    def declared(self, prefix: str, told: Size) -> dict[str, list[Var]]:
        """Data for its inputs."""
        sizes = {**self.case.sizes(), str(TOLD): told}
        return {
            slot: [
                br.data(f"{prefix}{slot}.{i}", number(t.shape, sizes), t.dtype)
                for i, t in enumerate(types)
            ]
            for slot, types in self.case.types.items()
        }

    def axes(self, slot: str, position: int) -> list[int]:
        """The axes of an input that have this size."""
        shape = self.case.types[slot][position].shape
        return [axis for axis, size in enumerate(shape) if size == TOLD]

    def take(self, given: Mapping[str, list[Any]], places: Any) -> dict[str, list[Any]]:
        """The entries of inputs at these places, along all axes that have this size."""
        cut = {slot: list(found) for slot, found in given.items()}
        for slot, found in cut.items():
            for i in range(len(found)):
                for axis in self.axes(slot, i):
                    found[i] = br.take(found[i], places, axis=axis)
        return cut


def _replaced(value: Any, told: Size) -> Any:
    if isinstance(value, Mapping):
        return {name: _replaced(one, told) for name, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_replaced(one, told) for one in value)
    return told if value == TOLD else value


# ---- the examples ----------------------------------------------------------------------------


@cache
def told_cases(op: str) -> list[Told]:
    """The examples of an operator with each size taken for `TOLD`, that can be built."""
    found = dict[str, Told]()
    for case in cases(FLOAT64):
        for one in _variants(case) if case.op == op else ():
            found.setdefault(one.case.example, one)
    return list(found.values())


def _variants(case: Case) -> Iterator[Told]:
    """The example with each of its sizes replaced: everywhere, else on the first axis."""
    known = case.sizes()
    sizes = {size for types in case.types.values() for t in types for size in t.shape}
    for size in sorted(sizes, key=str):
        found = known.get(str(size), 0) if isinstance(size, Dim) else size
        tries = (_with_told(case, size, most) for most in (None, 1) if found > 1)
        one = next((one for one in tries if _can_be_built(Told(one, found))), None)
        if one is not None:
            yield Told(one, found)


def _with_told(case: Case, size: Size, most: int | None) -> Case:
    """The example with a size replaced, on so many axes at most."""
    parts, left = list[str](), 99 if most is None else most
    for name, text in case.parts:
        dtype, _, axes = text.removesuffix("]").partition("[")
        shape = axes.split(",") if axes and name in case.types else []
        for i, one in enumerate(shape):
            if one == str(size) and left:
                shape[i], left = str(TOLD), left - 1
        changed = f"{dtype}[{','.join(shape)}]" if name in case.types else text
        parts.append(f"{name}={changed}")
    return replace(case, example=" ".join(parts))


def _can_be_built(one: Told) -> bool:
    try:
        with br.Program():
            one.apply(one.declared("", TOLD), TOLD)
    except (BracesError, AssertionError):
        return False
    return True
