"""What each primitive of JAX is: all the rules there are, by its name."""

from __future__ import annotations

from collections.abc import Mapping

from braces.jaxpr.arithmetic import ARITHMETIC
from braces.jaxpr.calls import CALLS
from braces.jaxpr.equation import Rule
from braces.jaxpr.exact import EXACT
from braces.jaxpr.inserted import INSERTED
from braces.jaxpr.linear_algebra import LINEAR_ALGEBRA
from braces.jaxpr.order import ORDER
from braces.jaxpr.places import PLACES
from braces.jaxpr.shapes import SHAPES
from braces.jaxpr.sliding import SLIDING
from braces.jaxpr.threefry import RANDOM

RULES: Mapping[str, Rule] = {
    **ARITHMETIC, **SHAPES, **PLACES, **ORDER, **SLIDING, **LINEAR_ALGEBRA, **EXACT,
    **CALLS,
    **RANDOM,
    **INSERTED,
}  # fmt: skip
"""A primitive that is not here is refused by name."""

CALLS_BACK = "which calls Python back"
DEVICES = "which several devices compute together"
DRAWN = "whose random bits are those of a machine"
FACTORED = "a routine of LAPACK that there is no operator for"
FOREIGN = "which is code for one machine"
REFERENCES = "of arrays that are changed in their place"
WHY: Mapping[str, str] = {
    **dict.fromkeys(
        ("debug_callback", "debug_print", "io_callback", "pure_callback"), CALLS_BACK
    ),
    **dict.fromkeys(("all_gather", "all_to_all", "axis_index", "ppermute"), DEVICES),
    **dict.fromkeys(("reduce_scatter", "shard_map"), DEVICES),
    **dict.fromkeys(("rng_bit_generator", "rng_uniform"), DRAWN),
    **dict.fromkeys(("cholesky_update", "geqp3", "geqrf", "hessenberg"), FACTORED),
    **dict.fromkeys(("householder_product", "ormqr", "schur", "tridiagonal"), FACTORED),
    **dict.fromkeys(("tridiagonal_solve",), FACTORED),
    "eig": "whose results are complex numbers, which no operator on matrices takes",
    **dict.fromkeys(("ffi_call", "pallas_call", "ragged_dot_general"), FOREIGN),
    **dict.fromkeys(("scaled_dot", "scaled_matmul_wrapper", "custom_partitioning"), FOREIGN),
    **dict.fromkeys(("addupdate", "empty_ref", "get", "new_ref", "swap"), REFERENCES),
}
"""Why a primitive is refused that users meet."""
