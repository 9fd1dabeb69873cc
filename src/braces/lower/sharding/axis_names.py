"""Propagation of axis names: from declarations to all derived values, in sub-blocks too."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from braces.define.axes.axis_map import shape_of
from braces.define.axis_names import output_axis_names
from braces.define.decorator import OPS
from braces.dtypes import AxisNames
from braces.ir.records import Body, Op, VarInfo
from braces.ir.walk import map_bodies
from braces.ops.control.core.value_flow import ValueEdge, value_edges

ScopeChain: TypeAlias = "ChainMap[str, VarInfo]"
"""The variables that a block sees, its own first."""


def propagate_axis_names(
    body: Body,
    outside: ScopeChain | None = None,
    own_axes: Mapping[str, AxisNames] | None = None,
) -> Body:
    """Return a block whose values have the axis names of their sources.

    Args:
        body: The block.
        outside: The variables that are visible around it.
        own_axes: The axis names of its parameters.
    """
    infos, param_axes = dict(body.vars), own_axes or {}
    visible = ChainMap(infos) if outside is None else ChainMap(infos, *outside.maps)
    for name, axes in param_axes.items():
        _record_axes(infos, name, axes)
    return body.with_(ops=tuple(_name_outputs(op, visible) for op in body.ops), vars=infos)


def _name_outputs(op: Op, visible: ScopeChain) -> Op:
    """Record the axis names of the outputs of an operator."""
    if op.bodies():
        return _name_in_blocks(op, visible)
    slots = {slot: [visible.get(n) for n in names] for slot, names in op.inputs.items()}
    named = {
        slot: [info.axes if info else () for info in infos] for slot, infos in slots.items()
    }
    if not any(any(each) for each in named.values()):
        return op
    types = {
        slot: tuple(visible[name].type for name in names)
        for side in (op.outputs, op.inputs)
        for slot, names in side.items()
    }
    output_axes = output_axis_names(OPS.get(op.type), types, op.attrs, named)
    for slot, each in output_axes.items():
        for name, axes in zip(op.outputs.get(slot, ()), each, strict=False):
            _record_axes(visible.maps[0], name, axes)
    return op


def _name_in_blocks(op: Op, visible: ScopeChain) -> Op:
    links, bodies = value_edges(op), op.bodies()
    new_bodies = {
        label: propagate_axis_names(
            body, visible, _propagate_links(links, label, {"": visible}, body.vars)
        )
        for label, body in bodies.items()
    }
    sources = {
        "": visible,
        **{n: ChainMap(dict(b.vars), *visible.maps) for n, b in new_bodies.items()},
    }
    for name, axes in _propagate_links(links, "", sources, visible).items():
        _record_axes(visible.maps[0], name, axes)
    remaining = iter(new_bodies.values())
    return map_bodies(op, lambda _: next(remaining))


def _propagate_links(
    links: Iterable[ValueEdge],
    block: str,
    sources: Mapping[str, Mapping[str, VarInfo]],
    targets: Mapping[str, VarInfo],
) -> dict[str, AxisNames]:
    """Return the axis names of the values that links pass into a block, or out of it."""
    axes_by_target: dict[str, AxisNames] = {}
    for link in links:
        source = sources.get(link.origin, {}).get(link.source)
        if link.block != block or source is None or not source.axes:
            continue
        rank = len(shape_of(targets[link.target].type))
        before = axes_by_target.get(link.target, (None,) * rank)
        names = dict(enumerate(before))
        names |= {
            axis + link.shift: name
            for axis, name in enumerate(source.axes)
            if axis >= link.first and name is not None
        }
        axes_by_target[link.target] = tuple(names[axis] for axis in range(rank))
    return axes_by_target


def _record_axes(infos: Mapping[str, VarInfo], name: str, axes: AxisNames) -> None:
    """Record the axis names of a value that has none."""
    assert isinstance(infos, dict)
    info = infos.get(name)
    if info is not None and not info.axes and any(axes):
        infos[name] = info.with_(axes=axes)
