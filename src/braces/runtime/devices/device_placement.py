"""Sharding of a run by a layout: values of the scope are moved to their devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from braces.define.axes.axis_map import shape_of
from braces.dtypes import TensorType, is_float
from braces.errors import ClusterError, DeviceError, LayoutError
from braces.ir.fingerprint import fingerprint
from braces.ir.records import DATA, Body, VarInfo
from braces.ir.walk import dimensions
from braces.layout import Layout, StoredVariable
from braces.lazy import jax
from braces.lower.checks.value_checks import ValueChecks
from braces.lower.sharding.sharding import Placement, stored_variables
from braces.runtime.devices.process_agreement import agree, shorten_value
from braces.runtime.inputs.feeds import describe_array
from braces.runtime.inputs.persistables import Run
from braces.runtime.plan.plan import Plan
from braces.scope import Scope


@dataclass(frozen=True)
class ShardedPlan:
    """A plan with a layout.

    Attributes:
        placement: The sharding of values.
        plan: The plan.
        shardings: The sharding of each variable of the scope, and of each feed.
    """

    placement: Placement
    plan: Plan
    shardings: Mapping[str, Any]

    @staticmethod
    def of(placement: Placement | None, plan: Plan) -> ShardedPlan | None:
        """Return the plan with a layout, if there is one.

        Raises:
            LayoutError: If the layout does not match the program.
        """
        if placement is None:
            return None
        return ShardedPlan(placement, plan, placement.of_body(plan.definition.main))

    def compare(self, feeds: Mapping[str, Any], checks: ValueChecks) -> None:
        """Check that all processes run the same program; otherwise they would deadlock.

        Raises:
            ClusterError: If the processes run different programs, or a process did not arrive.
        """
        if jax.process_count() == 1:
            return
        types = ", ".join(f"{name}: {describe_array(value)}" for name, value in feeds.items())
        fetches = ", ".join(self.plan.wanted) or "nothing"
        said = f"{fingerprint(self.plan.definition)[:16]} for {fetches} of {types or 'nothing'}"
        agree(
            "program",
            shorten_value(f"{said}, checked for {' and '.join(checks)}" if checks else said),
            fix="Build the same program in every process, with feeds of the same shapes.",
        )

    def take(self, run: Run) -> None:
        """Move the values that a run has read to their devices, in the scope too.

        Raises:
            ShapeError: If a value is not divisible into equal shards.
        """
        for at, name in enumerate(self.plan.states):
            value = run.states[at]
            if value is None or getattr(value, "sharding", None) == self.shardings[name]:
                continue
            placed = run.states[at] = self.placement.stored(name, value, self.shardings[name])
            if name not in run.given:
                replace_array(run.scope, name, value, placed)

    def committed(self, names: Iterable[str], values: Iterable[Any]) -> list[Any]:
        """Return next values with their shardings."""
        pairs = zip(names, values, strict=True)
        return [self.placement.stored(n, v, self.shardings[n]) for n, v in pairs]

    def options(self, told: bool) -> dict[str, Any]:
        """Return the shardings of inputs and outputs; `told` if there is a status."""
        plan, whole = self.plan, self.placement.replicated
        placements = [self.shardings[name] for name in (*plan.states, *plan.feeds)]
        after = [self.shardings[name] for name in plan.updates]
        return {
            "in_shardings": tuple(placements),
            "out_shardings": (*[whole] * len(plan.fetches), *after, *[whole] * told),
        }


def read_sharded_variables(
    layout: Layout,
    types: Mapping[str, TensorType],
    read: Callable[[str, tuple[slice, ...]], Any],
    scope: Scope,
) -> dict[str, Any]:
    """Return variables of a scope with the shardings of a layout, read by shards.

    Args:
        layout: The layout.
        types: The types of the variables to read.
        read: Returns a shard of a variable; called once for each shard of this process.
        scope: The scope of the variables.

    Raises:
        LayoutError: If the layout does not match the variables.
    """
    layout.check_used(None, types)
    placement = Placement(layout)
    shardings = placement.of_stored(
        {
            name: StoredVariable(type_.shape, is_float(type_.dtype))
            for name, type_ in types.items()
        }
    )
    shardings |= {
        name: there
        for name in types
        if (there := _current_sharding(scope, name, types, placement))
    }
    with jax.enable_x64(True):
        return {
            name: _read_sharded(types[name], shardings[name], partial(read, name))
            for name in types
        }


def _current_sharding(
    scope: Scope, name: str, types: Mapping[str, TensorType], placement: Placement
) -> Any:
    """Return the sharding of a scope variable, if it has this shape and mesh."""
    variable = scope.find_var(name)
    value = None if variable is None else variable.raw
    if not isinstance(value, jax.Array) or value.shape != types[name].shape:
        return None
    sharding: Any = value.sharding
    return sharding if getattr(sharding, "mesh", None) == placement.mesh else None


def _read_sharded(type_: TensorType, sharding: Any, read: Callable[[Any], Any]) -> Any:
    shape: Any = type_.shape
    cache: dict[str, Any] = {}

    def part(region: Any) -> Any:
        if str(region) not in cache:
            cache[str(region)] = read(region)
        return cache[str(region)]

    return jax.make_array_from_callback(shape, sharding, part)


def replace_array(scope: Scope, name: str, before: Any, after: Any) -> None:
    """Replace the array of a variable by a moved copy, unless another run updated it."""
    with scope.turn:
        variable = scope.find_var(name)
        if variable is not None and variable.raw is before:
            variable.put(after)


def lost_process_error(error: Exception) -> ClusterError:
    """Return the error of a run of several processes that did not end in all of them."""
    return ClusterError(
        "a run of several processes failed: another process may have ended.",
        given=str(error).partition("\n")[0],
        fix="Check the other processes, and restart all from the last checkpoint: variables "
        "that this run updates are lost.",
    )


def check_layout(layout: Layout, body: Body, scope: Scope) -> None:
    """Refuse a layout with unused rules.

    Args:
        layout: The layout.
        body: The main block of a program.
        scope: The scope of the program.

    Raises:
        LayoutError: If no size of the program, or no variable of the program or the scope, has
            the name of a rule.
    """
    stored = stored_variables(body)
    sizes = {name for info in body.vars.values() for name in dimensions(shape_of(info.type))}
    sizes |= {name for info in body.vars.values() for name in info.axes if name is not None}
    fed = any(_is_named(info) for info in body.vars.values())
    there = {*stored, *(name for ancestor in _chain(scope) for name in ancestor.names())}
    layout.check_used(sizes if fed else None, there)


def _is_named(info: VarInfo) -> bool:
    return info.kind == DATA and bool(dimensions(shape_of(info.type)))


def _chain(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def refuse_sharded_values(infos: Iterable[str], values: Iterable[Any]) -> None:
    """Refuse values on several devices, if there is no layout.

    Raises:
        DeviceError: If a value is on several devices; the error names it.
    """
    for name, value in zip(infos, values, strict=True):
        if isinstance(value, jax.Array) and len(value.sharding.device_set) > 1:
            raise DeviceError(
                f"`{name}` is sharded over {len(value.sharding.device_set)} devices, but this "
                "executor runs on one.",
                given=f"{name}: {list(value.shape)}, {value.sharding}",
                fix="Use br.Executor(layout=...), or move the values to one device: "
                "scope.update(scope.state_dict()).",
            )


def validate_layout(layout: Any, device: str | None) -> Layout | None:
    """Return a validated layout, or `None`.

    Raises:
        LayoutError: If the argument is not a layout, or a device is given too.
    """
    if layout is None:
        return None
    if not isinstance(layout, Layout) or device is not None:
        raise LayoutError(
            f"expected a layout or a device, got layout={layout!r:.80}, device={device!r}.",
            fix='Write br.Executor(layout=br.Layout(br.Mesh({"data": -1}), ...)).',
        )
    return layout
