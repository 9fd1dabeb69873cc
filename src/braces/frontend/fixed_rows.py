"""Rows that are a fixed number: their axis gets a name, and is tracked instead of guessed.

Where a batch is a number, another axis may be as long. So a step block whose rows do not all
run is inferred once more, with a name in place of the number where the rows are: on the leading
axis of what the step gets row by row, which are its inputs, its memories, and captures that
come of the same batch. The name goes where operators take it, and from there on the block is
one whose batch has a name. What matches the rows with a number is refused.

Where the number stands in a shape that an operator is told, it is the number that it says, or
where that does not fit or mixes rows, the one place that can be the rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager

from braces.dims import Dim, Size, Unifier
from braces.dtypes import TensorType, Type
from braces.errors import BracesError, ProgramError
from braces.ir.records import Body, Op
from braces.ir.table import SymbolTable
from braces.ir.walk import ancestors, map_bodies, producers, resolve_body
from braces.ops.control.base import BlockOp, Interface
from braces.ops.control.rows import fills_of
from braces.ops.define import OPS
from braces.ops.inference import infer_op
from braces.ops.row_rules import RowView

ADVICE = (
    "Where rows do not all run, give the batch dimension a name: br.data('x', ['batch', 8])."
)


def name_rows(table: SymbolTable, leading: Iterable[str], number: Size, rows: Dim) -> None:
    """Infer a block once more with a name for its rows.

    Args:
        table: The block, whose types and operators change.
        leading: The parameters that lead with rows.
        number: How many rows there are.
        rows: Their name.

    Raises:
        ProgramError: An operator matches the rows with something else.
    """
    tracked = Tracked(table.unifier, number, rows)
    types = {n: table.type_of(n) for op in table.ops for n in op.reads()}
    types |= {n: info.type for n, info in table.vars.items()}
    for name in leading:
        types[name] = _led(types[name], number, rows)
    ops = tracked.block(table.ops, types)
    tracked.settle()
    infos = {n: info.with_(type=types[n]) for n, info in table.vars.items()}
    body = resolve_body(Body((), (), infos, ops), table.unifier.resolve)
    table.vars, table.ops = dict(body.vars), list(body.ops)
    table.touch()


def _led(type_: Type, number: Size, rows: Size) -> Type:
    if isinstance(type_, TensorType) and type_.shape[:1] == (number,):
        return type_.with_shape((rows, *type_.shape[1:]))
    return type_


class Tracked:
    """Inference that knows where rows are.

    Attributes:
        unifier: What is known of unnamed dimensions.
        number: How many rows there are.
        rows: Their name.
        open: Sizes equal to the number of which it is not known yet whether they are rows.
    """

    def __init__(self, unifier: Unifier, number: Size, rows: Dim) -> None:
        self.unifier = unifier
        self.number = number
        self.rows = rows
        self.open: list[Dim] = []

    def opened(self, sizes: Iterable[Size]) -> tuple[Size, ...]:
        """Sizes, with those that are the number left open."""
        return tuple(self._one_more() if size == self.number else size for size in sizes)

    def _one_more(self) -> Dim:
        self.open.append(self.unifier.fresh())
        return self.open[-1]

    def settle(self) -> None:
        """What nothing matched with rows is a number."""
        for dim in self.open:
            self.unifier.unify(dim, self.number)

    def block(self, ops: Iterable[Op], types: dict[str, Type]) -> tuple[Op, ...]:
        """Operators in their order; `types` has what they read, and gets what they bind.

        Raises:
            ProgramError: An operator matches the rows with something else.
        """
        found: list[Op] = []
        for op in ops:
            with self._told(op, types):
                asked = _asked(op, types)
            op = self._inside(op, asked, types)
            with self._told(op, types):
                found.append(self._spelled(op, types))
        return tuple(found)

    @contextmanager
    def _told(self, op: Op, types: Mapping[str, Type]) -> Generator[None]:
        """What an operator cannot take, as an error about the rows."""
        try:
            yield
        except BracesError as problem:
            resolve = self.unifier.resolve
            given = (f"{n}: {types[n].map_sizes(resolve)}" for n in op.reads())
            raise ProgramError(
                f"{op.type} mixes the rows of the batch, `{self.rows}`, with something else: "
                f"{problem.what}",
                at=op.describe(),
                given="   ".join(given),
                fix=f"That there are {self.number} of both does not make them one. {ADVICE}",
            ) from None

    def _inside(self, op: Op, asked: Mapping[str, Interface], types: Mapping[str, Type]) -> Op:
        """The operator with its sub-blocks inferred."""
        params = iter([asked[label].params for label in op.bodies()])

        def change(body: Body) -> Body:
            inner = {**types, **dict(zip(body.params, next(params), strict=True))}
            ops = self.block(body.ops, inner)
            infos = {n: info.with_(type=inner[n]) for n, info in body.vars.items()}
            return body.with_(ops=ops, vars=infos)

        return map_bodies(op, change)

    def _spelled(self, op: Op, types: dict[str, Type]) -> Op:
        """The operator as it takes its inputs; `types` gets what it binds."""
        known, problem = len(self.unifier.known), None
        candidates = list(self._spellings(op))
        for candidate in candidates:
            try:
                found = infer_op(candidate, types, self.unifier)
                if len(candidates) > 1:
                    self._check_apart(candidate, types | found)
            except BracesError as error:
                problem = problem or error
                for name in list(self.unifier.known)[known:]:
                    del self.unifier.known[name]
            else:
                types |= found
                return candidate
        assert problem is not None
        raise problem

    def _spellings(self, op: Op) -> Iterator[Op]:
        """The operator as it stands, then with the rows in one place of a shape it is told.

        Where there are no inputs each place is left open: what the result is used with tells.
        """
        definition = OPS.get(op.type)
        shapes = {
            spec.name: value
            for spec in definition.attrs
            if spec.kind.startswith("Shape") and isinstance(value := op.attrs[spec.name], tuple)
        }
        if not any(op.inputs.values()):
            known = definition.rows_rule is not None
            opened = {n: self.opened(_sizes(v)) for n, v in shapes.items()} if known else {}
            yield op.with_(attrs={**op.attrs, **opened})
            return
        yield op
        for name, value in shapes.items():
            for i, size in enumerate(value):
                if size == self.number:
                    told = (*value[:i], self.rows, *value[i + 1 :])
                    yield op.with_(attrs={**op.attrs, name: told})

    def _check_apart(self, op: Op, types: Mapping[str, Type]) -> None:
        """Whether an operator says what it does with the rows, if they are there.

        Raises:
            ProgramError: It mixes them.
        """
        names = (*op.reads(), *op.binds())
        found = {n: types[n].map_sizes(self.unifier.resolve) for n in names}
        view = RowView(op, found, self.rows, OPS.get(op.type).cotangents)
        if view.touches() and OPS.get(view.base).rows_rule is not None:
            fills_of(view)


def _asked(op: Op, types: Mapping[str, Type]) -> dict[str, Interface]:
    """What an operator asks of its sub-blocks."""
    definition = OPS.get(op.type)
    if not isinstance(definition, BlockOp):
        return {}
    given = {slot: tuple(types[n] for n in names) for slot, names in op.inputs.items()}
    return definition.interface(op, given)


def _sizes(value: Iterable[object]) -> list[Size]:
    return [size for size in value if isinstance(size, int | Dim)]


# ---- captures --------------------------------------------------------------------------------


def captured_rows(
    table: SymbolTable, captures: Iterable[str], sources: Mapping[str, int], rows: Tracked
) -> list[str]:
    """Which captures of a block lead with the rows, as what they are computed from tells.

    Args:
        table: The block around it.
        captures: The captures in question.
        sources: Variables around the block, each with its axis that is rows.
        rows: What to track; its unifier is used up.
    """
    asked = set(captures) - {name for name, axis in sources.items() if axis == 0}
    tables = list(table.chain())[::-1]
    needed = ancestors([op for one in tables for op in one.ops], {*asked, *sources})
    types: dict[str, Type] = {}
    for one in tables:
        _follow(one, needed, sources, rows, types)
    for name, axis in sources.items():
        rows.unifier.unify(_axis(types[name], axis), rows.rows)
    resolve = rows.unifier.resolve
    return [n for n in captures if n not in asked or resolve(_axis(types[n], 0)) == rows.rows]


def _follow(
    table: SymbolTable,
    needed: set[str],
    sources: Mapping[str, int],
    rows: Tracked,
    types: dict[str, Type],
) -> None:
    """The types in one block; what is not computed has sizes that are left open.

    Not so parameters, which belong to no batch.
    """
    made = producers(table.ops)
    declared = {n: table.type_of(n) for n in table.vars if n in needed}
    for name, type_ in declared.items():
        own = not table.vars[name].persistable or name in sources
        if own and name not in made and isinstance(type_, TensorType):
            type_ = type_.with_shape(rows.opened(type_.shape))
        types[name] = type_
    for op in table.ops:
        if not needed.isdisjoint(op.binds()):
            try:
                rows.block([op], types)
            except BracesError:
                types |= {n: declared[n] for n in op.binds() if n in declared}


def _axis(type_: Type, axis: int) -> Size:
    return type_.shape[axis] if isinstance(type_, TensorType) else 0
