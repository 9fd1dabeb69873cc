"""What each device runs for itself, on the rows that it has.

    rows, others -> each device: its own rows, all of the others -> rows, sums, the state after

Nothing goes between devices meanwhile, so each may take another way: a case that has no row on
one does not run there. So parameters that are cut are brought together before, and devices that
have the same rows compute the same. What is added up, and what the run is told, goes to all at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from braces.dtypes import is_float
from braces.layout import Axes
from braces.lazy import jax, jnp, lax


@dataclass(frozen=True)
class Parts:
    """How devices have parts of the rows.

    Attributes:
        mesh: The devices, as JAX has them.
        axes: What rows are cut along.
        rows: What of the values that are given by name is rows; each device has others whole.
        outs: How many results are rows; the others are added up.
        told: The sites that a part may tell something at.
    """

    mesh: Any
    axes: Axes
    rows: Collection[str]
    outs: int
    told: Sequence[str]

    def run(
        self,
        part: Callable[[dict[str, Any], Any], tuple[list[Any], Any]],
        given: dict[str, Any],
        state: Any,
    ) -> tuple[list[Any], Any]:
        """Let each device run a part; the results, and the state after it.

        Args:
            part: From values by name, and a state, to results and the state after.
            given: The values.
            state: What the run knows of itself before, as `part` has it.
        """
        spec = jax.sharding.PartitionSpec
        cut, whole = spec(self.axes), spec()

        def each(given: dict[str, Any], state: Any) -> Any:
            found, after = part(given, state)
            sums = [_added(value, self.axes) for value in found[self.outs :]]
            return found[: self.outs], sums, self._agreed(after)

        rows, sums, agreed = jax.shard_map(
            each,
            mesh=self.mesh,
            in_specs=({name: cut if name in self.rows else whole for name in given}, whole),
            out_specs=(cut, whole, whole),
            check_vma=False,  # what a conditional gives counts as whole although parts differ
        )(given, state)
        return [*rows, *sums], self._after(state, agreed)

    def _agreed(self, state: Any) -> Any:
        """What all know after a part: whether one stopped, and the most at each site."""
        found = (jnp.asarray(~state.running, "int32"), *(state.sites[one] for one in self.told))
        return lax.pmax(jnp.stack(found), self.axes) if self.told else ()

    def _after(self, before: Any, agreed: Any) -> Any:
        if not self.told:
            return before
        sites = {one: agreed[i] for i, one in enumerate(self.told, 1)}
        return before._replace(running=agreed[0] == 0, sites=before.sites | sites)


def _added(value: Any, axes: Axes) -> Any:
    """The sum over all devices; floats of 16 bits are added in 32."""
    wide = is_float(value.dtype) and value.dtype.itemsize < 4
    found = lax.psum(value.astype("float32") if wide else value, axes)
    return found.astype(value.dtype)
