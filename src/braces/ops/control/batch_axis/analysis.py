"""Where rows are: from the parameters of a block through its operators, by their axes.

Each operator says how axes of its inputs map to those of its outputs. So an axis is rows
because it comes from rows, and not because it is as long or is called alike. Two things come
from nowhere: a repetition, as that of `full` or of a broadcast, is the same for all rows, and
is rows where it meets them; and where the rows have a name, a size of that name is rows where
it meets them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from braces.builder.var import Var
from braces.define.axes.axis_map import AxisMap, Fills, Index, shape_of
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
    counts_rows,
    refused,
    undeclared,
)
from braces.ops.control.core.value_flow import Link, links_of

What: TypeAlias = Literal["rows", "same", "other"]
"""An axis is rows, or a repetition, or anything else."""
Known: TypeAlias = "dict[str, tuple[What, ...]]"
"""What the axes of variables are; all of those of others are anything else."""
Types: TypeAlias = "Mapping[str, Type]"
TypeOf: TypeAlias = "Callable[[str], Type]"
Sites: TypeAlias = "dict[str, Site]"
"""The constructs of one block, by name."""


@dataclass(frozen=True)
class Occurrence:
    """An axis of an input or output of an operator.

    Attributes:
        position: Which variable of the slot.
        index: What the operator calls it.
    """

    slot: str
    position: int
    axis: int
    index: Index
    size: Size
    what: What

    def __str__(self) -> str:
        return f"axis {self.axis} of its `{self.slot}`"


@dataclass(frozen=True)
class Tracked:
    """One operator, and where rows are in it.

    Attributes:
        axes: How its axes map.
        inputs: All axes of its inputs.
        rows: What the operator calls the axes that are rows.
    """

    op: Op
    axes: AxisMap
    inputs: tuple[Occurrence, ...] = ()
    rows: frozenset[str] = frozenset()

    def reduced(self) -> list[Occurrence]:
        """The axes that are rows and of which an output sees the values, but has none."""
        left = {index for index in self.rows if self.axes.fills.get(index)}
        return [one for one in self.inputs if one.index in left]

    def cut_short(self) -> dict[str, Fills]:
        """By mixed axis that is rows, what leaves the last ones out."""
        return {i: fills for i, fills in self.axes.tails.items() if i in self.rows}

    def view(self, rows: Size, var: Callable[[str], Var]) -> RowView:
        """The operator, for what takes its place."""
        found = (one for one in self.inputs if one.index in self.rows)
        places = frozenset((one.slot, one.position, one.axis) for one in found)
        return RowView(self.op, places, rows, var)


@dataclass
class Site:
    """A construct: what is known at the parameters of its blocks, which only ever grows.

    So it is kept while what is around is followed again, and each block is followed as often as
    something new is known of it, however deep it is.

    Attributes:
        links: The values that it hands to its blocks and gets from them.
        scopes: By block, the types that are visible in it; under `""` those outside.
        params: By block, what is known at its parameters.
        ends: By block, what is known where it ends; under `""`, outside.
        sites: By block, the constructs in it.
        followed: What was known, outside and at parameters, when it was followed last.
    """

    links: tuple[Link, ...]
    scopes: dict[str, Types]
    params: dict[str, Known]
    ends: dict[str, Known]
    sites: dict[str, Sites]
    followed: tuple[Known, dict[str, Known]] | None = None


def axes_of(op: Op, type_of: TypeOf) -> AxisMap:
    """How the axes of an operator map, whose definition says it."""
    rule, slots = OPS.get(op.type).axes_rule, (op.outputs, op.inputs)
    assert rule is not None
    types = {s: tuple(map(type_of, names)) for given in slots for s, names in given.items()}
    return rule(types, op.attrs)


def led_by_rows(type_: Type) -> tuple[What, ...]:
    """What the axes of something are whose first one alone is rows."""
    others: tuple[What, ...] = ("other",) * (len(shape_of(type_)) - 1)
    return ("rows", *others)


def is_by_row(body: Body, types: Types, rows: Size) -> bool:
    """Whether each row of what a block computes needs one row of its parameters alone.

    Args:
        body: The block; its parameters have rows on their first axis.
        types: Of all that is visible in it.
        rows: How many rows there are.
    """
    tracker, sites = Tracker(rows, lambda size: size), dict[str, Site]()
    known: Known = {name: led_by_rows(types[name]) for name in body.params}
    try:
        found = [tracker.step(op, types, known, sites) for op in body.ops]
    except BracesError:  # something mixes them, or may do so
        return False
    return not any(one.reduced() for one in found)


@dataclass
class Tracker:
    """Follows rows through blocks.

    Attributes:
        rows: How many rows there are: a number, or a name.
        resolve: What is known of an unnamed size.
        rounded: Whether there is room for more rows than there are, which replacements of
            operators see to.
        numbered: Whether draws are yet to be told the numbers of rows, and differ no more from
            place to place then; see `braces.ops.control.partition.random`.
    """

    rows: Size
    resolve: Callable[[Size], Size]
    rounded: bool = False
    numbered: bool = False

    def follow(self, ops: Iterable[Op], types: Types, known: Known, sites: Sites) -> None:
        """Add what operators bind to what is known.

        Args:
            ops: Operators of a block, in order.
            types: Of all that is visible there.
            known: What is known; more is added.
            sites: The constructs among the operators, by name; more are added.

        Raises:
            ProgramError: An operator mixes rows, or may do so.
        """
        for op in ops:
            self.step(op, types, known, sites)

    def step(self, op: Op, types: Types, known: Known, sites: Sites) -> Tracked:
        """Add what one operator binds to what is known; where rows are in it.

        Raises:
            ProgramError: It mixes rows, or may do so.
        """
        found = self.track(op, types, known)
        known |= self.bound(found, types)
        if op.bodies():
            self._follow_blocks(op, types, known, sites)
        return found

    # ---- sub-blocks --------------------------------------------------------------------------

    def _follow_blocks(self, op: Op, types: Types, known: Known, sites: Sites) -> None:
        """Follow rows through sub-blocks until what goes around in them changes nothing."""
        site = sites.get(op.name)
        if site is None:
            site = sites[op.name] = self._begun(op, types)
        site.ends[""] = known
        self._hand_on(op, site, "", inwards=True)
        read = {name: known[name] for name in op.reads() if name in known}
        while site.followed != (now := (read, site.params)):
            site.followed = read, {label: dict(given) for label, given in now[1].items()}
            for label, body in op.bodies().items():
                site.ends[label] = inner = {**known, **site.params[label]}
                self.follow(body.ops, site.scopes[label], inner, site.sites[label])
                self._hand_on(op, site, label, inwards=True)
        for label in site.ends:
            self._hand_on(op, site, label, inwards=False)

    def _begun(self, op: Op, types: Types) -> Site:
        """A construct of which nothing is known."""
        bodies = op.bodies()
        scopes = {"": types} | {n: self._within(body, types) for n, body in bodies.items()}
        return Site(
            links_of(op),
            scopes,
            {label: {} for label in bodies},
            {},
            {label: {} for label in bodies},
        )

    def _within(self, body: Body, types: Types) -> Types:
        """The types that are visible in a sub-block."""
        own = {n: info.type.map_sizes(self.resolve) for n, info in body.vars.items()}
        return {**types, **own}

    def _hand_on(self, op: Op, site: Site, label: str, inwards: bool) -> None:
        """Hand on what is known in a block, to parameters or to what is bound outside."""
        for link in site.links:
            if link.origin == label and bool(link.block) == inwards:
                target = site.params[link.block] if inwards else site.ends[""]
                self._join(op, link, site.ends[label], target, site.scopes)

    def _join(
        self, op: Op, link: Link, source: Known, target: Known, scopes: Mapping[str, Types]
    ) -> None:
        """Hand on what is known, where nothing else is."""
        shape = shape_of(scopes[link.block][link.target])
        given = source.get(link.source, ("other",) * (len(shape) - link.shift))
        found = list[What](target.get(link.target, ("same",) * len(shape)))
        for axis in range(link.first, len(given)):
            at = axis + link.shift
            pair = {found[at], given[axis]} - {"same"}
            if pair == {"rows", "other"} and shape[at] != self.rows_name:
                raise refused(
                    op,
                    f"they are axis {at} of `{link.target}` in one place, and not in another.",
                    self._apart(),
                )
            found[at] = "rows" if "rows" in pair else "other" if pair else "same"
        target[link.target] = tuple(found)

    # ---- one operator ------------------------------------------------------------------------

    def track(self, op: Op, types: Types, known: Known) -> Tracked:
        """Where rows are in an operator.

        Raises:
            ProgramError: It mixes rows, or may do so.
        """
        definition = OPS.get(op.type)
        given = any("rows" in known.get(name, ()) for name in op.reads())
        replaced = self.rounded and definition.rounded_rule is not None
        learns = definition.learn_rule is not None and not replaced
        if definition.axes_rule is None or (learns and given):
            if given or any(self.mentions(value) for value in op.attrs.values()):
                raise undeclared(op)
            return Tracked(op, AxisMap({}, {}))
        axes = axes_of(op, types.__getitem__)
        if self.numbered and "Salt" in definition.roles:
            axes = replace(axes, mixed=axes.mixed.difference(axes.of_output("out")))
        inputs = tuple(self._occurrences(axes, op.inputs, types, known))
        rows = frozenset(self._indices(op, axes, inputs))
        if self.rounded and any(self.is_trips(op, value) for value in op.attrs.values()):
            rows |= axes.mixed  # what it collects has one entry a trip
        found = Tracked(op, axes, inputs, rows)
        if not replaced:
            self._check(found, types)
        return found

    def _occurrences(
        self, axes: AxisMap, slots: Mapping[str, tuple[str, ...]], types: Types, known: Known
    ) -> Iterator[Occurrence]:
        for slot, names in slots.items():
            for position, name in enumerate(names):
                shape = shape_of(types[name])
                whats = known.get(name, ("other",) * len(shape))
                indices = axes.of(slot, position)
                for axis, index in enumerate(indices):
                    yield Occurrence(slot, position, axis, index, shape[axis], whats[axis])

    def _indices(self, op: Op, axes: AxisMap, inputs: Iterable[Occurrence]) -> Iterator[str]:
        """What the operator calls the axes that are rows."""
        by_index: dict[Index, list[Occurrence]] = {}
        for one in inputs:
            by_index.setdefault(one.index, []).append(one)
        for index, found in by_index.items():
            rows = [one for one in found if one.what == "rows"]
            others = [one for one in found if one.what == "other"]
            if index is None:
                if rows:
                    raise refused(op, f"{rows[0]}, which is broadcast.", self._apart())
                continue
            if rows:
                for other in others:
                    if other.size != self.rows_name:
                        why = f"it matches {rows[0]} with {other}, which is not rows."
                        raise refused(op, why, self._apart())
                yield index
            elif not others and found[0].size == self.rows_name and not axes.keeps(index):
                yield index  # a repetition as long as the rows, which nothing else tells

    def _check(self, found: Tracked, types: Types) -> None:
        """Refuse what mixes rows.

        Raises:
            ProgramError: It does.
        """
        op = found.op
        for one in found.inputs:
            if one.index in found.rows & found.axes.mixed and not self._leaves_out(found, one):
                raise refused(op, f"they are {one}, along which an entry is not on its own.")
        base = OPS.get(op.type.partition(".")[0])
        if base.masked_rule is not None and base.type != op.type and found.reduced():
            raise refused(op, f"its derivative is not that of {base.type} without padding.")
        for spec in OPS.get(op.type).attrs:
            value = op.attrs[spec.name]
            if not self.mentions(value) or (self.rounded and self.is_trips(op, value)):
                continue
            if not isinstance(value, tuple):
                raise counts_rows(op, spec.name)
            self._check_made(found, types, spec.name)

    def _leaves_out(self, found: Tracked, one: Occurrence) -> bool:
        """Whether the last rows can be left out along an axis."""
        return self.rounded and one.index in found.axes.tails

    def _check_made(self, found: Tracked, types: Types, attr: str) -> None:
        for slot, names in found.op.outputs.items():
            for position, name in enumerate(names):
                sizes = zip(
                    found.axes.of_output(slot, position), shape_of(types[name]), strict=False
                )
                for index, size in sizes:
                    mixed = index in found.axes.mixed and index not in found.rows
                    if self.mentions(size) and (mixed or size != self.rows):
                        raise counts_rows(found.op, attr)

    def rows_bound(self, found: Tracked, types: Types) -> dict[str, tuple[int, ...]]:
        """The axes of the outputs of an operator that are rows, or called like them."""
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

    def bound(self, found: Tracked, types: Types) -> Known:
        """What the axes of the outputs of an operator are."""
        whats: dict[Index, What] = {}
        for one in found.inputs:
            if one.index is not None and (one.what != "same" or one.index not in whats):
                whats[one.index] = one.what
        whats |= dict.fromkeys(found.axes.mixed, "other")
        whats |= dict.fromkeys(found.rows, "rows")
        known: Known = {}
        for slot, names in found.op.outputs.items():
            for position, name in enumerate(names):
                shape = shape_of(types[name])
                indices = found.axes.of_output(slot, position) or (None,) * len(shape)
                own: list[What] = [whats.get(index, "same") for index in indices]
                pairs = zip(own, shape, strict=True)
                known[name] = tuple(self._padded(what, size) for what, size in pairs)
        return known | self._learned(found.op, known, types)

    def _padded(self, what: What, size: Size) -> What:
        """What an axis is where there is room for more rows: all of that size have padding."""
        if not self.rounded:
            return what
        if size == self.rows:
            return "rows"
        return "other" if what == "rows" else what

    def _learned(self, op: Op, known: Known, types: Types) -> Known:
        """Where rounded rows begin: in what an operator gives that tells their number."""
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
        """Whether an attribute says that a loop has a trip for each row."""
        view = view_of(op)
        return isinstance(view, LoopView) and value == view.length == self.rows

    # ---- sizes -------------------------------------------------------------------------------

    @property
    def rows_name(self) -> Dim | None:
        """The name of the rows, where they have one."""
        return self.rows if isinstance(self.rows, Dim) and self.rows.name else None

    def mentions(self, value: Attr | Size) -> bool:
        """Whether the name of the rows is in an attribute."""
        if isinstance(value, tuple):
            return any(self.mentions(one) for one in value)
        return isinstance(value, Dim) and str(self.rows_name) in value.names()

    def _apart(self) -> str:
        """The way out where rows meet what is not."""
        if self.rows_name is not None:
            return OUTSIDE
        return f"That there are {self.rows} of both does not make them one. {ADVICE}"
