"""Windows that systems slide over arrays in the same way."""

from __future__ import annotations

from collections.abc import Callable

from braces.builder.var import Var
from braces.frontend.nn.pooling import Sizes, to_sizes


def adaptive(op_type: str, rank: int) -> Callable[..., Var]:
    """A pool to a size that is said, of the last axes."""

    def computed(x: Var, wanted: Sizes) -> Var:
        return to_sizes(op_type, x, range(x.ndim - rank, x.ndim), wanted)

    return computed
