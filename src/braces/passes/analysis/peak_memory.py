"""Peak memory of a run, estimated by liveness analysis of types and operator order.

The compiler decides in the end, and XLA fuses operators. The estimate assumes for a value:

    no buffer       result of a pointwise operator with a single consumer that is no matmul
    same buffer     result of a reshape; result of a pointwise operator, in the buffer of an
                    operand that dies there; initial and final values of memories (carries)
    new buffer      all other values, live from the operator that binds them to the last use

Data and persistable variables are always live. A next value reuses the buffer of the old value
if nothing reads that any more. A loop holds its stacked outputs and the lists that its gradient
reads for all iterations, and the peak of one iteration. A branch has the peak of its largest
case. Unknown sizes are symbols in the result, and count as 100 where two moments are compared.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from braces.define.decorator import OPS
from braces.define.definition import SHAPE
from braces.dims import Size, sum_of
from braces.dtypes import ListType, bytes_of
from braces.ir.records import Body, Op, ProgramDef, VarInfo
from braces.ir.views import LoopView, view_of
from braces.ir.walk import names_bound_by
from braces.passes.analysis.cost import representative_number, trip_count_of

Vars: TypeAlias = "ChainMap[str, VarInfo]"


@dataclass(frozen=True)
class _Moment:
    """Live bytes at one point of the program, and their approximate number."""

    parts: tuple[Size, ...] = ()
    number: int = 0

    @staticmethod
    def of(parts: Iterable[Size]) -> _Moment:
        nonzero_sizes = tuple(size for size in parts if size != 0)
        return _Moment(nonzero_sizes, sum(map(representative_number, nonzero_sizes)))

    def __add__(self, other: _Moment) -> _Moment:
        return _Moment(self.parts + other.parts, self.number + other.number)


def _largest(moments: Iterable[_Moment]) -> _Moment:
    return max(moments, key=lambda moment: moment.number, default=_Moment())


def peak_bytes(program: ProgramDef) -> Size:
    """Return the peak memory in bytes of a run of all operators of a program.

    Raises:
        ShapeError: If the memory depends on more sizes than the text of a size can represent.
    """
    main, infos = program.main, ChainMap({**program.main.vars})
    bound = names_bound_by(main.ops)
    ends = (*main.results, *program.updates.values())
    read_names = dict.fromkeys((*(name for op in main.ops for name in op.reads()), *ends))
    input_bytes = [bytes_of(infos[name].type) for name in read_names if name not in bound]
    block = _Block(main, infos, ends)
    for name, after in program.updates.items():
        if name in read_names:
            block.replace(name, after)
    return sum_of((_Moment.of(input_bytes) + block.peak()).parts)


class _Block:
    """Liveness of the values that a block binds.

    Attributes:
        body: The block.
        infos: The visible variables.
        growth: Bytes by which a list has grown, by its name after that.

    Args:
        body: The block.
        infos: The visible variables.
        ends: Values read after the block.
        cut: Parameters that are copied for it: slices.
    """

    def __init__(
        self, body: Body, infos: Vars, ends: Iterable[str], cut: Iterable[str] = ()
    ) -> None:
        self.body = body
        self.infos = infos
        self.growth: dict[str, Size] = {}
        self._ends = set(ends)
        self._cut = tuple(cut)
        self._root: dict[str, str] = {}
        self._readers = _readers(body)
        self._fused = {n for op in body.ops if self._is_fused(op) for n in op.binds()}
        self._last = self._lifetimes()
        self._placed: set[str] = set()

    def replace(self, state: str, after: str) -> None:
        """Let a next value reuse the buffer of the old value if that is dead by then."""
        positions = {name: at for at, op in enumerate(self.body.ops) for name in op.binds()}
        if (
            after in positions
            and self._last.get(self._root.get(state, state), -1) <= positions[after]
        ):
            self._placed.add(self._root.get(after, after))

    # ---- liveness ----------------------------------------------------------------------------

    def _is_fused(self, op: Op) -> bool:
        """Return whether an operator is fused into its only consumer."""
        definition, names = OPS.get(op.type), [*op.binds()]
        if not definition.cheap or not self._ends.isdisjoint(names):
            return False
        if not [*op.reads()]:
            return True
        readers = [reader for name in names for reader in self._readers.get(name, ())]
        within = all(
            not reader.bodies() and not OPS.get(reader.type).costly for reader in readers
        )
        return len(readers) == 1 and within

    def _lifetimes(self) -> dict[str, int]:
        """Return the position of the last operator for which each value is live."""
        ops = self.body.ops
        last = dict.fromkeys(self._ends, len(ops))
        when = dict[str, int]()
        for at in range(len(ops) - 1, -1, -1):
            op = ops[at]
            fused = (last.get(name, at) for name in op.binds() if name in self._fused)
            when[op.name] = max(fused, default=at)
            for name in op.reads():
                last[name] = max(last.get(name, -1), when[op.name])
        for op in ops:
            if OPS.get(op.type).changes_only == SHAPE:
                (name,), source = op.binds(), next(op.reads())
                root = self._root.get(source, source)
                self._root[name] = root
                last[root] = max(last.get(root, -1), last.get(name, -1))
        return last

    # ---- peak --------------------------------------------------------------------------------

    def peak(self) -> _Moment:
        """Return the peak of the block."""
        moments, live = list[_Moment](), {n: bytes_of(self.infos[n].type) for n in self._cut}
        for at, op in enumerate(self.body.ops):
            inside = self._inside(op)
            new_values = {name: self._size(name) for name in op.binds()}
            ending = [n for n in self._over(op) if n in live and self._last.get(n, -1) <= at]
            before = sum(representative_number(live[n]) for n in ending)
            over = (
                ending if before <= sum(map(representative_number, new_values.values())) else []
            )
            surviving = (size for name, size in live.items() if name not in over)
            moments.append(_Moment.of((*surviving, *new_values.values())) + inside)
            live |= new_values
            live = {n: size for n, size in live.items() if self._last.get(n, -1) > at}
        return _largest(moments)

    def _size(self, name: str) -> Size:
        """Return the bytes of a value that is bound here."""
        if name in self._root or name in self._fused or name in self._placed:
            return 0
        return self.growth.get(name, bytes_of(self.infos[name].type))

    def _over(self, op: Op) -> list[str]:
        """Return operands whose buffers an operator may reuse if they die there."""
        view = view_of(op)
        if isinstance(view, LoopView):
            names = [memory.init for memory in view.memories]
        else:
            names = [*op.reads()] if OPS.get(op.type).cheap else []
        return list(dict.fromkeys(self._root.get(name, name) for name in names))

    def _inside(self, op: Op) -> _Moment:
        """Return the peak of the blocks of an operator."""
        view = view_of(op)
        if isinstance(view, LoopView):
            return self._of_loop(view)
        bodies = op.bodies().values()
        return _largest(self._block(body, body.results).peak() for body in bodies)

    def _block(self, body: Body, ends: Iterable[str], cut: Iterable[str] = ()) -> _Block:
        return _Block(body, ChainMap({**body.vars}, *self.infos.maps), ends, cut)

    def _of_loop(self, view: LoopView) -> _Moment:
        body, trips = view.body, trip_count_of(view, self.infos)
        block = self._block(body, body.results, (scanned.param for scanned in view.slices))
        most = block.peak()
        for memory in view.memories:
            type_ = body.vars[memory.param].type
            if isinstance(type_, ListType) and not view.history:
                pushed = block.growth.get(memory.next, bytes_of(type_.element))
                self.growth[memory.final] = pushed * trips
        return most


def _readers(body: Body) -> dict[str, list[Op]]:
    readers: dict[str, list[Op]] = {}
    for op in body.ops:
        for name in set(op.reads()):
            readers.setdefault(name, []).append(op)
    return readers
