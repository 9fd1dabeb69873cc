"""One operator for all trips of a loop: what each trip computes, along a first axis of trips.

    y: f32[4] = matmul(x=r, y=w)        in each of n trips, where r: f32[3] is a row of rows
    ys: f32[n,4] = matmul(x=rows, y=w)  once

Whether that is the same follows from the axes that the operator declares: the new axis must
come out as the first one of every output, entry by entry, and all other axes must map as they
did. Attributes that are axes or shapes are told of the new one, and an input that has fewer
axes than another gets some of size 1 behind it, where that makes them fit.

What adds up products gives the sum over all trips in one go, too:

    total = sum over trips of matmul(x=a, y=b)
    total: f32[3,4] = einsum(xs=[as, bs]) {equation="abc,acd->bd"}

And whatever adds up products is, led by one axis more, an `einsum`, where it takes no such axis
itself:

    y: f32[4] = matmul(x=w, y=r)        in each of n trips
    ys: f32[n,4] = einsum(xs=[w, rows]) {equation="bc,ac->ab"}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

from braces.builder.append import apply, one
from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, Indices, shape_of
from braces.define.decorator import OPS
from braces.define.definition import AXES
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import ListType, TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Attr, Op
from braces.ops.control.batch_axis.analysis import TypeOf, axes_of
from braces.ops.linalg.matmul import LETTERS
from braces.passes.core.random_effects import is_random

Values: TypeAlias = "Callable[[str], Var]"
Occurrence: TypeAlias = "tuple[bool, str, int, int]"
"""An axis: whether of an output, its slot, which variable, and which axis from the end."""
Structure: TypeAlias = "frozenset[tuple[frozenset[Occurrence], str]]"


@dataclass(frozen=True)
class Stretched:
    """How an operator is written for all trips.

    Attributes:
        op: The operator as each trip runs it.
        varying: What of its inputs is another on each trip.
        attrs: Its attributes for all trips.
        ranks: How many axes an input must have that has too few, by its name.
        axes: How its axes map then.
        trips: What it calls the axis of trips.
    """

    op: Op
    varying: Collection[str]
    attrs: Mapping[str, Attr]
    ranks: Mapping[str, int]
    axes: AxisMap
    trips: str

    def build(self, values: Values) -> dict[str, Var]:
        """Append it; what stands for the outputs of the operator, by their names.

        Args:
            values: What stands for an input, with a first axis of trips where it varies.
        """
        inputs = {slot: self._given(names, values) for slot, names in self.op.inputs.items()}
        made = apply(self.op.type, inputs, self.attrs, wanted=tuple(self.op.outputs))
        slots = self.op.outputs.items()
        return {n: x for slot, names in slots for n, x in zip(names, made[slot], strict=True)}

    @property
    def totals(self) -> frozenset[str]:
        """What `build` gives added up over all trips: nothing."""
        return frozenset()

    def adds_up(self, name: str) -> bool:
        """Whether `total` can build it: its only output is a sum of products of axes."""
        (slot, *others), indices = self.op.outputs, self._every_index()
        whole = None not in (*indices, *self.axes.of_output(slot)) and len(indices) <= len(
            LETTERS
        )
        alone = self.op.outputs[slot] == (name,) and not others
        return OPS.get(self.op.type).product and whole and alone

    def total(self, values: Values, turned: Callable[[str], Stretched | None]) -> Var:
        """Append the sum over all trips of what the operator gives.

        Args:
            values: What stands for an input, with a first axis of trips where it varies.
            turned: The operator that put the axes of an input in another order, if one did.
        """
        letters = dict(zip(self._every_index(), LETTERS, strict=False))

        def spelled(indices: Indices) -> str:
            return "".join(letters[index] for index in indices if index)

        given, terms = list[Var](), list[str]()
        for slot, names in self.op.inputs.items():
            for i, name in enumerate(names):
                value, indices = self._operand(
                    name, self.axes.of(slot, i), values, turned(name)
                )
                given.append(value)
                terms.append(spelled(indices))
        (slot,) = self.op.outputs
        out = spelled(tuple(i for i in self.axes.of_output(slot) if i != self.trips))
        if len(given) == 1:
            axis = tuple(i for i, letter in enumerate(terms[0]) if letter not in out)
            return one("sum", given[0], axis=axis)
        return one("einsum", *given, equation=f"{','.join(terms)}->{out}")

    def _operand(
        self, name: str, indices: Indices, values: Values, turned: Stretched | None
    ) -> tuple[Var, Indices]:
        """An input and its axes, as it was before they were put in another order."""
        if turned is None or name in self.ranks:
            return _with_rank(values(name), self.ranks.get(name)), indices
        (slot,), (out,), (source,) = turned.op.inputs, turned.op.outputs, turned.op.reads()
        was = dict(zip(turned.axes.of_output(out), indices, strict=True))
        return values(source), tuple(was[index] for index in turned.axes.of(slot))

    def _every_index(self) -> dict[str | None, None]:
        found = chain.from_iterable(
            self.axes.of(slot, i)
            for slot, names in self.op.inputs.items()
            for i in range(len(names))
        )
        return dict.fromkeys(found)

    def _given(self, names: Sequence[str], values: Values) -> list[Var]:
        return [_with_rank(values(name), self.ranks.get(name)) for name in names]


def stretched(
    op: Op, type_of: TypeOf, varying: Collection[str], trips: Size, into: bool = False
) -> Stretched | None:
    """How an operator is written for all trips; `None` where nothing tells.

    Args:
        op: The operator as each trip runs it.
        type_of: The type there of what it reads and binds.
        varying: What is another on each trip.
        trips: How many there are.
        into: Whether its outputs are to be of all trips together, added up.
    """
    if OPS.get(op.type).axes_rule is None or op.bodies():
        return None
    if any(isinstance(type_of(name), ListType) for name in (*op.reads(), *op.binds())):
        return None
    return _Stretching(op, type_of, varying, trips, into).found()


@dataclass(frozen=True)
class _Stretching:
    """The question that `stretched` answers, of an operator that says how axes map."""

    op: Op
    type_of: TypeOf
    varying: Collection[str]
    trips: Size
    into: bool

    def found(self) -> Stretched | None:
        """The first that fits of what may be tried."""
        before = self._axes(self.type_of, self.op.attrs)
        if before is None:
            return None
        wanted = structure(self.op, before)
        for attrs in self._attributes():
            for ranks in self._alignments():
                axes = self._axes(partial(self._longer, ranks), attrs)
                trips = None if axes is None else self._axis_of_trips(axes)
                if axes is None or trips is None:
                    continue
                if structure(self.op, axes, without=trips) == wanted and self._gives(
                    ranks, attrs
                ):
                    return Stretched(self.op, self.varying, attrs, ranks, axes, trips)
        return None if self.into else self._product(before)

    def _product(self, axes: AxisMap) -> Stretched | None:
        """A sum of products as one that can be led by any axis."""
        op, found = self.op, [(slot, i, name) for _, slot, i, name in _variables(self.op)]
        *read, (slot, _, _) = found
        every = {index for slot, i, _ in read for index in axes.of(slot, i)}
        if (
            not OPS.get(op.type).product
            or len([*op.binds()]) != 1
            or len(every) >= len(LETTERS)
        ):
            return None
        ends = axes.of_output(slot)
        if None in every or not every.issuperset(ends):
            return None
        first, *others = LETTERS
        letters = dict(zip(sorted(map(str, every)), others, strict=False))

        def spelled(indices: Indices, led: bool) -> str:
            return "".join([first * led, *(letters[str(index)] for index in indices)])

        terms = (spelled(axes.of(slot, i), name in self.varying) for slot, i, name in read)
        attrs: dict[str, Attr] = {"equation": f"{','.join(terms)}->{spelled(ends, True)}"}
        led = op.with_(
            type="einsum",
            inputs={"xs": tuple(op.reads())},
            outputs={"out": tuple(op.binds())},
            attrs=attrs,
        )
        asked = _Stretching(led, self.type_of, self.varying, self.trips, False)
        mapped = asked._axes(partial(asked._longer, {}), attrs)
        if mapped is None or not asked._gives({}, attrs):
            return None
        return Stretched(led, self.varying, attrs, {}, mapped, first)

    def _gives(self, ranks: Mapping[str, int], attrs: Mapping[str, Attr]) -> bool:
        """Whether the outputs are of the types that are wanted of them.

        A derivative gets cotangents of the types of what it is a derivative of.
        """
        types = {
            name: self._longer(ranks, name) for name in (*self.op.reads(), *self.op.binds())
        }
        asked = (op.with_(attrs=attrs) for op in (self.op, _forward_of(self.op)) if op)
        try:
            found = [infer_op(op, types, Unifier()) for op in asked]
        except BracesError:
            return False
        return all(types[name] == type_ for one in found for name, type_ in one.items())

    def _axes(self, type_of: TypeOf, attrs: Mapping[str, Attr]) -> AxisMap | None:
        """How axes map; `None` where the operator refuses such types."""
        try:
            return axes_of(self.op.with_(attrs=attrs), type_of)
        except BracesError:
            return None

    def _axis_of_trips(self, axes: AxisMap) -> str | None:
        """What the axis of trips is called, where it becomes what it is to become.

        All that varies has it as its first axis, and nothing else has it.
        """
        found, others = set[str | None](), set[str | None]()
        for out, slot, i, name in _variables(self.op):
            indices = axes.of_output(slot, i) if out else axes.of(slot, i)
            first = not self.into if out else name in self.varying
            found.update(indices[:1] or (None,) if first else ())
            others.update(indices[first:])
        index = found.pop() if len(found) == 1 else None
        if index is None or index in others or index in axes.mixed:
            return None
        if is_random(self.op) and not self._tells_trips(axes, index):
            return None
        return index if (index in axes.fills) is self.into else None

    def _tells_trips(self, axes: AxisMap, index: str) -> bool:
        """Whether what draws is told which trip each entry is of: each has draws of its own."""
        slots = OPS.get(self.op.type).index_slots & axes.inputs.keys()
        return any(index in indices for slot in slots for indices in axes.inputs[slot])

    def _longer(self, ranks: Mapping[str, int], name: str) -> Type:
        """The type of a value for all trips."""
        type_ = self.type_of(name)
        assert isinstance(type_, TensorType)
        if name not in self.varying and (self.into or name not in self.op.binds()):
            return type_
        missing = ranks.get(name, type_.rank + 1) - type_.rank - 1
        return TensorType(type_.dtype, (self.trips, *(1,) * missing, *type_.shape))

    # ---- what may be tried -------------------------------------------------------------------

    def _alignments(self) -> Iterator[Mapping[str, int]]:
        """How many axes inputs must have: as many as they do, then as many as the most."""
        yield {}
        ranks = {name: len(shape_of(self.type_of(name))) for name in self.op.reads()}
        most = max(ranks.values(), default=0)
        few = {n: most + 1 for n, rank in ranks.items() if n in self.varying and rank < most}
        if few:
            yield few

    def _attributes(self) -> Iterator[Mapping[str, Attr]]:
        """Attributes as they are, then led by one more axis."""
        attrs = self.op.attrs
        yield attrs
        rank = len(shape_of(self.type_of(next(self.op.reads()))))
        specs = OPS.get(self.op.type).attrs
        led = {spec.name: spec.led(attrs[spec.name], self.trips, rank) for spec in specs}
        if led != attrs:
            yield led


def turns_axes(op: Op) -> bool:
    """Whether an operator changes nothing but the order of axes."""
    return OPS.get(op.type).changes_only == AXES


def _variables(op: Op) -> Iterator[tuple[bool, str, int, str]]:
    """What an operator reads and binds: whether it binds it, the slot, which, and its name."""
    for out, slots in ((False, op.inputs), (True, op.outputs)):
        for slot, names in slots.items():
            yield from ((out, slot, i, name) for i, name in enumerate(names))


def structure(op: Op, axes: AxisMap, without: str | None = None) -> Structure:
    """Which axes are one and what becomes of them, whatever they are called."""
    groups: dict[str, set[Occurrence]] = {}
    for out, slot, i, _ in _variables(op):
        indices = axes.of_output(slot, i) if out else axes.of(slot, i)
        for place, index in enumerate(reversed(indices)):
            if index is not None and index != without:
                groups.setdefault(index, set()).add((out, slot, i, place))
    return frozenset(
        (frozenset(places), "mixed" if index in axes.mixed else str(axes.fills.get(index)))
        for index, places in groups.items()
    )


def _forward_of(op: Op) -> Op | None:
    """What a gradient kernel is of, as if it bound what the cotangents stand for."""
    definition, base = OPS.get(op.type), OPS.get(op.type.rpartition(".")[0] or op.type)
    slots = {slot.name: op.inputs[slot.name] for slot in base.inputs if slot.name in op.inputs}
    whole = all(slot.optional or slot.name in slots for slot in base.inputs)
    ends = {
        slot.name: op.inputs[slot.name + definition.suffix]
        for slot in base.outputs
        if definition.suffix
        and slot.name + definition.suffix in definition.cotangents & op.inputs.keys()
    }
    return op.with_(type=base.type, inputs=slots, outputs=ends) if ends and whole else None


def _with_rank(value: Var, rank: int | None) -> Var:
    """A value with so many axes; those that it lacks come behind the first."""
    if rank is None or rank == value.ndim:
        return value
    first, *rest = value.shape
    return one("reshape", value, shape=(first, *(1,) * (rank - value.ndim), *rest))
