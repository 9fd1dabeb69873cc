"""List unification: lists that meet get one history, whose lists have one capacity.

A compiled list is a buffer, and carries of loops and results of branches have one size. Two
lists meet if one can replace the other: as a memory before and after an iteration, as results
of the cases of a branch, as operands of a sum. A list that is appended to another one, or taken
off it, does not meet that list.

    a: list<f32[]> = list_empty() {…, history="first"}     a: … = list_empty() {…, "first"}
    b: list<f32[]> = list_empty() {…, history="second"}    b: … = list_empty() {…, "first"}
    c: list<f32[]> = switch(index=i) {cases=[a, b]}   ->   c: list<f32[]> = switch(…)

The rows of an array, as a list, have exactly their own number as capacity. If such a list meets
another one, or grows, `list_begin` gives it a history too.
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
from braces.ops.control.core.value_flow import value_edges
from braces.ops.lists.nested import OWN_CAPACITY_SLOT
from braces.ops.lists.random_access import BEGIN_OP, GROWING_OPS

Node: TypeAlias = "tuple[str, str]"
"""The path of a block and the name of a list in it; or `HISTORY` and the name of a history."""
Chain: TypeAlias = "tuple[tuple[str, Body], ...]"
"""A block and its outer blocks, innermost first, each with its path."""
HISTORY = "@history"


def unify_lists(body: Body) -> Body:
    """Return a block in which all lists that meet have one history; itself if they do."""
    types = {op.type for inner, _ in all_bodies(body) for op in inner.ops}
    if not any(OPS.get(type_).lists for type_ in types):
        return body
    meetings = _Meetings()
    meetings.look("", body, ())
    return meetings.changed("", body)


class _Meetings:
    """Union-find over the lists of a program: a class holds the lists that meet."""

    def __init__(self) -> None:
        self._parents: dict[Node, Node] = {}
        self._histories: list[str] = []
        self._grown: list[Node] = []
        self._rows: dict[Node, Size] = {}

    # ---- analysis ----------------------------------------------------------------------------

    def look(self, path: str, body: Body, outer: Chain) -> None:
        """Record the lists of a block and of its sub-blocks."""
        here = ((path, body), *outer)
        for op in body.ops:
            blocks = op.bodies()
            if blocks:
                self._follow(op, path, here)
            else:
                self._note(op, here)
            for label, inner in blocks.items():
                self.look(_inner_path(path, op, label), inner, here)

    def _follow(self, op: Op, path: str, here: Chain) -> None:
        """Unify each list with its copies inside blocks and after them."""
        chains = {
            label: ((_inner_path(path, op, label), inner), *here)
            for label, inner in op.bodies().items()
        }
        for link in value_edges(op):
            source, target = chains.get(link.origin, here), chains.get(link.block, here)
            if _is_list(source, link.source):
                self._meet([_make_node(source, link.source), _make_node(target, link.target)])

    def _note(self, op: Op, here: Chain) -> None:
        """Unify the lists of an operator; record histories that begin and lists that grow."""
        (inputs, outputs), separate = _find_lists(op, here), _find_separate(op, here)
        lists = [*inputs, *outputs]
        roles = OPS.get(op.type).roles
        if "Capacity" in roles:
            self._histories.append(str(op.attrs[roles["History"]]))
            (separate or lists).append((HISTORY, self._histories[-1]))
        elif op.type in GROWING_OPS:
            self._grown += lists
        elif outputs and not inputs:
            self._rows.update(dict.fromkeys(outputs, _count_rows(here, next(op.reads()))))
        self._meet(lists)
        self._meet(separate)

    def _meet(self, nodes: Sequence[Node]) -> None:
        for node in nodes[1:]:
            first, other = self._root(nodes[0]), self._root(node)
            if first != other:
                self._parents[other] = first

    def _root(self, node: Node) -> Node:
        while node in self._parents:
            node = self._parents[node]
        return node

    # ---- rewriting ---------------------------------------------------------------------------

    @cached_property
    def _names(self) -> dict[Node, str]:
        """The history of each class: its first one, or a new one if it needs one."""
        needing = [*self._uneven(), *self._grown]
        names = {self._root(node): "/".join(node).lstrip("/") for node in needing}
        for name in reversed(self._histories):
            names[self._root((HISTORY, name))] = name
        return names

    def _uneven(self) -> Iterator[Node]:
        """Yield lists of rows that meet one of an array with another number of rows."""
        sizes = dict[Node, Size]()
        for node, size in self._rows.items():
            if sizes.setdefault(self._root(node), size) != size:
                yield node

    def changed(self, path: str, body: Body) -> Body:
        """Return the block with one history for each class."""
        infos, ops = dict(body.vars), list[Op]()
        for op in body.ops:
            ops += self._in_place_of(self._with_blocks(op, path), path, infos)
        same = len(ops) == len(body.ops) and all(map(is_, ops, body.ops))
        return body if same else body.with_(vars=infos, ops=tuple(ops))

    def _with_blocks(self, op: Op, path: str) -> Op:
        """Return an operator with its blocks rewritten."""
        before = op.bodies()
        labels = iter(before)
        rewritten = map_bodies(
            op, lambda body: self.changed(_inner_path(path, op, next(labels)), body)
        )
        same = all(map(is_, before.values(), rewritten.bodies().values()))
        return op if same else rewritten

    def _in_place_of(self, op: Op, path: str, infos: dict[str, VarInfo]) -> Iterator[Op]:
        """Yield an operator with the history of its class; then `list_begin`, if needed."""
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
        yield Op(BEGIN_OP, f"{op.name}.begin", {"list": (short,)}, {"out": (name,)}, attrs)


def _new_name(name: str, taken: Iterable[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _inner_path(path: str, op: Op, label: str) -> str:
    return f"{path}/{op.name}/{label}"


def _find_declaration(chain: Chain, name: str) -> tuple[str, VarInfo]:
    """Return the path of the block that declares a name, and the declaration."""
    return next((path, body.vars[name]) for path, body in chain if name in body.vars)


def _count_rows(chain: Chain, name: str) -> Size:
    """Return the number of rows of an array."""
    type_ = _find_declaration(chain, name)[1].type
    assert isinstance(type_, TensorType), "the initial value of a list is an array"
    return type_.shape[0]


def _make_node(chain: Chain, name: str) -> Node:
    return _find_declaration(chain, name)[0], name


def _find_lists(op: Op, here: Chain) -> tuple[list[Node], list[Node]]:
    """Return the lists that an operator reads and returns, except the separate one."""
    separate_slot = OWN_CAPACITY_SLOT.get(op.type)
    read_names, bound_names = (
        [name for slot, names in slots.items() if slot != separate_slot for name in names]
        for slots in (op.inputs, op.outputs)
    )
    return _list_nodes(here, read_names), _list_nodes(here, bound_names)


def _find_separate(op: Op, here: Chain) -> list[Node]:
    """Return the list that an operator appends to another one, or takes off it."""
    slot = OWN_CAPACITY_SLOT.get(op.type, "")
    return _list_nodes(here, (*op.inputs.get(slot, ()), *op.outputs.get(slot, ())))


def _list_nodes(here: Chain, names: Iterable[str]) -> list[Node]:
    return [_make_node(here, name) for name in names if _is_list(here, name)]


def _is_list(chain: Chain, name: str) -> bool:
    return isinstance(_find_declaration(chain, name)[1].type, ListType)
