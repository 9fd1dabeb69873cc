"""Walks over nested blocks; no other module recurses through blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from braces.dims import Dim, Size
from braces.ir.records import CAPTURES, Attr, Body, Op, Slots, VarInfo


def all_bodies(body: Body) -> Iterator[tuple[Body, Body | None]]:
    """Yield every block with its parent, outermost first, in program order."""
    pending: list[tuple[Body, Body | None]] = [(body, None)]
    while pending:
        current, parent = pending.pop()
        yield current, parent
        inner = [(sub, current) for op in current.ops for sub in op.bodies().values()]
        pending.extend(reversed(inner))


def all_ops(body: Body) -> Iterator[tuple[str, Op]]:
    """Yield every operator with the path of its block, as `loop_0/body`, in program order."""
    yield from _ops_below("", body)


def _ops_below(path: str, body: Body) -> Iterator[tuple[str, Op]]:
    for op in body.ops:
        yield path, op
        for label, sub_block in op.bodies().items():
            yield from _ops_below(f"{path}/{op.name}/{label}".lstrip("/"), sub_block)


def free_names(body: Body) -> tuple[str, ...]:
    """Return the free names of a block, in the order of first use."""
    return free_names_of(body.ops, body.results, body.vars)


def free_names_of(
    ops: Iterable[Op], results: Iterable[str], bound: Iterable[str]
) -> tuple[str, ...]:
    """Return the names that operators and results read beyond `bound`, by first use."""
    inside = set(bound)
    free: dict[str, None] = {}
    for op in ops:
        free.update(dict.fromkeys(name for name in op.reads() if name not in inside))
    free.update(dict.fromkeys(name for name in results if name not in inside))
    return tuple(free)


def captures_of(attrs: Mapping[str, Attr]) -> tuple[str, ...]:
    """Return the free names of all sub-blocks among these attributes."""
    op = Op("", "", {}, {}, attrs)
    return tuple(dict.fromkeys(n for body in op.bodies().values() for n in free_names(body)))


def with_captures(op: Op) -> Op:
    """Return the operator with its `captures` slot recomputed."""
    others = {slot: names for slot, names in op.inputs.items() if slot != CAPTURES}
    captured = captures_of(op.attrs)
    return op.with_(inputs=others | ({CAPTURES: captured} if captured else {}))


def map_bodies(op: Op, change: Callable[[Body], Body]) -> Op:
    """Return the operator with each of its sub-blocks replaced."""
    if not op.bodies():
        return op
    return op.with_(attrs={name: _map_attr(value, change) for name, value in op.attrs.items()})


def _map_attr(value: Attr, change: Callable[[Body], Body]) -> Attr:
    if isinstance(value, Body):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_map_attr(item, change) for item in value)
    return value


def names_bound_by(ops: Iterable[Op]) -> set[str]:
    """Return all names that some operators bind."""
    return {name for op in ops for name in op.binds()}


def producers(ops: Iterable[Op]) -> dict[str, Op]:
    """Return the operator that binds each name."""
    return {name: op for op in ops for name in op.binds()}


def ancestors(ops: Iterable[Op], names: Iterable[str]) -> set[str]:
    """Return all names that these names depend on, themselves included."""
    needed = set(names)
    for op in reversed(list(ops)):
        if not needed.isdisjoint(op.binds()):
            needed.update(op.reads())
    return needed


def descendants(ops: Iterable[Op], names: Iterable[str]) -> set[str]:
    """Return all names that depend on these names, themselves included."""
    reached = set(names)
    for op in ops:
        if not reached.isdisjoint(op.reads()):
            reached.update(op.binds())
    return reached


def rename_slots(slots: Slots, names: Mapping[str, str]) -> Slots:
    """Return slots with names replaced."""
    return {
        slot: tuple(names.get(n, n) for n in slot_names) for slot, slot_names in slots.items()
    }


def rename_body(body: Body, names: Mapping[str, str]) -> Body:
    """Return a block with names replaced, in sub-blocks too, unless these rebind the name."""
    inner = {old: new for old, new in names.items()}
    return body.with_(
        params=tuple(inner.get(n, n) for n in body.params),
        results=tuple(inner.get(n, n) for n in body.results),
        vars={inner.get(n, n): _renamed_var(v, inner) for n, v in body.vars.items()},
        ops=tuple(rename_op(op, inner) for op in body.ops),
    )


def _renamed_var(info: VarInfo, names: Mapping[str, str]) -> VarInfo:
    return info.with_(name=names.get(info.name, info.name))


def rename_op(op: Op, names: Mapping[str, str]) -> Op:
    """Return an operator with names replaced, in its sub-blocks too."""

    def inside(body: Body) -> Body:
        outer = {old: new for old, new in names.items() if old not in body.vars}
        return rename_body(body, outer)

    renamed = map_bodies(op, inside).with_(
        inputs=rename_slots(op.inputs, names), outputs=rename_slots(op.outputs, names)
    )
    if not renamed.captures():
        return renamed
    once = tuple(dict.fromkeys(renamed.captures()))  # two names may have been merged
    return renamed.with_(inputs={**renamed.inputs, CAPTURES: once})


def names_bound(body: Body) -> tuple[str, ...]:
    """Return the names of all variables and operators of a block and its sub-blocks."""
    var_names = {name: None for inner, _ in all_bodies(body) for name in inner.vars}
    return tuple(var_names | {op.name: None for _, op in all_ops(body)})


def rebound_names(body: Body) -> set[str]:
    """Return the names that several of these blocks bind."""
    bound = Counter(name for inner, _ in all_bodies(body) for name in inner.vars)
    return {name for name, times in bound.items() if times > 1}


def dimensions(value: Attr) -> set[str]:
    """Return the names of the dimensions in an attribute, or in a shape."""
    if isinstance(value, Dim):
        return value.names()
    return set[str]().union(*map(dimensions, value)) if isinstance(value, tuple) else set()


def relabel_body(body: Body, names: Mapping[str, str]) -> Body:
    """Return a block in which each name is replaced everywhere, those of operators too."""

    def all_of(old_names: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in old_names)

    def relabelled_op(op: Op) -> Op:
        op = op.with_(
            name=names.get(op.name, op.name),
            inputs=rename_slots(op.inputs, names),
            outputs=rename_slots(op.outputs, names),
        )
        op = map_bodies(op, lambda inner: relabel_body(inner, names))
        return with_captures(op) if op.bodies() else op

    infos = (_renamed_var(info, names) for info in body.vars.values())
    return body.with_(
        params=all_of(body.params),
        results=all_of(body.results),
        vars={info.name: info for info in infos},
        ops=tuple(map(relabelled_op, body.ops)),
    )


def resolve_body(body: Body, resolve: Callable[[Size], Size]) -> Body:
    """Return a block, sub-blocks included, with each size replaced by its resolved size."""
    return body.with_(
        vars=resolve_vars(body.vars, resolve),
        ops=tuple(_resolve_op(op, resolve) for op in body.ops),
    )


def resolve_vars(
    infos: Mapping[str, VarInfo], resolve: Callable[[Size], Size]
) -> dict[str, VarInfo]:
    """Return declarations with each size replaced by its resolved size."""

    def resolved(info: VarInfo) -> VarInfo:
        type_ = info.type.map_sizes(resolve)
        return VarInfo(info.name, type_, info.kind, info.trainable, info.axes, info.unknown)

    return {name: resolved(info) for name, info in infos.items()}


def _resolve_op(op: Op, resolve: Callable[[Size], Size]) -> Op:
    attrs = {name: _resolve_attr(value, resolve) for name, value in op.attrs.items()}
    return op.with_(attrs=attrs)


def _resolve_attr(value: Attr, resolve: Callable[[Size], Size]) -> Attr:
    if isinstance(value, Body):
        return resolve_body(value, resolve)
    if isinstance(value, Dim):
        return resolve(value)
    if isinstance(value, tuple):
        return tuple(_resolve_attr(item, resolve) for item in value)
    return value
