"""Sharding by a layout: placement of inputs, values and results on the devices of a mesh.

One computation is built for all devices of the mesh; XLA's partitioner shards it and adds the
communication. Each value whose sizes have names gets a sharding constraint. So communication
follows from the layout, and not from a cost estimate of the partitioner
(docs/guides/scale_out.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from braces.define.axes.axis_map import shape_of
from braces.dims import Size
from braces.dtypes import ListType, TensorType, is_float
from braces.errors import DeviceError, FeedError, ShapeError
from braces.ir.records import DATA, Body, VarInfo
from braces.layout import Layout, Spec, StoredVariable
from braces.lazy import jax
from braces.lower.sharding.axis_names import propagate_axis_names
from braces.ops.lists.stack import ListBuffer


class Placement:
    """A layout on the available devices.

    Args:
        layout: The layout; as attribute, every size of its mesh is a number.

    Attributes:
        layout: The same, every size of its mesh a number.
        mesh: The devices, as a mesh of JAX.

    Raises:
        DeviceError: If the mesh does not match the available devices.
    """

    def __init__(self, layout: Layout) -> None:
        devices = jax.devices()
        self.layout = layout.on(len(devices))
        axes = self.layout.mesh.axes
        count = self.layout.mesh.size(tuple(axes))
        if jax.process_count() > 1 and count != len(devices):
            raise DeviceError(
                f"{self.layout.mesh!r} uses {count} of {len(devices)} devices; several "
                "processes must use all.",
                fix="Write -1 for one of the sizes, for the number of remaining devices.",
            )
        kinds = (jax.sharding.AxisType.Auto,) * len(axes)
        self.mesh = jax.make_mesh(
            tuple(axes.values()), tuple(axes), axis_types=kinds, devices=devices[:count]
        )

    @property
    def first(self) -> Any:
        """The first device of the mesh."""
        return self.mesh.devices.flat[0]

    @cached_property
    def replicated(self) -> Any:
        """The sharding of a replicated value."""
        return self._sharding(())

    def _sharding(self, spec: Spec) -> Any:
        return jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(*spec))

    def of_value(self, info: VarInfo) -> Any:
        """Return the sharding of a value, by the names of its sizes and axes."""
        return self._sharding(self._spec(info))

    def _spec(self, info: VarInfo) -> Spec:
        return self.layout.of_value(shape_of(info.type), info.axes)

    def named(self, body: Body) -> Body:
        """Return a main block whose values have the axis names that the layout uses."""
        names = {name for info in body.vars.values() for name in info.axes}
        return propagate_axis_names(body) if names & self.layout.dims.keys() else body

    def of_body(self, body: Body) -> dict[str, Any]:
        """Return the shardings of the scope variables and data of a main block."""
        shardings = self.of_stored(stored_variables(body))
        data = (info for info in body.vars.values() if info.kind == DATA)
        return shardings | {info.name: self.of_value(info) for info in data}

    def of_stored(self, every: Mapping[str, StoredVariable]) -> dict[str, Any]:
        """Return the shardings of variables of the scope."""
        specs = self.layout.of_stored(every)
        return {name: self._sharding(spec) for name, spec in specs.items()}

    def fed(self, info: VarInfo, value: Any) -> Any:
        """Return a feed on the devices; each process supplies the shards of its own devices.

        Raises:
            FeedError: If the size of an axis is not divisible by the number of devices.
        """
        sharding = self.of_value(info)
        if isinstance(value, jax.Array) and value.sharding == sharding:
            return value
        if np.ndim(value) != len(shape_of(info.type)):
            return value  # the run raises the error about its shape
        try:
            with jax.enable_x64(True):
                return jax.make_array_from_process_local_data(sharding, np.asarray(value))
        except ValueError:
            raise self._uneven(info, np.shape(value)) from None

    def _uneven(self, info: VarInfo, shape: tuple[int, ...]) -> FeedError:
        mesh = self.layout.mesh
        cut = zip(shape_of(info.type), shape, self._spec(info), strict=True)
        shown = (f"{d}={n} on {mesh.size(axes)} devices" for d, n, axes in cut if axes)
        return FeedError(
            f"feed `{info.name}` does not divide into equal shards: {', '.join(shown)}.",
            given=f"{info.name}: declared {info.type}, fed {list(shape)}, {mesh!r}",
            fix="Drop the last incomplete batch, or pad it and mask the padding.",
        )

    def stored(self, name: str, value: Any, sharding: Any) -> Any:
        """Return a scope value on the devices; each process has the whole value, or its shard.

        Raises:
            ShapeError: If the value is not divisible into equal shards.
        """
        if isinstance(value, jax.Array) and value.sharding == sharding:
            return value
        try:
            with jax.enable_x64(True):
                if jax.process_count() > 1 and _is_local(value):
                    value = np.asarray(value)
                    return jax.make_array_from_callback(
                        value.shape, sharding, value.__getitem__
                    )
                return jax.device_put(value, sharding, may_alias=False)
        except ValueError as error:
            raise ShapeError(
                f"`{name}` does not divide into shards of the layout: {sharding.spec}.",
                given=f"{name}: {list(value.shape)}, {self.layout.mesh!r}",
                fix="Use sizes that the number of devices divides, or another layout.",
            ) from error

    def shard_name(self, size: Size, sizes: Mapping[str, int]) -> str | None:
        """Return the name by which devices have equal shards of a size, or `None`."""
        name = self.layout.name_of(size)
        if name is None or name not in sizes:
            return None
        count = self._count(name)
        return name if count > 1 and sizes[name] % count == 0 else None

    def part(self, name: str, sizes: Mapping[str, int]) -> int:
        """Return the size of the shard of each device."""
        return sizes[name] // self._count(name)

    def _count(self, name: str) -> int:
        return self.layout.mesh.size(self.layout.dims[name])

    def pinned(self, info: VarInfo, value: Any) -> Any:
        """Return a value with a sharding constraint, by the names of its sizes and axes.

        Axes without a name are left to XLA, as are values without equal shards.
        """
        if isinstance(info.type, ListType) and isinstance(value, ListBuffer):
            return replace(value, values=self._pinned(info, value.values, 1))
        return self._pinned(info, value, 0) if isinstance(info.type, TensorType) else value

    def _pinned(self, info: VarInfo, value: Any, before: int) -> Any:
        layout, free = self.layout, jax.sharding.PartitionSpec.UNCONSTRAINED
        if value.ndim != before + len(shape_of(info.type)):
            return value
        spec = ((),) * before + self._spec(info)
        sizes = zip(value.shape, spec, strict=True)
        if not any(spec) or not all(layout.divides(size, axes) for size, axes in sizes):
            return value
        parts = jax.sharding.PartitionSpec(*(axes or free for axes in spec))
        sharding = jax.sharding.NamedSharding(self.mesh, parts)
        return jax.lax.with_sharding_constraint(value, sharding)


def stored_variables(body: Body) -> dict[str, StoredVariable]:
    """Return the facts that a layout needs about the scope variables of a main block."""
    infos = (info for info in body.vars.values() if info.persistable)
    return {i.name: StoredVariable(i.shape, is_float(i.dtype), i.axes) for i in infos}


def _is_local(value: Any) -> bool:
    return not isinstance(value, jax.Array) or value.is_fully_addressable
