"""Symbolic lengths of lists, so that equal lengths become one size.

    ys, zs = loop(init=[list_empty(), list_empty()])     both as long as the trip count
    list_stack(ys), list_stack(zs)                       f32[values], f32[values]

A length is a sum of numbers, sizes, and run-time numbers, each with a separate name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from braces.extend import dims
from braces.extend.building import SymbolTable, Var, current_program
from braces.extend.constructs import BlockView, LoopView, SwitchView, view_of
from braces.extend.programs import Body, Op, VarInfo, producers
from braces.extend.types import Dim, ListType, Size, TensorType, new_dim

CHANGES = {
    "list_add": 0, "list_add_at": 0, "list_erase": -1, "list_insert": 1, "list_pop": -1,
    "list_push": 1, "list_set": 0, "list_zeros": 0,
}  # fmt: skip
"""The change in length by each list operator."""


@dataclass
class ListLengths:
    """The lengths of lists of one program.

    Attributes:
        atoms: The symbol of each run-time number.
        named: The dimensions of lengths that are not sizes of the program.
    """

    atoms: dict[object, Dim] = field(default_factory=dict[object, Dim])
    named: dict[Size, Dim] = field(default_factory=dict[Size, Dim])

    def size(self, xs: Var) -> Size:
        """Return the length of a list as a size: one of the program, or a new one."""
        total = self._length(_Scope.around(xs.table), xs.name)
        own = {str(atom) for atom in self.atoms.values()}
        if isinstance(total, int) or not total.names() & own:
            return total
        if total not in self.named:
            self.named[total] = new_dim(current_program().current, "values")
        return self.named[total]

    def _atom(self, *key: object) -> Dim:
        """Return the symbol of a run-time number, by its origin."""
        return self.atoms.setdefault(key, Dim.named(f"told_{len(self.atoms)}_"))

    def _length(self, scope: _Scope, name: str) -> Size:
        home, op = scope.maker(name)
        if name in home.given:
            return home.given[name]
        if op is None:
            return self._atom("list", home.key, name)
        if op.type in CHANGES:
            (before,) = op.inputs["list" if "list" in op.inputs else "x"]
            return dims.sum_of((self._length(home, before), CHANGES[op.type]))
        if op.type == "identity":
            return self._length(home, next(op.reads()))
        if op.type == "list_empty":
            return 0
        if op.type == "list_unstack" and len(reads := [*op.reads()]) == 1:  # as long as that
            return _first_axis(home, reads[0])
        return self._of_construct(home, op, name)

    def _of_construct(self, home: _Scope, op: Op, name: str) -> Size:
        match view_of(op):
            case LoopView() as view:
                total = self._of_loop(home, view, name)
            case SwitchView() as view:
                total = self._of_switch(home, view, name)
            case BlockView() as view:
                inner = _Scope.of(view.body, home, view.origin.name, {})
                ((_, result),) = view.sources(name)
                total = self._length(inner, result)
            case _:
                total = None
        return self._atom("list", home.key, name) if total is None else total

    def _of_loop(self, home: _Scope, view: LoopView, name: str) -> Size | None:
        """Return the initial length plus the trip count times the growth per iteration."""
        memory = next(carry for carry in view.memories if carry.final == name)
        start = self._atom("memory", home.key, name)
        inner = _Scope.of(view.body, home, view.trips, {memory.param: start})
        more = dims.sum_of((self._length(inner, memory.next), dims.product((start, -1))))
        if not isinstance(more, int):
            return None
        before = self._length(home, memory.init)
        trips = view.length if view.length is not None else self._trips(home, view)
        return dims.sum_of((before, dims.product((trips, more))))

    def _trips(self, home: _Scope, view: LoopView) -> Size:
        if view.slices:
            return _first_axis(home, view.slices[0].source)
        return self._atom("trips", home.key, view.count or view.trips)

    def _of_switch(self, home: _Scope, view: SwitchView, name: str) -> Size | None:
        """Return the common length of the cases, or one symbol for these lengths."""
        results = next(out.results for out in view.outputs if out.name == name)
        lengths = tuple(
            self._length(_Scope.of(body, home, (view.index, at), {}), result)
            for at, (body, result) in enumerate(zip(view.cases, results, strict=True))
        )
        same = all(other == lengths[0] for other in lengths[1:])
        return lengths[0] if same else self._atom("switch", home.key, view.index, lengths)


@dataclass(frozen=True)
class _Scope:
    """A block and the enclosing ones.

    Attributes:
        key: The identity of the block.
        ops: The operators that bind its variables.
        infos: Its variables.
        outer: The enclosing block.
        given: The lengths of lists that are parameters of the block.
    """

    key: object
    ops: Mapping[str, Op]
    infos: Mapping[str, VarInfo]
    outer: _Scope | None = None
    given: Mapping[str, Size] = field(default_factory=dict[str, Size])

    @staticmethod
    def around(table: SymbolTable) -> _Scope:
        """Return the scope of a block that is being built."""
        outer = None if table.parent is None else _Scope.around(table.parent)
        return _Scope(id(table), producers(table.ops), table.vars, outer)

    @staticmethod
    def of(body: Body, outer: _Scope, key: object, sizes: Mapping[str, Size]) -> _Scope:
        """Return the scope of the block of an operator."""
        return _Scope((outer.key, key), producers(body.ops), body.vars, outer, sizes)

    def maker(self, name: str) -> tuple[_Scope, Op | None]:
        """Return the block that declares a variable, and the operator that binds it."""
        scope = self
        while name not in scope.infos and scope.outer is not None:
            scope = scope.outer
        return scope, scope.ops.get(name)


def _first_axis(scope: _Scope, name: str) -> Size:
    home, _ = scope.maker(name)
    type_ = home.infos[name].type
    assert isinstance(type_, TensorType | ListType)
    return type_.shape[0] if isinstance(type_, TensorType) else type_.element.shape[0]
