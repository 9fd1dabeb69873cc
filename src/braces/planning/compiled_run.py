"""Ahead-of-time compilation of a run on this process's devices, from shapes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from braces.define.axes.axis_map import shape_of
from braces.define.decorator import OPS
from braces.dtypes import TensorType, bytes_of
from braces.ir.records import Body, ProgramDef, VarInfo
from braces.ir.walk import all_bodies
from braces.layout import Layout
from braces.lazy import jax
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.xla.concrete_attributes import size_number
from braces.ops.common.half_precision import is_narrow
from braces.passes.registry import DEFAULT
from braces.planning.collectives import Collective, find_collectives
from braces.planning.device_values import DeviceValue
from braces.planning.report import PlanReport
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.devices.device import Devices
from braces.runtime.devices.device_placement import ShardedPlan
from braces.runtime.inputs.persistables import Run
from braces.runtime.plan.plan import Plan
from braces.runtime.profiling.compile_phases import PhaseRecorder
from braces.runtime.profiling.measure import analyze_memory
from braces.scope import Scope


def compile_and_report(
    definition: ProgramDef, layout: Layout, names: Iterable[str], sizes: Mapping[str, int]
) -> PlanReport:
    """Compile a run for the devices of a mesh and report its cost.

    The process must have enough devices. Compilation is that of a run, but from the types of
    values alone: no value is allocated.

    Args:
        definition: The program.
        layout: The layout of values on the mesh.
        names: The fetched names.
        sizes: Numbers for named dimensions.

    Raises:
        BracesError: If a run of the program would also be refused.
    """
    devices, maker = Devices.of(layout), PhaseRecorder()
    with maker.phase("passes"):
        plan = Plan.of(
            definition, names, DEFAULT, maker.run_pass, target=devices.target, sizes=sizes
        )
    compiled = CompiledPlan(plan, devices, (), ExecutableCache(1), CompileReporter())
    assert compiled.placed is not None, "there is a layout"
    feeds, state_values = (
        _abstract_values(compiled.placed, infos, sizes) for infos in (plan.feeds, plan.states)
    )
    compiled.compile(Run(Scope(), feeds, CancellationToken(), state_values, making=maker))
    return _report(
        plan, layout, sizes, maker, _device_values(compiled.placed, state_values, feeds)
    )


def _abstract_values(
    placed: ShardedPlan, infos: Mapping[str, VarInfo], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """Return abstract values with the shapes, dtypes and shardings of variables."""
    structs = dict[str, Any]()
    with jax.enable_x64(True):
        for name, info in infos.items():
            shape = tuple(size_number(size, sizes) for size in shape_of(info.type))
            sharding = placed.shardings[name]
            structs[name] = jax.ShapeDtypeStruct(shape, info.dtype, sharding=sharding)
    return structs


def _device_values(placed: ShardedPlan, *several: Mapping[str, Any]) -> tuple[DeviceValue, ...]:
    infos = placed.plan.definition.main.vars
    return tuple(
        DeviceValue(
            name=name,
            kind=infos[name].kind,
            type=infos[name].shown_type,
            sharding=_sharding_text(value),
            bytes=_bytes(value.dtype, value.shape),
            device_bytes=_bytes(value.dtype, value.sharding.shard_shape(value.shape)),
        )
        for values in several
        for name, value in values.items()
    )


def _bytes(dtype: Any, shape: tuple[int, ...]) -> int:
    count = bytes_of(TensorType(dtype, shape))
    assert isinstance(count, int), "sizes are numbers"
    return count


def _sharding_text(value: Any) -> str:
    axes: list[Any] = [*value.sharding.spec, *[None] * len(value.shape)][: len(value.shape)]
    parts = (a or "-" if a is None or isinstance(a, str) else "+".join(a) for a in axes)
    return ", ".join(parts) if any(axes) else "whole"


def _report(
    plan: Plan,
    layout: Layout,
    sizes: Mapping[str, int],
    maker: PhaseRecorder,
    values: tuple[DeviceValue, ...],
) -> PlanReport:
    (compiled,), (code,) = maker.compiled.values(), maker.codes
    mesh, text = layout.mesh.axes, code.as_text()
    costs: Mapping[str, float] = code.cost_analysis() or {}
    exchanges = find_collectives(text, compiled.code, compiled.numbering, mesh)
    return PlanReport(
        mesh=dict(mesh),
        sizes=dict(sizes),
        values=values,
        memory=analyze_memory(code),
        flops=costs.get("flops", 0.0),
        moved_bytes=costs.get("bytes accessed", 0.0),
        narrow=_is_narrow(plan.body),
        collectives=tuple(exchanges),
        phases={phase.name: phase.seconds for phase in maker.phases},
        notes=tuple(_notes(exchanges, " conditional(" in text)),
    )


def _is_narrow(body: Body) -> bool:
    """Return whether most expensive operators read 16-bit floats."""
    counts = Counter[bool]()
    for inner, _ in all_bodies(body):
        for op in inner.ops:
            infos = (inner.vars.get(name) or body.vars.get(name) for name in op.reads())
            types = [info.type for info in infos if info is not None]
            if OPS.get(op.type).costly and not op.bodies():
                dtypes = [t.dtype for t in types if isinstance(t, TensorType)]
                counts[bool(dtypes) and all(map(is_narrow, dtypes))] += 1
    return counts[True] > counts[False]


def _notes(collectives: Iterable[Collective], branches: bool) -> list[str]:
    kinds, trips = (
        {c.kind for c in collectives},
        {c.trips for c in collectives},
    )
    notes = [
        "Estimated from code compiled for virtual CPUs: values, collectives and their "
        "operators are exact for a run on CPUs; temporary memory, operations and times differ "
        "on other devices."
    ]
    if "all-reduce" in kinds and "reduce-scatter" not in kinds:
        notes.append(
            "CPUs use an all-reduce and keep a slice of the sum; other devices use a "
            "reduce-scatter, which sends half the bytes."
        )
    if None in trips:
        notes.append("A loop with a data-dependent trip count is counted as one iteration.")
    if branches:
        notes.append("All cases of a branch are counted.")
    return notes
