"""Window operations that are the same in several systems."""

from __future__ import annotations

from collections.abc import Callable

from braces.extend.building import Var
from braces.extend.layers import Sizes, pool_to_sizes


def adaptive(op_type: str, rank: int) -> Callable[..., Var]:
    """Return an adaptive pool over the last axes."""

    def pool(x: Var, wanted: Sizes) -> Var:
        return pool_to_sizes(op_type, x, range(x.ndim - rank, x.ndim), wanted)

    return pool
