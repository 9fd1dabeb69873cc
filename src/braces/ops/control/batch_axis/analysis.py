"""Batch axis analysis: a dataflow analysis that finds the row axes of every value in a block.

Rows are batch elements. The analysis interprets a block abstractly, axis by axis, over this
lattice (`What`). The join of two kinds is their least upper bound:

    error                     conflict: the operator mixes rows, or may do so
     ^      ^
    rows   other              the batch axis; any other axis
     ^      ^
    same                      a repetition: constant along the axis, as in a broadcast

| join | same | rows | other |
|---|---|---|---|
| same | same | rows | other |
| rows | rows | rows | error |
| other | other | error | other |

- Transfer function: the axis map of an operator names each axis of its inputs and outputs. An
  output axis is the join of the input axes with its name (`Tracker.bound`).
- A row axis is found by its origin and not by its size. There are two exceptions. A repetition
  becomes rows where it meets rows. If the number of rows is a named size, so does an axis of
  that size.
- Sub-blocks: kinds flow along the edges of `value_flow`, and are joined at parameters. They
  only go up in the lattice, so iteration reaches a fixpoint (`Site`).

Example, for n rows:

    (valid: bool[n], r: f32[n,3])     valid: (rows,)  r: (rows, other)
      k: f32[n,3] = full()            k: (same, same)      repetitions
      y: f32[n,3] = add(r, k)         y: (rows, other)     join along each axis
      m: f32[3] = sum(y) {axis=[0]}   reduces over rows: masked before it runs with padding
      z: f32[n,3] = cumsum(y) {axis=0}  error: an entry depends on others along the row axis
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, IdentityElements, Index, shape_of
from braces.define.decorator import OPS
from braces.dims import Dim, Size
from braces.dtypes import Type
from braces.errors import BracesError
from braces.ir.records import Attr, Body, Op
from braces.ir.views import LoopView, view_of
from braces.ops.common.row_semantics import (
    ADVICE,
    OUTSIDE,
    RowView,
    mixed_rows_error,
    row_count_error,
    undeclared_axes_error,
)
from braces.ops.control.core.value_flow import ValueEdge, value_edges

AxisKind: TypeAlias = Literal["rows", "same", "other"]
"""Lattice of axis kinds: `rows`: batch axis, `same`: repetition, `other`: any other axis."""
AxisKinds: TypeAlias = "dict[str, tuple[AxisKind, ...]]"
"""Axis kinds of variables; all axes of a variable without an entry are `other`."""
Types: TypeAlias = "Mapping[str, Type]"
TypeOf: TypeAlias = "Callable[[str], Type]"
ConstructStates: TypeAlias = "dict[str, ConstructState]"
"""The constructs of one block, by name."""


@dataclass(frozen=True)
class AxisUse:
    """An axis of an input or output of an operator.

    Attributes:
        position: The position of the variable in the slot.
        index: The operator's name of the axis.
    """

    slot: str
    position: int
    axis: int
    index: Index
    size: Size
    what: AxisKind

    def __str__(self) -> str:
        return f"axis {self.axis} of its `{self.slot}`"


@dataclass(frozen=True)
class OpAxes:
    """An operator with its axis kinds.

    Attributes:
        axes: Its axis map.
        inputs: All axes of its inputs.
        rows: The operator's names of the row axes.
    """

    op: Op
    axes: AxisMap
    inputs: tuple[AxisUse, ...] = ()
    rows: frozenset[str] = frozenset()

    def reduced(self) -> list[AxisUse]:
        """Return the row axes over which the operator reduces."""
        left = {index for index in self.rows if self.axes.fills.get(index)}
        return [axis for axis in self.inputs if axis.index in left]

    def cut_short(self) -> dict[str, IdentityElements]:
        """Return non-pointwise row axes, with fill values that exclude trailing entries."""
        return {i: fills for i, fills in self.axes.tails.items() if i in self.rows}

    def view(self, rows: Size, var: Callable[[str], Var]) -> RowView:
        """Return the operator as a `RowView`, for rules that replace it."""
        row_axes = (item for item in self.inputs if item.index in self.rows)
        places = frozenset((item.slot, item.position, item.axis) for item in row_axes)
        return RowView(self.op, places, rows, var)


@dataclass
class ConstructState:
    """Analysis state of a construct; kinds at block parameters only go up in the lattice.

    The state is kept while an enclosing block is analyzed again. So each block is analyzed only
    as often as kinds at its parameters change, at any depth.

    Attributes:
        links: The edges between the construct and its blocks.
        scopes: By block, the types of visible variables; `""` is the enclosing block.
        params: By block, the kinds at its parameters.
        ends: By block, the kinds at its end; `""` is the enclosing block.
        sites: By block, the constructs in it.
        followed: The kinds of captures and parameters in the latest analysis.
    """

    links: tuple[ValueEdge, ...]
    scopes: dict[str, Types]
    params: dict[str, AxisKinds]
    ends: dict[str, AxisKinds]
    sites: dict[str, ConstructStates]
    followed: tuple[AxisKinds, dict[str, AxisKinds]] | None = None


def axis_map_of(op: Op, type_of: TypeOf) -> AxisMap:
    """Return the axis map of an operator from its definition."""
    rule, slots = OPS.get(op.type).axes_rule, (op.outputs, op.inputs)
    assert rule is not None
    types = {
        s: tuple(map(type_of, names)) for slot_names in slots for s, names in slot_names.items()
    }
    return rule(types, op.attrs)


def leading_row_kinds(type_: Type) -> tuple[AxisKind, ...]:
    """Return axis kinds with rows on the leading axis only."""
    others: tuple[AxisKind, ...] = ("other",) * (len(shape_of(type_)) - 1)
    return ("rows", *others)


def is_row_wise(body: Body, types: Types, rows: Size) -> bool:
    """Return whether each row of a block's values depends on one row of its parameters only.

    Args:
        body: The block; its parameters have rows on axis 0.
        types: The types of all visible variables.
        rows: The number of rows.
    """
    tracker, sites = BatchAxisAnalysis(rows, lambda size: size), dict[str, ConstructState]()
    known: AxisKinds = {name: leading_row_kinds(types[name]) for name in body.params}
    try:
        tracked_ops = [tracker.step(op, types, known, sites) for op in body.ops]
    except BracesError:  # rows are mixed, or may be
        return False
    return not any(tracked.reduced() for tracked in tracked_ops)


@dataclass
class BatchAxisAnalysis:
    """Batch axis analysis of blocks.

    Attributes:
        rows: The number of rows: a number, or a name.
        resolve: Resolves an unnamed size.
        rounded: Whether the row axis is padded to a capacity, for which operators are replaced.
        numbered: Whether random draws will get row numbers, and so become pointwise along rows;
            see `braces.ops.control.partition.random`.
    """

    rows: Size
    resolve: Callable[[Size], Size]
    rounded: bool = False
    numbered: bool = False

    def follow(
        self, ops: Iterable[Op], types: Types, known: AxisKinds, sites: ConstructStates
    ) -> None:
        """Analyze operators and add the axis kinds of their outputs.

        Args:
            ops: Operators of a block, in order.
            types: The types of all visible variables.
            known: The axis kinds; those of outputs are added.
            sites: The constructs among the operators, by name; new ones are added.

        Raises:
            ProgramError: An operator mixes rows, or may do so.
        """
        for op in ops:
            self.step(op, types, known, sites)

    def step(self, op: Op, types: Types, known: AxisKinds, sites: ConstructStates) -> OpAxes:
        """Analyze one operator, add the axis kinds of its outputs, and return its own.

        Raises:
            ProgramError: It mixes rows, or may do so.
        """
        tracked = self.track(op, types, known)
        known |= self.bound(tracked, types)
        if op.bodies():
            self._analyze_blocks(op, types, known, sites)
        return tracked

    # ---- sub-blocks --------------------------------------------------------------------------

    def _analyze_blocks(
        self, op: Op, types: Types, known: AxisKinds, sites: ConstructStates
    ) -> None:
        """Analyze sub-blocks to a fixpoint."""
        site = sites.get(op.name)
        if site is None:
            site = sites[op.name] = self._new_site(op, types)
        site.ends[""] = known
        self._propagate(op, site, "", inwards=True)
        read = {name: known[name] for name in op.reads() if name in known}
        while site.followed != (inputs := (read, site.params)):
            site.followed = read, {label: dict(kinds) for label, kinds in inputs[1].items()}
            for label, body in op.bodies().items():
                site.ends[label] = inner = {**known, **site.params[label]}
                self.follow(body.ops, site.scopes[label], inner, site.sites[label])
                self._propagate(op, site, label, inwards=True)
        for label in site.ends:
            self._propagate(op, site, label, inwards=False)

    def _new_site(self, op: Op, types: Types) -> ConstructState:
        """Return the initial state of a construct."""
        bodies = op.bodies()
        scopes = {"": types} | {
            n: self._types_within(body, types) for n, body in bodies.items()
        }
        return ConstructState(
            value_edges(op),
            scopes,
            {label: {} for label in bodies},
            {},
            {label: {} for label in bodies},
        )

    def _types_within(self, body: Body, types: Types) -> Types:
        """Return the types visible in a sub-block."""
        own = {n: info.type.map_sizes(self.resolve) for n, info in body.vars.items()}
        return {**types, **own}

    def _propagate(self, op: Op, site: ConstructState, label: str, inwards: bool) -> None:
        """Propagate kinds from a block to block parameters, or to outputs of the construct."""
        for link in site.links:
            if link.origin == label and bool(link.block) == inwards:
                target = site.params[link.block] if inwards else site.ends[""]
                self._join(op, link, site.ends[label], target, site.scopes)

    def _join(
        self,
        op: Op,
        link: ValueEdge,
        source: AxisKinds,
        target: AxisKinds,
        scopes: Mapping[str, Types],
    ) -> None:
        """Join the kinds of an edge's source into those of its target.

        Raises:
            ProgramError: An axis is rows in one and not in the other.
        """
        shape = shape_of(scopes[link.block][link.target])
        source_kinds = source.get(link.source, ("other",) * (len(shape) - link.shift))
        target_kinds = list[AxisKind](target.get(link.target, ("same",) * len(shape)))
        for axis in range(link.first, len(source_kinds)):
            at = axis + link.shift
            pair = {target_kinds[at], source_kinds[axis]} - {"same"}
            if pair == {"rows", "other"} and shape[at] != self.rows_name:
                raise mixed_rows_error(
                    op,
                    f"they are axis {at} of `{link.target}` in one place, and not in another.",
                    self._advice(),
                )
            target_kinds[at] = "rows" if "rows" in pair else "other" if pair else "same"
        target[link.target] = tuple(target_kinds)

    # ---- one operator ------------------------------------------------------------------------

    def track(self, op: Op, types: Types, known: AxisKinds) -> OpAxes:
        """Return the axis kinds of an operator.

        Raises:
            ProgramError: It mixes rows, or may do so.
        """
        definition = OPS.get(op.type)
        has_rows = any("rows" in known.get(name, ()) for name in op.reads())
        replaced = self.rounded and definition.rounded_rule is not None
        data_dependent = definition.learn_rule is not None and not replaced
        if definition.axes_rule is None or (data_dependent and has_rows):
            if has_rows or any(self.mentions(value) for value in op.attrs.values()):
                raise undeclared_axes_error(op)
            return OpAxes(op, AxisMap({}, {}))
        axes = axis_map_of(op, types.__getitem__)
        if self.numbered and "Salt" in definition.roles:
            axes = replace(axes, mixed=axes.mixed.difference(axes.of_output("out")))
        inputs = tuple(self._occurrences(axes, op.inputs, types, known))
        rows = frozenset(self._row_names(op, axes, inputs))
        if self.rounded and any(self.is_trips(op, value) for value in op.attrs.values()):
            rows |= axes.mixed  # stacked outputs have one entry per iteration
        tracked = OpAxes(op, axes, inputs, rows)
        if not replaced:
            self._check(tracked, types)
        return tracked

    def _occurrences(
        self,
        axes: AxisMap,
        slots: Mapping[str, tuple[str, ...]],
        types: Types,
        known: AxisKinds,
    ) -> Iterator[AxisUse]:
        for slot, names in slots.items():
            for position, name in enumerate(names):
                shape = shape_of(types[name])
                whats = known.get(name, ("other",) * len(shape))
                indices = axes.of(slot, position)
                for axis, index in enumerate(indices):
                    yield AxisUse(slot, position, axis, index, shape[axis], whats[axis])

    def _row_names(self, op: Op, axes: AxisMap, inputs: Iterable[AxisUse]) -> Iterator[str]:
        """Yield the operator's names of the row axes."""
        by_index: dict[Index, list[AxisUse]] = {}
        for axis in inputs:
            by_index.setdefault(axis.index, []).append(axis)
        for index, axes_of_index in by_index.items():
            rows = [axis for axis in axes_of_index if axis.what == "rows"]
            others = [axis for axis in axes_of_index if axis.what == "other"]
            if index is None:
                if rows:
                    raise mixed_rows_error(
                        op, f"{rows[0]}, which is broadcast.", self._advice()
                    )
                continue
            if rows:
                for other in others:
                    if other.size != self.rows_name:
                        why = f"it matches {rows[0]} with {other}, which is not rows."
                        raise mixed_rows_error(op, why, self._advice())
                yield index
            elif (
                not others and axes_of_index[0].size == self.rows_name and not axes.keeps(index)
            ):
                yield index  # a repetition of that size, with no other evidence

    def _check(self, tracked: OpAxes, types: Types) -> None:
        """Reject an operator that mixes rows.

        Raises:
            ProgramError: It does.
        """
        op = tracked.op
        for axis in tracked.inputs:
            if axis.index in tracked.rows & tracked.axes.mixed and not self._is_tail_excluded(
                tracked, axis
            ):
                raise mixed_rows_error(
                    op, f"they are {axis}, along which an entry is not on its own."
                )
        base = OPS.get(op.type.partition(".")[0])
        if base.masked_rule is not None and base.type != op.type and tracked.reduced():
            raise mixed_rows_error(
                op, f"its derivative is not that of {base.type} without padding."
            )
        for spec in OPS.get(op.type).attrs:
            value = op.attrs[spec.name]
            if not self.mentions(value) or (self.rounded and self.is_trips(op, value)):
                continue
            if not isinstance(value, tuple):
                raise row_count_error(op, spec.name)
            self._check_output_sizes(tracked, types, spec.name)

    def _is_tail_excluded(self, tracked: OpAxes, axis: AxisUse) -> bool:
        """Return whether trailing rows can be excluded along an axis."""
        return self.rounded and axis.index in tracked.axes.tails

    def _check_output_sizes(self, tracked: OpAxes, types: Types, attr: str) -> None:
        for slot, names in tracked.op.outputs.items():
            for position, name in enumerate(names):
                sizes = zip(
                    tracked.axes.of_output(slot, position), shape_of(types[name]), strict=False
                )
                for index, size in sizes:
                    mixed = index in tracked.axes.mixed and index not in tracked.rows
                    if self.mentions(size) and (mixed or size != self.rows):
                        raise row_count_error(tracked.op, attr)

    def rows_bound(self, found: OpAxes, types: Types) -> dict[str, tuple[int, ...]]:
        """Return the row axes of an operator's outputs, with repetitions of the named size."""
        return {
            name: tuple(
                axis
                for axis, (what, size) in enumerate(
                    zip(whats, shape_of(types[name]), strict=True)
                )
                if what == "rows" or (what == "same" and size == self.rows_name)
            )
            for name, whats in self.bound(found, types).items()
        }

    def bound(self, found: OpAxes, types: Types) -> AxisKinds:
        """Return the axis kinds of an operator's outputs."""
        whats: dict[Index, AxisKind] = {}
        for axis in found.inputs:
            if axis.index is not None and (axis.what != "same" or axis.index not in whats):
                whats[axis.index] = axis.what
        whats |= dict.fromkeys(found.axes.mixed, "other")
        whats |= dict.fromkeys(found.rows, "rows")
        known: AxisKinds = {}
        for slot, names in found.op.outputs.items():
            for position, name in enumerate(names):
                shape = shape_of(types[name])
                indices = found.axes.of_output(slot, position) or (None,) * len(shape)
                own: list[AxisKind] = [whats.get(index, "same") for index in indices]
                pairs = zip(own, shape, strict=True)
                known[name] = tuple(self._kind_with_padding(what, size) for what, size in pairs)
        return known | self._data_dependent_kinds(found.op, known, types)

    def _kind_with_padding(self, what: AxisKind, size: Size) -> AxisKind:
        """Return an axis kind for a padded batch: all axes of that size have padding."""
        if not self.rounded:
            return what
        if size == self.rows:
            return "rows"
        return "other" if what == "rows" else what

    def _data_dependent_kinds(self, op: Op, known: AxisKinds, types: Types) -> AxisKinds:
        """Return the kinds of padded rows at their origin, outputs of data-dependent size."""
        role = OPS.get(op.type).roles.get("Learned")
        if not self.rounded or role is None or op.attrs[role] != self.rows:
            return {}
        return {
            name: tuple(
                "rows" if size == self.rows else what
                for size, what in zip(shape_of(types[name]), whats, strict=True)
            )
            for name, whats in known.items()
        }

    def is_trips(self, op: Op, value: Attr) -> bool:
        """Return whether an attribute makes a loop iterate over the rows."""
        view = view_of(op)
        return isinstance(view, LoopView) and value == view.length == self.rows

    # ---- sizes -------------------------------------------------------------------------------

    @property
    def rows_name(self) -> Dim | None:
        """The name of the number of rows, if it has one."""
        return self.rows if isinstance(self.rows, Dim) and self.rows.name else None

    def mentions(self, value: Attr | Size) -> bool:
        """Return whether an attribute mentions the name of the number of rows."""
        if isinstance(value, tuple):
            return any(self.mentions(item) for item in value)
        return isinstance(value, Dim) and str(self.rows_name) in value.names()

    def _advice(self) -> str:
        """Return the advice for an error in which rows meet another axis."""
        if self.rows_name is not None:
            return OUTSIDE
        return f"That there are {self.rows} of both does not make them one. {ADVICE}"
