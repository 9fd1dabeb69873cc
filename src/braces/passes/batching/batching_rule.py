"""Batching rule: one operator for all iterations of a loop, with a leading iteration axis.

    body (t: i64[], r: f32[3]) {                  # n iterations over rows: f32[n,3]
      y: f32[4] = matmul(x=r, y=w)                # axes: x[k], y[k,j] -> out[j]
    }

    ys: f32[n,4] = matmul(x=rows, y=w)            # axes: x[i,k], y[k,j] -> out[i,j]

The axis map that an operator declares decides whether both are equal. The rule in one equation,
where `structure` is the axis map up to names:

    structure(op on types with the axis i, without i) == structure(op)

The iteration axis `i` must be the first axis of every varying operand and of every output, and
neither reduced nor mixed. (If outputs are summed over all iterations, it must be reduced.) All
other axes must map as before. Each kind of attribute declares its change for a leading axis
(`LEADING_AXIS_RULES`): axes count from the next axis, and shapes begin with the trip count. The
attributes stay unchanged if that does not satisfy the equation. Operands of lower rank get axes
of size 1 behind the iteration axis if broadcasting needs them.

A contraction (sum of products) can also give the sum over all iterations at once:

    total = sum over iterations of matmul(x=a, y=b)
    total: f32[3,4] = einsum(xs=[as, bs]) {equation="abc,acd->bd"}

A contraction that accepts no leading axis itself becomes an `einsum`:

    y: f32[4] = matmul(x=w, y=r)        in each of n iterations
    ys: f32[n,4] = einsum(xs=[w, rows]) {equation="bc,ac->ab"}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import TypeAlias

from braces.builder.append import apply, emit
from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, Indices, shape_of
from braces.define.decorator import OPS
from braces.define.definition import AXES
from braces.define.type_inference import infer_op
from braces.dims import Size, Unifier
from braces.dtypes import ListType, TensorType, Type
from braces.errors import BracesError
from braces.ir.records import Attr, Op
from braces.ops.control.batch_axis.axis_kinds import TypeOf, axis_map_of
from braces.ops.linalg.matmul import LETTERS
from braces.passes.core.random_effects import is_random

Values: TypeAlias = "Callable[[str], Var]"
AxisOccurrence: TypeAlias = "tuple[bool, str, int, int]"
"""An axis: whether of an output, its slot, the variable in it, and the axis from the end."""
AxisStructure: TypeAlias = "frozenset[tuple[frozenset[AxisOccurrence], str]]"


@dataclass(frozen=True)
class BatchedOp:
    """Batched operator: one operator for all iterations, by its batching rule.

    Attributes:
        op: The operator in one iteration.
        varying: Its loop-variant operands.
        attrs: Its attributes for all iterations.
        ranks: Ranks to which operands must be extended, by name.
        axes: Its axis map for all iterations.
        trips: Name of the iteration axis.
    """

    op: Op
    varying: Collection[str]
    attrs: Mapping[str, Attr]
    ranks: Mapping[str, int]
    axes: AxisMap
    trips: str

    def build(self, values: Values) -> dict[str, Var]:
        """Append the operator; return its outputs for all iterations, by name.

        Args:
            values: Returns an operand, with a leading iteration axis if it varies.
        """
        inputs = {slot: self._operands(names, values) for slot, names in self.op.inputs.items()}
        results = apply(self.op.type, inputs, self.attrs, wanted=tuple(self.op.outputs))
        slots = self.op.outputs.items()
        return {
            n: x for slot, names in slots for n, x in zip(names, results[slot], strict=True)
        }

    @property
    def totals(self) -> frozenset[str]:
        """Outputs that `build` sums over all iterations: none."""
        return frozenset()

    def can_sum(self, name: str) -> bool:
        """Return whether `total` can build it: its only output is a contraction."""
        (slot, *others), indices = self.op.outputs, self._all_axis_names()
        is_named = None not in (*indices, *self.axes.of_output(slot)) and len(indices) <= len(
            LETTERS
        )
        is_only_output = self.op.outputs[slot] == (name,) and not others
        return OPS.get(self.op.type).product and is_named and is_only_output

    def build_sum(self, values: Values, transpose_of: Callable[[str], BatchedOp | None]) -> Var:
        """Append the sum of the output over all iterations.

        Args:
            values: Returns an operand, with a leading iteration axis if it varies.
            transpose_of: Returns the transpose that computes an operand, if there is one.
        """
        letters = dict(zip(self._all_axis_names(), LETTERS, strict=False))

        def to_letters(indices: Indices) -> str:
            return "".join(letters[index] for index in indices if index)

        operands, terms = list[Var](), list[str]()
        for slot, names in self.op.inputs.items():
            for i, name in enumerate(names):
                value, indices = self._operand(
                    name, self.axes.of(slot, i), values, transpose_of(name)
                )
                operands.append(value)
                terms.append(to_letters(indices))
        (slot,) = self.op.outputs
        out = to_letters(tuple(i for i in self.axes.of_output(slot) if i != self.trips))
        if len(operands) == 1:
            axis = tuple(i for i, letter in enumerate(terms[0]) if letter not in out)
            return emit("sum", operands[0], axis=axis)
        return emit("einsum", *operands, equation=f"{','.join(terms)}->{out}")

    def _operand(
        self, name: str, indices: Indices, values: Values, turned: BatchedOp | None
    ) -> tuple[Var, Indices]:
        """Return an operand and its axes, before a transpose if there is one."""
        if turned is None or name in self.ranks:
            return _with_rank(values(name), self.ranks.get(name)), indices
        (slot,), (out,), (source,) = turned.op.inputs, turned.op.outputs, turned.op.reads()
        source_axes = dict(zip(turned.axes.of_output(out), indices, strict=True))
        return values(source), tuple(source_axes[index] for index in turned.axes.of(slot))

    def _all_axis_names(self) -> dict[str | None, None]:
        axis_names = chain.from_iterable(
            self.axes.of(slot, i)
            for slot, names in self.op.inputs.items()
            for i in range(len(names))
        )
        return dict.fromkeys(axis_names)

    def _operands(self, names: Sequence[str], values: Values) -> list[Var]:
        return [_with_rank(values(name), self.ranks.get(name)) for name in names]


def apply_batching_rule(
    op: Op, type_of: TypeOf, varying: Collection[str], trips: Size, into: bool = False
) -> BatchedOp | None:
    """Apply the batching rule of an operator; `None` if there is none.

    Args:
        op: The operator in one iteration.
        type_of: Returns the type of its operands and results in one iteration.
        varying: Its loop-variant operands.
        trips: The trip count.
        into: Whether the outputs are summed over all iterations.
    """
    if OPS.get(op.type).axes_rule is None or op.bodies():
        return None
    if any(isinstance(type_of(name), ListType) for name in (*op.reads(), *op.binds())):
        return None
    return _BatchingSearch(op, type_of, varying, trips, into).find()


@dataclass(frozen=True)
class _BatchingSearch:
    """Search for the batching rule of an operator with an axis map."""

    op: Op
    type_of: TypeOf
    varying: Collection[str]
    trips: Size
    into: bool

    def find(self) -> BatchedOp | None:
        """Return the first candidate that satisfies the rule."""
        before = self._axes(self.type_of, self.op.attrs)
        if before is None:
            return None
        expected = axis_structure(self.op, before)
        for attrs, ranks in product(self._attributes(), self._alignments()):
            axes = self._axes(partial(self._batched_type, ranks), attrs)
            trips = None if axes is None else self._iteration_axis(axes)
            if axes is None or trips is None:
                continue
            holds = axis_structure(self.op, axes, without=trips) == expected
            if holds and self._types_match(ranks, attrs):
                return BatchedOp(self.op, self.varying, attrs, ranks, axes, trips)
        return None if self.into else self._as_einsum(before)

    def _as_einsum(self, axes: AxisMap) -> BatchedOp | None:
        """Return a contraction as an `einsum`, which accepts a leading axis on any operand."""
        op, variables = self.op, [(slot, i, name) for _, slot, i, name in _variables(self.op)]
        *operands, (slot, _, _) = variables
        axis_names = {index for slot, i, _ in operands for index in axes.of(slot, i)}
        if (
            not OPS.get(op.type).product
            or len([*op.binds()]) != 1
            or len(axis_names) >= len(LETTERS)
        ):
            return None
        ends = axes.of_output(slot)
        if None in axis_names or not axis_names.issuperset(ends):
            return None
        first, *others = LETTERS
        letters = dict(zip(sorted(map(str, axis_names)), others, strict=False))

        def to_letters(indices: Indices, led: bool) -> str:
            return "".join([first * led, *(letters[str(index)] for index in indices)])

        terms = (
            to_letters(axes.of(slot, i), name in self.varying) for slot, i, name in operands
        )
        attrs: dict[str, Attr] = {"equation": f"{','.join(terms)}->{to_letters(ends, True)}"}
        led = op.with_(
            type="einsum",
            inputs={"xs": tuple(op.reads())},
            outputs={"out": tuple(op.binds())},
            attrs=attrs,
        )
        search = _BatchingSearch(led, self.type_of, self.varying, self.trips, False)
        new_axes = search._axes(partial(search._batched_type, {}), attrs)
        if new_axes is None or not search._types_match({}, attrs):
            return None
        return BatchedOp(led, self.varying, attrs, {}, new_axes, first)

    def _types_match(self, ranks: Mapping[str, int], attrs: Mapping[str, Attr]) -> bool:
        """Return whether the outputs have the expected types.

        A derivative gets cotangents of the types of the original outputs.
        """
        types = {
            name: self._batched_type(ranks, name)
            for name in (*self.op.reads(), *self.op.binds())
        }
        checked_ops = (op.with_(attrs=attrs) for op in (self.op, _forward_of(self.op)) if op)
        try:
            inferred_types = [infer_op(op, types, Unifier()) for op in checked_ops]
        except BracesError:
            return False
        return all(
            types[name] == type_
            for output_types in inferred_types
            for name, type_ in output_types.items()
        )

    def _axes(self, type_of: TypeOf, attrs: Mapping[str, Attr]) -> AxisMap | None:
        """Return the axis map; `None` if the operator rejects such types."""
        try:
            return axis_map_of(self.op.with_(attrs=attrs), type_of)
        except BracesError:
            return None

    def _iteration_axis(self, axes: AxisMap) -> str | None:
        """Return the name of the iteration axis if it maps as required; else `None`.

        All varying variables have it as their first axis, and no other axis has its name.
        """
        leading, others = set[str | None](), set[str | None]()
        for out, slot, i, name in _variables(self.op):
            indices = axes.of_output(slot, i) if out else axes.of(slot, i)
            first = not self.into if out else name in self.varying
            leading.update(indices[:1] or (None,) if first else ())
            others.update(indices[first:])
        index = leading.pop() if len(leading) == 1 else None
        if index is None or index in others or index in axes.mixed:
            return None
        if is_random(self.op) and not self._draws_by_iteration(axes, index):
            return None
        return index if (index in axes.fills) is self.into else None

    def _draws_by_iteration(self, axes: AxisMap, index: str) -> bool:
        """Return whether a random operator gets iteration numbers, for separate draws."""
        slots = OPS.get(self.op.type).index_slots & axes.inputs.keys()
        return any(index in indices for slot in slots for indices in axes.inputs[slot])

    def _batched_type(self, ranks: Mapping[str, int], name: str) -> Type:
        """Return the type of a value for all iterations."""
        type_ = self.type_of(name)
        assert isinstance(type_, TensorType)
        if name not in self.varying and (self.into or name not in self.op.binds()):
            return type_
        missing = ranks.get(name, type_.rank + 1) - type_.rank - 1
        return TensorType(type_.dtype, (self.trips, *(1,) * missing, *type_.shape))

    # ---- candidates --------------------------------------------------------------------------

    def _attributes(self) -> Iterator[Mapping[str, Attr]]:
        """Yield the attributes with the change that their kinds declare, then unchanged."""
        attrs = self.op.attrs
        rank = len(shape_of(self.type_of(next(self.op.reads()))))
        specs = OPS.get(self.op.type).attrs
        changed = {spec.name: spec.led(attrs[spec.name], self.trips, rank) for spec in specs}
        if changed != attrs:
            yield changed
        yield attrs

    def _alignments(self) -> Iterator[Mapping[str, int]]:
        """Yield the ranks that operands need: unchanged, then all as the highest."""
        yield {}
        ranks = {name: len(shape_of(self.type_of(name))) for name in self.op.reads()}
        highest = max(ranks.values(), default=0)
        low_ranks = {
            n: highest + 1 for n, rank in ranks.items() if n in self.varying and rank < highest
        }
        if low_ranks:
            yield low_ranks


def is_transpose(op: Op) -> bool:
    """Return whether an operator is a pure transpose."""
    return OPS.get(op.type).changes_only == AXES


def _variables(op: Op) -> Iterator[tuple[bool, str, int, str]]:
    """Yield each variable of an operator: whether an output, slot, position and name."""
    for out, slots in ((False, op.inputs), (True, op.outputs)):
        for slot, names in slots.items():
            yield from ((out, slot, i, name) for i, name in enumerate(names))


def axis_structure(op: Op, axes: AxisMap, without: str | None = None) -> AxisStructure:
    """Return the axis map up to names: groups of equal axes, with their reductions."""
    groups: dict[str, set[AxisOccurrence]] = {}
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
    """Return the operator that a gradient kernel differentiates, with cotangents as outputs."""
    definition, base = OPS.get(op.type), OPS.get(op.type.rpartition(".")[0] or op.type)
    slots = {slot.name: op.inputs[slot.name] for slot in base.inputs if slot.name in op.inputs}
    is_complete = all(slot.optional or slot.name in slots for slot in base.inputs)
    ends = {
        slot.name: op.inputs[slot.name + definition.suffix]
        for slot in base.outputs
        if definition.suffix
        and slot.name + definition.suffix in definition.cotangents & op.inputs.keys()
    }
    return (
        op.with_(type=base.type, inputs=slots, outputs=ends) if ends and is_complete else None
    )


def _with_rank(value: Var, rank: int | None) -> Var:
    """Return a value extended to a rank by axes of size 1 behind the first."""
    if rank is None or rank == value.ndim:
        return value
    first, *others = value.shape
    return emit("reshape", value, shape=(first, *(1,) * (rank - value.ndim), *others))
