"""Patches: programs in which inner values are replaced, in all or some iterations.

    h: f32[b,8] = tanh(x=x)          data h.patch: f32[b,8]     data h.trips: i64[1,1]
                                     h.raw: f32[b,8] = tanh(x=x)
                              ->     on: bool[] = …
                                     h: f32[b,8] = where(condition=on, x=h.patch, y=h.raw)

The value and the iterations are data, so a sweep over either compiles once. Later operators
read the name of before. A function replaces the fed value by operators at this place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

from braces.builder.append import call, emit
from braces.builder.builder import Builder
from braces.builder.user_functions import calling, check_takes, function_text
from braces.builder.var import Var
from braces.dtypes import INT64, TensorType
from braces.errors import DTypeError, ProgramError, ShapeError
from braces.ir.records import DATA, IDENTITY, Op, ProgramDef, VarInfo
from braces.ir.views import LoopView, View, view_of
from braces.ir.walk import rename_op
from braces.passes.core.initial_values import transform
from braces.passes.core.rewrite import InsertionPoint, Replacement, rewrite
from braces.passes.probing.entry import Entry
from braces.passes.probing.patch_value import ALL
from braces.passes.probing.patched_place import FedLayout, PatchedPlace
from braces.passes.verifier.program import verify

P = TypeVar("P", bound=Builder)
_LONGEST_STEM = 100


@dataclass(frozen=True)
class Replacing:
    """The replacement of one inner value.

    Attributes:
        place: The value.
        layout: The layout of the fed array; `None` for a function.
        function: The function of the value; `None` for an array.
        count: The number of iterations that are fed; `None` for all iterations.
    """

    place: PatchedPlace
    layout: FedLayout | None = None
    function: Callable[[Any], Any] | None = None
    count: int | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """The facts on which the patched program depends."""
        type_ = None if self.layout is None else self.layout.type
        function = self.function
        known = function if isinstance(function, Hashable) else id(function)
        return self.place.path, type_, known, self.count


@dataclass(frozen=True)
class FedNames:
    """The data of one patch; an empty name if there are none.

    Attributes:
        value: The name of the value.
        trips: The name of the iterations.
    """

    value: str = ""
    trips: str = ""


def build_patched(program: P, patches: Sequence[Replacing]) -> tuple[P, list[FedNames]]:
    """Return a verified program in which values are replaced, and the data of each patch.

    Raises:
        BracesError: If a function fails, or returns a value of another type.
    """
    fed = list[FedNames]()

    def change(definition: ProgramDef) -> ProgramDef:
        for patch in patches:
            place = PatchedPlace.of(definition, patch.place.path)
            substitution = Substitution(patch, place)
            definition = rewrite(definition, substitution)
            fed.append(FedNames(substitution.value, substitution.trips))
        return definition

    patched = transform(program, change)
    verify(patched)
    return patched, fed


class Substitution:
    """Rule that replaces one inner value; see `braces.passes.core.rewrite`.

    Args:
        patch: The replacement.
        place: The value in the program that is rewritten.

    Attributes:
        value: The name of the fed value in the main block; empty for a function.
        trips: The name of the fed iterations; empty for all.
    """

    def __init__(self, patch: Replacing, place: PatchedPlace) -> None:
        self.patch = patch
        self.place = place
        self.entry = Entry(() if patch.layout is None else patch.layout.steps)
        self.value = self.trips = ""

    def __call__(self, op: Op, point: InsertionPoint) -> Replacement:
        """Replace the value after its operator, and let it enter the constructs around."""
        if point.path == self.place.block.path and op.name == self.place.anchor:
            return self._replace(op, point)
        return self.entry.extended(op, (point.path, op.name))

    def _replace(self, op: Op, point: InsertionPoint) -> Replacement:
        points, name = _points(point), self.place.name
        inside = self._enter(points)
        on = self._selection(points)
        raw = name if self.place.op is None else self._keep_raw(op, point)
        with point.building():
            value = point.var(inside) if inside else self._function_value(point.var(raw))
            if on:
                value = emit("where", point.var(on), value, point.var(raw))
            elif value.type != self.place.type:
                value = emit("broadcast_to", value, shape=self.place.type.shape)
            elif inside or not _is_built(value, point):
                value = call(IDENTITY, value)
        if self.place.op is None:
            names = {name: value.name}
            point.stand_for(names)
            return rename_op(op, names)
        point.keep_names({value.name: name})
        return {}

    def _keep_raw(self, op: Op, point: InsertionPoint) -> str:
        """Insert the operator under another name; return the name of the old value."""
        name = self.place.name
        raw = point.table.names.unique(f"{name}.raw")
        renamed = rename_op(op, {name: raw})
        named = renamed.with_(name=raw) if op.name == name else renamed
        point.keep(named, [VarInfo(raw, self.place.type)])
        return raw

    # ---- the value ---------------------------------------------------------------------------

    def _enter(self, points: Sequence[InsertionPoint]) -> str:
        """Declare the fed value; return its variable in the innermost block."""
        if self.patch.layout is None:
            return ""
        self.value = self._data(points[0], "patch", self.patch.layout.type)
        return self.entry.enter(self.value, points)

    def _data(self, main: InsertionPoint, suffix: str, type_: TensorType) -> str:
        stem = re.sub(r"[^\w./-]+", "_", self.place.path)[-_LONGEST_STEM:].lstrip("./-")
        name = main.table.names.unique_word(f"{stem}.{suffix}")
        return main.table.new_var(name, type_, DATA).name

    def _function_value(self, raw: Var) -> Var:
        assert self.patch.function is not None
        check_takes(self.patch.function, 1, "the patch", self._at)
        with calling(self.patch.function, f"the patch of {self.place.at}"):
            value = self.patch.function(raw)
        if not isinstance(value, Var):
            raise ProgramError(
                f"expected a variable from the patch of `{self.place.path}`, got "
                f"{value!r:.60}.",
                at=self._at,
                fix="Return a variable: lambda v: v * 2. Pass numbers and arrays as values.",
            )
        self._check_type(value)
        return value

    def _check_type(self, value: Var) -> None:
        resolve = value.program.table.unifier.resolve
        got = value.type.map_sizes(resolve)
        if got == self.place.type:
            return
        same = isinstance(got, TensorType) and got.dtype == self.place.type.dtype
        raise (ShapeError if same else DTypeError)(
            f"the patch of `{self.place.path}`: expected {self.place.type}, got {got}.",
            at=self._at,
            given=f"{self.place.name}: {self.place.type}   {value.name}: {got}",
            fix="Return a value of the same dtype and shape; br.cast converts a dtype.",
        )

    @property
    def _at(self) -> str:
        return f"{self.place.at}, in {function_text(self.patch.function)}"

    # ---- the iterations ----------------------------------------------------------------------

    def _selection(self, points: Sequence[InsertionPoint]) -> str:
        """Return the variable that is true where the value is replaced; empty for always."""
        bodies = [point for point in points if isinstance(_view(point), LoopView)]
        parts = list[Var]()
        for body, index, size in self.entry.limits:
            with body.building():
                limit = emit("size", value=size, dtype=INT64)
                parts.append(emit("less", body.var(index), limit))
        if self.patch.count is not None:
            parts.append(self._listed(points[0], bodies))
        if not parts:
            return ""
        with points[-1].building():
            return reduce(lambda a, b: emit("logical_and", a, b), parts).name

    def _listed(self, main: InsertionPoint, bodies: Sequence[InsertionPoint]) -> Var:
        """Return whether the indices of the loops are one of the fed iterations."""
        assert self.patch.count is not None
        type_ = TensorType(INT64, (self.patch.count, len(bodies)))
        self.trips, inner = self._data(main, "trips", type_), bodies[-1]
        with inner.building():
            wanted, parts = inner.var(self.trips), list[Var]()
            for axis, body in enumerate(bodies):
                view, column = _view(body), emit("take", wanted, axis, axis=1)
                assert isinstance(view, LoopView)
                fits = emit("equal", column, inner.var(view.index))
                parts.append(emit("logical_or", fits, emit("equal", column, ALL)))
            return emit("any", reduce(lambda a, b: emit("logical_and", a, b), parts))


def _points(point: InsertionPoint) -> list[InsertionPoint]:
    """Return the blocks around a point, from the main block to its own."""
    points = [point]
    while points[0].outer is not None:
        points.insert(0, points[0].outer)
    return points


def _is_built(value: Var, point: InsertionPoint) -> bool:
    """Return whether a value was built at this point, also if it is not inserted yet."""
    pending = (name for op in point.table.ops for name in op.binds())
    return point.is_built(value.name) or value.name in pending


def _view(point: InsertionPoint) -> View | None:
    """Return the construct of a block."""
    return None if point.owner is None else view_of(point.owner)
