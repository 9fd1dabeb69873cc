"""The rows of a summary: operators grouped by metric, or by layer of the parameters read."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from braces.define.axes.axis_map import shape_of
from braces.dims import Size, amount, product, substitute, sum_of
from braces.dtypes import Type, bytes_of
from braces.ir.records import BLOCK, PARAMETER, Body, Op, ProgramDef, VarInfo
from braces.ir.views import BlockView, LoopView, view_of
from braces.ir.walk import resolve_body
from braces.passes.analysis.cost import ProgramCost, trip_count_of
from braces.passes.analysis.metric_parts import metric_parts
from braces.report import count_text

_MOST_TYPES = 3
_MOST_OUTPUTS = 2
Infos: TypeAlias = ChainMap[str, VarInfo]


@dataclass(frozen=True)
class SummaryRow:
    """A layer, a metric, an operator, or a block of a summary.

    Attributes:
        path: The path of its operator; of the last one for a layer or a metric.
        name: Its name within the enclosing block.
        depth: The number of enclosing blocks.
        type: The types of its operators; for a loop with the trip count; `metric` for a metric.
        outputs: The types of its outputs.
        parameters: The number of elements of its parameters; each counts at its first use.
        bytes: The bytes of these parameters.
        trainable: The number of elements of its trainable parameters.
        operations: The operations of a run, in FLOPs; `None` if they are too complex as a
            symbolic size.
        trips: The trip count of a loop; `None` for others.
    """

    path: str
    name: str
    depth: int
    type: str
    outputs: tuple[Type, ...]
    parameters: Size
    bytes: Size
    trainable: Size
    operations: Size | None
    trips: Size | None = None

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        shown = [str(each) for each in self.outputs[:_MOST_OUTPUTS]]
        more = ["…"] if len(self.outputs) > _MOST_OUTPUTS else []
        owned = number_text(self.parameters), number_text(self.bytes, "B")
        owned = ("", "") if self.parameters == 0 else owned
        operations = "" if self.operations == 0 else number_text(self.operations, "FLOP")
        name = "  " * self.depth + self.name
        return (name, self.type, ", ".join(shown + more), *owned, operations)


def rows_of(
    program: ProgramDef, cost: ProgramCost | None, sizes: Mapping[str, int]
) -> tuple[SummaryRow, ...]:
    """Return the rows of a program; without its cost, they have no operations."""
    main = (
        resolve_body(program.main, lambda size: substitute(size, sizes))
        if sizes
        else program.main
    )
    operations = {each.path: each.cost.operations for each in cost.ops} if cost else None
    around = _Surroundings(ChainMap({**main.vars}), frozenset(main.results))
    return tuple(_RowReader(operations, sizes).block(main, around))


def element_count(infos: Iterable[VarInfo]) -> Size:
    """Return the number of elements of variables."""
    return sum_of(product(shape_of(info.type)) for info in infos)


def number_text(count: Size | None, unit: str = "") -> str:
    """Format a number, with a unit in short; `?` for none."""
    if count is None:
        return "?"
    if unit:
        return amount(count, unit)
    return f"{count:,}" if isinstance(count, int) else str(count)


# ---- groups ----------------------------------------------------------------------------------


@dataclass
class _Group:
    """Operators of one layer or metric, or a single operator.

    Attributes:
        layer: The name of the layer or metric; empty for an operator without parameters.
        ops: The operators in program order.
        bound: The names that they bind.
        prepares: Whether they only transform parameters so far.
        is_metric: Whether they are those of a metric.
    """

    layer: str
    ops: list[Op] = field(default_factory=list[Op])
    bound: set[str] = field(default_factory=set[str])
    prepares: bool = True
    is_metric: bool = False

    def takes(self, op: Op, prepares: bool) -> bool:
        """Return whether an operator that reads parameters of this layer belongs to it."""
        return self.prepares or prepares or not self.bound.isdisjoint(op.reads())

    def add(self, op: Op, prepares: bool) -> None:
        """Append an operator."""
        self.ops.append(op)
        self.bound.update(op.binds())
        self.prepares &= prepares


def _layer_of(name: str) -> str:
    """Return the layer of a parameter: `encoder/conv` for `encoder/conv.w`."""
    start, slash, last = name.rpartition("/")
    stem = last.rpartition(".")[0] or last
    return f"{start}{slash}{stem}"


def _groups_of(ops: Sequence[Op], infos: Infos, results: Iterable[str]) -> list[_Group]:
    """Group operators by metric, or by the layer whose parameters they read.

    Groups are in the order of their first operators.
    """
    groups, open_groups = list[_Group](), dict[str, _Group]()
    metrics = metric_parts(ops, infos, results)
    of_metrics = dict[str, _Group]()
    owners = {n: _layer_of(n) for op in ops for n in op.reads() if _is_parameter(infos, n)}
    for op in ops:
        if metric := metrics.get(op.name):
            if metric not in of_metrics:
                of_metrics[metric] = _Group(metric, is_metric=True)
                groups.append(of_metrics[metric])
            of_metrics[metric].add(op, False)
            continue
        reads = list(op.reads())
        layers = [owners[name] for name in reads if name in owners]
        layer = layers[0] if layers and not op.bodies() else ""
        prepares = len(layers) == len(reads)
        group = open_groups.get(layer) if layer else None
        if group is None or not group.takes(op, prepares):
            group = _Group(layer)
            groups.append(group)
            open_groups[layer] = group
        group.add(op, prepares)
        if layer and prepares:
            owners |= dict.fromkeys(op.binds(), layer)
    return groups


def _is_parameter(infos: Infos, name: str) -> bool:
    return name in infos and infos[name].kind == PARAMETER


# ---- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Surroundings:
    """The surroundings of a block.

    Attributes:
        infos: The variables visible in it.
        read: The names of its results that are read.
        path: Its path.
        prefix: The prefix of the names of its operators: that of the plain blocks around it.
        depth: The number of blocks around it.
    """

    infos: Infos
    read: frozenset[str]
    path: str = ""
    prefix: str = ""
    depth: int = 0

    def path_of(self, op: Op) -> str:
        """Return the path of an operator of the block."""
        return f"{self.path}/{op.name}".lstrip("/")

    def label_of(self, name: str) -> dict[str, Any]:
        """Return the fields of a row that place it."""
        return {"name": name.removeprefix(self.prefix), "depth": self.depth}


@dataclass
class _RowReader:
    """Reads the rows of nested blocks.

    Attributes:
        operations: The operations of each operator by path, if they are known.
        sizes: Numbers for symbols.
        counted: Names of the parameters that earlier rows have.
    """

    operations: Mapping[str, Size] | None
    sizes: Mapping[str, int]
    counted: set[str] = field(default_factory=set[str])

    def block(self, body: Body, around: _Surroundings) -> Iterator[SummaryRow]:
        """Yield the rows of a block."""
        read = around.read.union(*(op.reads() for op in body.ops))
        for group in _groups_of(body.ops, around.infos, around.read):
            last = group.ops[-1]
            outputs = _outputs(last, around.infos, read)
            if last.bodies() and not group.is_metric:
                yield from self._nested(last, around, read, outputs)
            elif any(op.inputs for op in group.ops):
                yield self._layer(group, around, outputs)

    def _layer(
        self, group: _Group, around: _Surroundings, outputs: tuple[Type, ...]
    ) -> SummaryRow:
        types = list(dict.fromkeys(op.type for op in group.ops))
        shown = " + ".join(types[:_MOST_TYPES]) + (" + …" if types[_MOST_TYPES:] else "")
        shown = "metric" if group.is_metric else shown
        paths = [around.path_of(op) for op in group.ops]
        names = (name for op in group.ops for name in op.reads())
        return SummaryRow(
            path=paths[-1],
            **around.label_of(group.layer or group.ops[-1].name),
            type=shown,
            outputs=outputs,
            **self._owned(names, around.infos),
            operations=self._sum(paths),
        )

    def _nested(
        self, op: Op, around: _Surroundings, read: frozenset[str], outputs: tuple[Type, ...]
    ) -> Iterator[SummaryRow]:
        """Yield the row of an operator with blocks, and then the rows of these."""
        path, view = around.path_of(op), view_of(op)
        trips = None
        if isinstance(view, LoopView):
            trips = substitute(trip_count_of(view, around.infos), self.sizes)
        before = set(self.counted)
        inner = list(self._inner(op, around, read))
        new, self.counted = self.counted - before, before
        yield SummaryRow(
            path=path,
            **around.label_of(op.name),
            type=_block_type(op, trips),
            outputs=outputs,
            **self._owned([*op.reads(), *new], around.infos),
            operations=self._sum([path]),
            trips=trips,
        )
        yield from inner

    def _inner(
        self, op: Op, around: _Surroundings, read: frozenset[str]
    ) -> Iterator[SummaryRow]:
        bodies = {label: body for label, body in op.bodies().items() if body.ops}
        several = len(bodies) > 1
        for label, body in bodies.items():
            path, depth = f"{around.path_of(op)}/{label}", around.depth + 1
            if several:
                yield SummaryRow(path, label, depth, "", (), 0, 0, 0, 0)
            inside = _Surroundings(
                ChainMap({**body.vars}, *around.infos.maps),
                frozenset(_read_results(op, body, read)),
                path,
                f"{op.name}/" if op.type == BLOCK else around.prefix,
                depth + several,
            )
            yield from self.block(body, inside)

    def _owned(self, names: Iterable[str], infos: Infos) -> dict[str, Any]:
        """Return the counts of parameters, apart from those of earlier rows."""
        names = (name for name in names if _is_parameter(infos, name))
        new_infos = {name: infos[name] for name in names if name not in self.counted}
        self.counted.update(new_infos)
        return {
            "parameters": element_count(new_infos.values()),
            "bytes": sum_of(bytes_of(info.type) for info in new_infos.values()),
            "trainable": element_count(info for info in new_infos.values() if info.trainable),
        }

    def _sum(self, paths: Iterable[str]) -> Size | None:
        if self.operations is None:
            return None
        return sum_of(self.operations.get(path, 0) for path in paths)


def _read_results(op: Op, body: Body, read: frozenset[str]) -> Iterator[str]:
    """Yield the results of a block that are read; those of loops and branches are."""
    if op.type != BLOCK:
        yield from body.results
        return
    for output in BlockView.of(op).outputs:
        if output.name in read:
            yield from output.results


def _block_type(op: Op, trips: Size | None) -> str:
    if trips is None:
        return op.type
    if isinstance(trips, int):
        return f"{op.type}, {count_text(trips, 'trip')}"
    return f"{op.type}, {trips}" + ("" if str(trips).endswith(".trips") else " trips")


def _outputs(op: Op, infos: Infos, read: frozenset[str]) -> tuple[Type, ...]:
    """Return the types of the outputs that are read; of the first one if none is."""
    names = [name for name in op.binds() if name in infos]
    used = [name for name in names if name in read] or names[:1]
    return tuple(infos[name].type for name in used)
