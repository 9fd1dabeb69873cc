"""How many bytes are alive at once in a run, estimated from types and the order of operators.

Compiled code has the last word, and XLA computes many operators as one. So this takes as

    not there     what works element by element, for one reader that is no product
    the same      what differs in shape alone; what an operator that works element by element
                  reads last and gives; the first values of memories and their last ones
    new           all else, from the operator that binds it to the last one that reads it

Data and persistable variables are there all the time, and a next value takes the place of the
one before where nothing reads that any more. A loop has its rows, and the histories that its
gradient reads, for all trips and whatever one trip takes at most; of several cases that one
counts which takes most. Sizes that are not known are symbols in what is told, and as if they
were 100 where two moments are compared.
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
from braces.passes.analysis.cost import number_of, trips_of

Vars: TypeAlias = "ChainMap[str, VarInfo]"


@dataclass(frozen=True)
class _Moment:
    """What is alive at a moment: its bytes, and about how many these are."""

    parts: tuple[Size, ...] = ()
    number: int = 0

    @staticmethod
    def of(parts: Iterable[Size]) -> _Moment:
        kept = tuple(size for size in parts if size != 0)
        return _Moment(kept, sum(map(number_of, kept)))

    def __add__(self, other: _Moment) -> _Moment:
        return _Moment(self.parts + other.parts, self.number + other.number)


def _most(moments: Iterable[_Moment]) -> _Moment:
    return max(moments, key=lambda one: one.number, default=_Moment())


def peak_bytes(program: ProgramDef) -> Size:
    """How many bytes are alive at once, at most, in a run of all operators of a program.

    Raises:
        ShapeError: It depends on so many sizes that no text holds it.
    """
    main, infos = program.main, ChainMap({**program.main.vars})
    bound = {name for op in main.ops for name in op.binds()}
    ends = (*main.results, *program.updates.values())
    read = dict.fromkeys((*(name for op in main.ops for name in op.reads()), *ends))
    given = [bytes_of(infos[name].type) for name in read if name not in bound]
    block = _Block(main, infos, ends)
    for name, after in program.updates.items():
        if name in read:
            block.replace(name, after)
    return sum_of((_Moment.of(given) + block.peak()).parts)


class _Block:
    """The values that a block binds, and how long each of them is there.

    Attributes:
        body: The block.
        infos: The variables that it sees.
        growth: How much a history has grown, by the name that it has after that.

    Args:
        body: The block.
        infos: The variables that it sees.
        ends: What is read after it.
        cut: Parameters that are copied for it.
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
        """Let a next value take the place of the one before, where that is read no more."""
        made = {name: at for at, op in enumerate(self.body.ops) for name in op.binds()}
        if after in made and self._last.get(self._root.get(state, state), -1) <= made[after]:
            self._placed.add(self._root.get(after, after))

    # ---- how long values are there -----------------------------------------------------------

    def _is_fused(self, op: Op) -> bool:
        """Whether an operator is computed within the only one that reads what it gives."""
        definition, names = OPS.get(op.type), [*op.binds()]
        if not definition.cheap or not self._ends.isdisjoint(names):
            return False
        if not [*op.reads()]:
            return True
        readers = [one for name in names for one in self._readers.get(name, ())]
        within = all(not one.bodies() and not OPS.get(one.type).costly for one in readers)
        return len(readers) == 1 and within

    def _lifetimes(self) -> dict[str, int]:
        """The last operator that each value is there for, by its number."""
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

    # ---- what is there -----------------------------------------------------------------------

    def peak(self) -> _Moment:
        """What there is of it at most."""
        found, there = list[_Moment](), {n: bytes_of(self.infos[n].type) for n in self._cut}
        for at, op in enumerate(self.body.ops):
            inside = self._inside(op)
            made = {name: self._size(name) for name in op.binds()}
            ending = [n for n in self._over(op) if n in there and self._last.get(n, -1) <= at]
            before = sum(number_of(there[n]) for n in ending)
            over = ending if before <= sum(map(number_of, made.values())) else []
            kept = (size for name, size in there.items() if name not in over)
            found.append(_Moment.of((*kept, *made.values())) + inside)
            there |= made
            there = {n: size for n, size in there.items() if self._last.get(n, -1) > at}
        return _most(found)

    def _size(self, name: str) -> Size:
        """What a value takes that is bound here."""
        if name in self._root or name in self._fused or name in self._placed:
            return 0
        return self.growth.get(name, bytes_of(self.infos[name].type))

    def _over(self, op: Op) -> list[str]:
        """What an operator may write its results over, where nothing reads it any more."""
        view = view_of(op)
        if isinstance(view, LoopView):
            names = [memory.init for memory in view.memories]
        else:
            names = [*op.reads()] if OPS.get(op.type).cheap else []
        return list(dict.fromkeys(self._root.get(name, name) for name in names))

    def _inside(self, op: Op) -> _Moment:
        """What there is at most in the blocks of an operator."""
        view = view_of(op)
        if isinstance(view, LoopView):
            return self._of_loop(view)
        bodies = op.bodies().values()
        return _most(self._block(body, body.results).peak() for body in bodies)

    def _block(self, body: Body, ends: Iterable[str], cut: Iterable[str] = ()) -> _Block:
        return _Block(body, ChainMap({**body.vars}, *self.infos.maps), ends, cut)

    def _of_loop(self, view: LoopView) -> _Moment:
        body, trips = view.body, trips_of(view, self.infos)
        block = self._block(body, body.results, (one.param for one in view.slices))
        most = block.peak()
        for memory in view.memories:
            type_ = body.vars[memory.param].type
            if isinstance(type_, ListType) and not view.history:
                pushed = block.growth.get(memory.next, bytes_of(type_.element))
                self.growth[memory.final] = pushed * trips
        return most


def _readers(body: Body) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in body.ops:
        for name in set(op.reads()):
            found.setdefault(name, []).append(op)
    return found
