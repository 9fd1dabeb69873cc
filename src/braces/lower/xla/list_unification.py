"""Lists that meet, brought to one history, whose lists have one room.

Compiled, a list is a buffer, and what loops carry and branches give is of one size. Two lists
meet where one stands for the other: as a memory before and after a trip, as what the cases of a
branch give, as both operands of a sum. One that is put behind another, or taken off it, does
not meet that.

    a: list<f32[]> = list_empty() {…, history="first"}     a: … = list_empty() {…, "first"}
    b: list<f32[]> = list_empty() {…, history="second"}    b: … = list_empty() {…, "first"}
    c: list<f32[]> = switch(index=i) {cases=[a, b]}   ->   c: list<f32[]> = switch(…)

The rows of an array, as a list, have room for themselves alone. Where such a list meets another
one, or gets longer, `list_begin` gives it a history too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from operator import is_
from typing import TypeAlias

from braces.define.decorator import OPS
from braces.dims import Size
from braces.dtypes import ListType, TensorType
from braces.ir.records import Body, Op, VarInfo
from braces.ir.walk import all_bodies, map_bodies, rename_slots
from braces.ops.control.core.value_flow import links_of
from braces.ops.lists.nested import APART
from braces.ops.lists.random_access import BEGIN, GROWING

Node: TypeAlias = "tuple[str, str]"
"""The path of a block and the name of a list in it; or `HISTORY` and the name of a history."""
Chain: TypeAlias = "tuple[tuple[str, Body], ...]"
"""A block and those around it, from the inside out, each with its path."""
HISTORY = "@history"


def united(body: Body) -> Body:
    """A block in which all lists that meet have one history; itself where they do."""
    types = {op.type for inner, _ in all_bodies(body) for op in inner.ops}
    if not any(OPS.get(type_).lists for type_ in types):
        return body
    meetings = _Meetings()
    meetings.look("", body, ())
    return meetings.changed("", body)


class _Meetings:
    """The lists of a program in classes: those that meet, over whatever lies between them."""

    def __init__(self) -> None:
        self._parents: dict[Node, Node] = {}
        self._histories: list[str] = []
        self._grown: list[Node] = []
        self._rows: dict[Node, Size] = {}

    # ---- looking -----------------------------------------------------------------------------

    def look(self, path: str, body: Body, outer: Chain) -> None:
        """Take note of the lists of a block, and of those in it."""
        here = ((path, body), *outer)
        for op in body.ops:
            blocks = op.bodies()
            if blocks:
                self._follow(op, path, here)
            else:
                self._note(op, here)
            for label, inner in blocks.items():
                self.look(_inside(path, op, label), inner, here)

    def _follow(self, op: Op, path: str, here: Chain) -> None:
        """What goes into blocks, out of them, and around in them meets itself."""
        chains = {
            label: ((_inside(path, op, label), inner), *here)
            for label, inner in op.bodies().items()
        }
        for link in links_of(op):
            source, target = chains.get(link.origin, here), chains.get(link.block, here)
            if _is_list(source, link.source):
                self._meet([_node(source, link.source), _node(target, link.target)])

    def _note(self, op: Op, here: Chain) -> None:
        """All lists of an operator meet; it may begin a history, or give a longer list."""
        (taken, made), apart = _lists_of(op, here), _apart_of(op, here)
        lists = [*taken, *made]
        roles = OPS.get(op.type).roles
        if "Capacity" in roles:
            self._histories.append(str(op.attrs[roles["History"]]))
            (apart or lists).append((HISTORY, self._histories[-1]))
        elif op.type in GROWING:
            self._grown += lists
        elif made and not taken:
            self._rows.update(dict.fromkeys(made, _rows_of(here, next(op.reads()))))
        self._meet(lists)
        self._meet(apart)

    def _meet(self, nodes: Sequence[Node]) -> None:
        for node in nodes[1:]:
            first, other = self._root(nodes[0]), self._root(node)
            if first != other:
                self._parents[other] = first

    def _root(self, node: Node) -> Node:
        while node in self._parents:
            node = self._parents[node]
        return node

    # ---- changing ----------------------------------------------------------------------------

    @cached_property
    def _names(self) -> dict[Node, str]:
        """The history of each class that has one, the first of them, or that needs one."""
        needing = [*self._uneven(), *self._grown]
        found = {self._root(node): "/".join(node).lstrip("/") for node in needing}
        for name in reversed(self._histories):
            found[self._root((HISTORY, name))] = name
        return found

    def _uneven(self) -> Iterator[Node]:
        """Lists of rows that meet another one, of an array with another number of rows."""
        sizes = dict[Node, Size]()
        for node, size in self._rows.items():
            if sizes.setdefault(self._root(node), size) != size:
                yield node

    def changed(self, path: str, body: Body) -> Body:
        """The block with one history for each class."""
        infos, ops = dict(body.vars), list[Op]()
        for op in body.ops:
            ops += self._in_place_of(self._with_blocks(op, path), path, infos)
        same = len(ops) == len(body.ops) and all(map(is_, ops, body.ops))
        return body if same else body.with_(vars=infos, ops=tuple(ops))

    def _with_blocks(self, op: Op, path: str) -> Op:
        """An operator with its blocks changed."""
        before = op.bodies()
        labels = iter(before)
        made = map_bodies(op, lambda body: self.changed(_inside(path, op, next(labels)), body))
        same = all(map(is_, before.values(), made.bodies().values()))
        return op if same else made

    def _in_place_of(self, op: Op, path: str, infos: dict[str, VarInfo]) -> Iterator[Op]:
        """An operator with the history of its class; after it, what begins one."""
        role = OPS.get(op.type).roles.get("History")
        if role is not None:
            before = str(op.attrs[role])
            name = self._names.get(self._root((HISTORY, before)), before)
            yield op if name == before else op.with_(attrs={**op.attrs, role: name})
            return
        name = next(op.binds(), "")
        history = self._names.get(self._root((path, name)))
        if history is None or (path, name) not in self._rows:
            yield op
            return
        short = _new_name(f"{name}.rows", infos)
        infos[short] = infos[name].with_(name=short)
        yield op.with_(outputs=rename_slots(op.outputs, {name: short}))
        attrs = {"history": history, "capacity": None}
        yield Op(BEGIN, f"{op.name}.begin", {"list": (short,)}, {"out": (name,)}, attrs)


def _new_name(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _inside(path: str, op: Op, label: str) -> str:
    return f"{path}/{op.name}/{label}"


def _place(chain: Chain, name: str) -> tuple[str, VarInfo]:
    """The path of the block that declares a name, and what it declares."""
    return next((path, body.vars[name]) for path, body in chain if name in body.vars)


def _rows_of(chain: Chain, name: str) -> Size:
    """How many rows an array has."""
    type_ = _place(chain, name)[1].type
    assert isinstance(type_, TensorType), "what begins a list takes an array"
    return type_.shape[0]


def _node(chain: Chain, name: str) -> Node:
    return _place(chain, name)[0], name


def _lists_of(op: Op, here: Chain) -> tuple[list[Node], list[Node]]:
    """The lists that an operator reads and gives, without what is apart from the others."""
    apart = APART.get(op.type)
    taken, made = (
        [name for slot, names in slots.items() if slot != apart for name in names]
        for slots in (op.inputs, op.outputs)
    )
    return _nodes(here, taken), _nodes(here, made)


def _apart_of(op: Op, here: Chain) -> list[Node]:
    """The list that an operator puts behind another one, or takes off it."""
    slot = APART.get(op.type, "")
    return _nodes(here, (*op.inputs.get(slot, ()), *op.outputs.get(slot, ())))


def _nodes(here: Chain, names: Iterable[str]) -> list[Node]:
    return [_node(here, name) for name in names if _is_list(here, name)]


def _is_list(chain: Chain, name: str) -> bool:
    return isinstance(_place(chain, name)[1].type, ListType)
