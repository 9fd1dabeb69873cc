"""Local computation on shards: each device runs code for its own rows only.

    rows, others -> each device: its own rows, all of the others -> rows, sums, the state after

There is no communication inside, so devices may take different branches: a case without rows on
a device does not run there. Therefore sharded parameters are gathered before, and devices with
equal rows compute the same results. Sums and the status of the run are reduced over all devices
at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from braces.dtypes import is_float
from braces.layout import MeshAxes
from braces.lazy import jax, jnp, lax


@dataclass(frozen=True)
class RowShards:
    """Sharding of the rows.

    Attributes:
        mesh: The devices, as a mesh of JAX.
        axes: The mesh axes along which rows are sharded.
        rows: The names of the values that are rows; all others are replicated.
        outs: The number of results that are rows; the others are summed.
        reported: The check points that a shard may report to.
    """

    mesh: Any
    axes: MeshAxes
    rows: Collection[str]
    outs: int
    reported: Sequence[str]

    def run(
        self,
        part: Callable[[dict[str, Any], Any], tuple[list[Any], Any]],
        values: dict[str, Any],
        state: Any,
    ) -> tuple[list[Any], Any]:
        """Run `part` on each device; return the results, and the state after it.

        Args:
            part: Maps values by name, and a state, to results and the next state.
            values: The values, by name.
            state: The status of the run before, as `part` takes it.
        """
        spec = jax.sharding.PartitionSpec
        sharded, replicated = spec(self.axes), spec()

        def each(values: dict[str, Any], state: Any) -> Any:
            results, after = part(values, state)
            sums = [_sum_over_devices(value, self.axes) for value in results[self.outs :]]
            return results[: self.outs], sums, self._agreed(after)

        rows, sums, agreed = jax.shard_map(
            each,
            mesh=self.mesh,
            in_specs=(
                {name: sharded if name in self.rows else replicated for name in values},
                replicated,
            ),
            out_specs=(sharded, replicated, replicated),
            check_vma=False,  # conditional results count as replicated
        )(values, state)
        return [*rows, *sums], self._after(state, agreed)

    def _agreed(self, state: Any) -> Any:
        """Reduce the status over devices: whether one stopped, and the largest codes."""
        codes = (
            jnp.asarray(~state.running, "int32"),
            *(state.sites[site] for site in self.reported),
        )
        return lax.pmax(jnp.stack(codes), self.axes) if self.reported else ()

    def _after(self, before: Any, agreed: Any) -> Any:
        if not self.reported:
            return before
        sites = {site: agreed[i] for i, site in enumerate(self.reported, 1)}
        return before._replace(running=agreed[0] == 0, sites=before.sites | sites)


def _sum_over_devices(value: Any, axes: MeshAxes) -> Any:
    """Return the sum over all devices; 16-bit floats are added in 32 bits."""
    wide = is_float(value.dtype) and value.dtype.itemsize < 4
    total = lax.psum(value.astype("float32") if wide else value, axes)
    return total.astype(value.dtype)
