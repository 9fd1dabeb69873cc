"""Names of axes, followed from what declares them to all that is made of it, in blocks too."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from braces.define.axes.axis_map import shape_of
from braces.define.axis_names import names_of_outputs
from braces.define.decorator import OPS
from braces.dtypes import AxisNames
from braces.ir.records import Body, Op, VarInfo
from braces.ir.walk import map_bodies
from braces.ops.control.core.value_flow import Link, links_of

Visible: TypeAlias = "ChainMap[str, VarInfo]"
"""The variables that a block sees, its own first."""


def with_axis_names(
    body: Body, outside: Visible | None = None, given: Mapping[str, AxisNames] | None = None
) -> Body:
    """A block whose values have the names of axes that they come from.

    Args:
        body: The block.
        outside: What is visible around it.
        given: The names of the axes of its parameters.
    """
    infos, begun = dict(body.vars), given or {}
    visible = ChainMap(infos) if outside is None else ChainMap(infos, *outside.maps)
    for name, axes in begun.items():
        _name(infos, name, axes)
    return body.with_(ops=tuple(_named(op, visible) for op in body.ops), vars=infos)


def _named(op: Op, visible: Visible) -> Op:
    """An operator, of whose outputs the names are noted."""
    if op.bodies():
        return _with_blocks(op, visible)
    slots = {slot: [visible.get(n) for n in names] for slot, names in op.inputs.items()}
    named = {
        slot: [info.axes if info else () for info in infos] for slot, infos in slots.items()
    }
    if not any(any(each) for each in named.values()):
        return op
    types = {
        slot: tuple(visible[name].type for name in names)
        for given in (op.outputs, op.inputs)
        for slot, names in given.items()
    }
    found = names_of_outputs(OPS.get(op.type), types, op.attrs, named)
    for slot, each in found.items():
        for name, axes in zip(op.outputs.get(slot, ()), each, strict=False):
            _name(visible.maps[0], name, axes)
    return op


def _with_blocks(op: Op, visible: Visible) -> Op:
    links, bodies = links_of(op), op.bodies()
    made = {
        label: with_axis_names(body, visible, _handed(links, label, {"": visible}, body.vars))
        for label, body in bodies.items()
    }
    sources = {
        "": visible,
        **{n: ChainMap(dict(b.vars), *visible.maps) for n, b in made.items()},
    }
    for name, axes in _handed(links, "", sources, visible).items():
        _name(visible.maps[0], name, axes)
    rest = iter(made.values())
    return map_bodies(op, lambda _: next(rest))


def _handed(
    links: Iterable[Link],
    block: str,
    sources: Mapping[str, Mapping[str, VarInfo]],
    targets: Mapping[str, VarInfo],
) -> dict[str, AxisNames]:
    """The names of axes of what links hand to a block, or out of it."""
    found: dict[str, AxisNames] = {}
    for link in links:
        source = sources.get(link.origin, {}).get(link.source)
        if link.block != block or source is None or not source.axes:
            continue
        rank = len(shape_of(targets[link.target].type))
        before = found.get(link.target, (None,) * rank)
        names = dict(enumerate(before))
        names |= {
            axis + link.shift: name
            for axis, name in enumerate(source.axes)
            if axis >= link.first and name is not None
        }
        found[link.target] = tuple(names[axis] for axis in range(rank))
    return found


def _name(infos: Mapping[str, VarInfo], name: str, axes: AxisNames) -> None:
    """Note the names of the axes of a value, where it has none of its own."""
    assert isinstance(infos, dict)
    info = infos.get(name)
    if info is not None and not info.axes and any(axes):
        infos[name] = info.with_(axes=axes)
