"""The registry of conversion rules, by JAX primitive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from braces.jaxpr.core.custom_derivatives import with_jax_derivative
from braces.jaxpr.core.equation import Equation, Rule
from braces.jaxpr.rules.arithmetic import ARITHMETIC
from braces.jaxpr.rules.bit_primitives import EXACT
from braces.jaxpr.rules.callbacks import INSERTED, PRINTS
from braces.jaxpr.rules.convolution import CONVOLUTIONS
from braces.jaxpr.rules.gather_scatter import PLACES
from braces.jaxpr.rules.higher_order import CALLS
from braces.jaxpr.rules.linalg import LINEAR_ALGEBRA
from braces.jaxpr.rules.ordering import ORDERING
from braces.jaxpr.rules.shape import SHAPES
from braces.jaxpr.rules.sort import ORDER
from braces.jaxpr.rules.threefry import MIXED
from braces.jaxpr.written_rules.factorizations import FACTORIZATIONS
from braces.jaxpr.written_rules.key_generators import GENERATORS
from braces.jaxpr.written_rules.narrow_integers import bitcast, extend_to_narrow_integers
from braces.jaxpr.written_rules.pooling import POOLING
from braces.jaxpr.written_rules.ragged_dot import RAGGED

_VALUES: Mapping[str, Rule] = {
    **ARITHMETIC, **ORDERING, **SHAPES, **PLACES, **ORDER, **CONVOLUTIONS, **POOLING,
    **LINEAR_ALGEBRA, **FACTORIZATIONS, **RAGGED, **EXACT, **CALLS, **MIXED, **GENERATORS,
    **INSERTED, **PRINTS,
    "bitcast_convert_type": bitcast,
}  # fmt: skip
DIFFERING_DERIVATIVES: Mapping[str, Callable[[Equation], bool]] = {
    "abs": lambda _: True,
    "cholesky": lambda _: True,
    "clamp": lambda _: True,
    "eigh": lambda _: True,
    "integer_pow": lambda e: e.params["y"] < 0,
    "rem": lambda _: True,
}
"""Primitives whose operators have equal values and another derivative, and the condition.

The derivative differs at a kink or a pole, or with respect to the unused triangle of a matrix.
"""

_DIFFERENTIATED: Mapping[str, Rule] = {
    **_VALUES,
    **{
        name: with_jax_derivative(_VALUES[name], differs)
        for name, differs in DIFFERING_DERIVATIVES.items()
    },
}
RULES: Mapping[str, Rule] = {
    **_DIFFERENTIATED,
    **extend_to_narrow_integers(_DIFFERENTIATED),
}
"""Other primitives are refused by name."""

IS_CALLBACK = "Python callback"
DEVICES = "collective operation across devices"
DRAWN = "random generator with platform-dependent bits"
FACTORED = "LAPACK routine without an equivalent operator"
FOREIGN = "platform-specific kernel"
REFERENCES = "operation on mutable arrays"
REFUSAL_REASONS: Mapping[str, str] = {
    **dict.fromkeys(("io_callback", "pure_callback"), IS_CALLBACK),
    **dict.fromkeys(("all_gather", "all_to_all", "axis_index", "ppermute"), DEVICES),
    **dict.fromkeys(("reduce_scatter", "shard_map"), DEVICES),
    "rng_uniform": DRAWN,
    "geqp3": FACTORED,
    **dict.fromkeys(("ffi_call", "pallas_call"), FOREIGN),
    **dict.fromkeys(("scaled_dot", "scaled_matmul_wrapper", "custom_partitioning"), FOREIGN),
    **dict.fromkeys(("addupdate", "empty_ref", "get", "new_ref", "swap"), REFERENCES),
}
"""The reasons for the refusal of common primitives."""
