"""What a run does with a layout: values of the scope are brought to where it says they lie."""

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
from braces.layout import Layout, Stored
from braces.lazy import jax
from braces.lower.sharding.sharding import Placement, stored_of
from braces.runtime.devices.process_agreement import agree, shortened
from braces.runtime.inputs.feeds import describe
from braces.runtime.inputs.persistables import Run
from braces.runtime.plan.plan import Plan
from braces.scope import Scope


@dataclass(frozen=True)
class Placed:
    """A plan under a layout.

    Attributes:
        placement: How values lie.
        plan: What is run.
        lies: How each variable of the scope, and each feed, lies.
    """

    placement: Placement
    plan: Plan
    lies: Mapping[str, Any]

    @staticmethod
    def of(placement: Placement | None, plan: Plan) -> Placed | None:
        """A plan under a layout, where there is one.

        Raises:
            LayoutError: The layout does not fit the program.
        """
        if placement is None:
            return None
        return Placed(placement, plan, placement.of_body(plan.definition.main))

    def compare(self, feeds: Mapping[str, Any], check_nan: bool) -> None:
        """Go on only if all processes run the same: else they would wait for each other.

        Raises:
            ClusterError: They do not, or one did not come.
        """
        if jax.process_count() == 1:
            return
        types = ", ".join(f"{name}: {describe(value)}" for name, value in feeds.items())
        fetches = ", ".join(self.plan.wanted) or "nothing"
        said = f"{fingerprint(self.plan.definition)[:16]} for {fetches} of {types or 'nothing'}"
        agree(
            "program",
            shortened(f"{said}, checked for NaN" if check_nan else said),
            fix="Build the same program in every process, and feed each as many rows.",
        )

    def take(self, run: Run) -> None:
        """Bring the values that a run has read to where they lie; the scope has them then.

        Raises:
            ShapeError: One has no equal parts for all devices.
        """
        for at, name in enumerate(self.plan.states):
            value = run.states[at]
            if value is None or getattr(value, "sharding", None) == self.lies[name]:
                continue
            placed = run.states[at] = self.placement.stored(name, value, self.lies[name])
            if name not in run.given:
                keep(run.scope, name, value, placed)

    def committed(self, names: Iterable[str], values: Iterable[Any]) -> list[Any]:
        """Next values where they lie."""
        pairs = zip(names, values, strict=True)
        return [self.placement.stored(n, v, self.lies[n]) for n, v in pairs]

    def options(self, told: bool) -> dict[str, Any]:
        """How the code of a run is cut up: what it is given, what it gives, what is `told`."""
        plan, whole = self.plan, self.placement.whole
        given = [self.lies[name] for name in (*plan.states, *plan.feeds)]
        after = [self.lies[name] for name in plan.updates]
        return {
            "in_shardings": tuple(given),
            "out_shardings": (*[whole] * len(plan.fetches), *after, *[whole] * told),
        }


def bring(
    layout: Layout,
    types: Mapping[str, TensorType],
    read: Callable[[str, tuple[slice, ...]], Any],
    scope: Scope,
) -> dict[str, Any]:
    """Variables of a scope as a layout has them, each device's part read for itself.

    What the scope has on these devices already stays where it lies: so do variables that lie by
    the names of their axes, of which only programs know.

    Args:
        layout: The layout.
        types: What there is to read.
        read: Gives a part of a variable; asked once for each part that this process has.
        scope: Where the variables go.

    Raises:
        LayoutError: The layout does not fit what there is.
    """
    layout.check_used(None, types)
    placement = Placement(layout)
    lies = placement.of_stored(
        {name: Stored(type_.shape, is_float(type_.dtype)) for name, type_ in types.items()}
    )
    lies |= {name: there for name in types if (there := _lies(scope, name, types, placement))}
    with jax.enable_x64(True):
        return {name: _brought(types[name], lies[name], partial(read, name)) for name in types}


def _lies(
    scope: Scope, name: str, types: Mapping[str, TensorType], placement: Placement
) -> Any:
    """Where a variable of a scope lies, if it has this shape and lies on these devices."""
    found = scope.find_var(name)
    value = None if found is None else found.raw
    if not isinstance(value, jax.Array) or value.shape != types[name].shape:
        return None
    sharding: Any = value.sharding
    return sharding if getattr(sharding, "mesh", None) == placement.mesh else None


def _brought(type_: TensorType, sharding: Any, read: Callable[[Any], Any]) -> Any:
    shape: Any = type_.shape
    found: dict[str, Any] = {}

    def part(region: Any) -> Any:
        if str(region) not in found:
            found[str(region)] = read(region)
        return found[str(region)]

    return jax.make_array_from_callback(shape, sharding, part)


def keep(scope: Scope, name: str, before: Any, after: Any) -> None:
    """Let a variable hold the same value, elsewhere, where no other run gave it a new one."""
    with scope.turn:
        variable = scope.find_var(name)
        if variable is not None and variable.raw is before:
            variable.put(after)


def lost(error: Exception) -> ClusterError:
    """The error of a run that several processes began, and not all ended."""
    return ClusterError(
        "A run of several processes failed: another process may have ended.",
        given=str(error).partition("\n")[0],
        fix="Look at the other processes, and start them again from the last checkpoint: what "
        "this run was to replace is lost.",
    )


def check_layout(layout: Layout, body: Body, scope: Scope) -> None:
    """Refuse a layout with rules that are for nothing.

    Args:
        layout: The layout.
        body: The main block of a program.
        scope: Where it runs.

    Raises:
        LayoutError: No size of the program is called as a rule says, or no variable of the
            program or the scope.
    """
    stored = stored_of(body)
    sizes = {name for info in body.vars.values() for name in dimensions(shape_of(info.type))}
    sizes |= {name for info in body.vars.values() for name in info.axes if name is not None}
    fed = any(_is_named(info) for info in body.vars.values())
    there = {*stored, *(name for one in _chain(scope) for name in one.names())}
    layout.check_used(sizes if fed else None, there)


def _is_named(info: VarInfo) -> bool:
    return info.kind == DATA and bool(dimensions(shape_of(info.type)))


def _chain(scope: Scope | None) -> Iterator[Scope]:
    while scope is not None:
        yield scope
        scope = scope.parent


def refuse_apart(infos: Iterable[str], values: Iterable[Any]) -> None:
    """Refuse values that lie on several devices, where no layout says that they do.

    Raises:
        DeviceError: It names one.
    """
    for name, value in zip(infos, values, strict=True):
        if isinstance(value, jax.Array) and len(value.sharding.device_set) > 1:
            raise DeviceError(
                f"`{name}` lies on {len(value.sharding.device_set)} devices, and this executor "
                "runs on one.",
                given=f"{name}: {list(value.shape)}, {value.sharding}",
                fix="Run it with br.Executor(layout=...), or bring the values to one device: "
                "scope.update(scope.state_dict()).",
            )


def checked_layout(layout: Any, device: str | None) -> Layout | None:
    """A layout, or none.

    Raises:
        LayoutError: It is something else, or a device is named too.
    """
    if layout is None:
        return None
    if not isinstance(layout, Layout) or device is not None:
        raise LayoutError(
            f"layout={layout!r:.80} with device={device!r}: an executor has one of the two.",
            fix='Write br.Executor(layout=br.Layout(br.Mesh({"data": -1}), ...)).',
        )
    return layout
