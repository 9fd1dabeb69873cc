"""Each rule for a primitive of JAX is tested by a function of these modules."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax import lax

from braces.dtypes import parse_type, short_name
from braces.jaxpr.registry import RULES
from braces.jaxpr.rules.callbacks import INSERTED
from braces.jaxpr.trace import trace
from tests.jaxpr import test_identities, test_windows
from tests.jaxpr.test_ragged_dot import params
from tests.jaxpr.test_trace import CASES, FUNCTIONS

LATER = {"call_hi_primitive", "eval_jaxpr", "log2", "one_minus_square"}
"""The primitives that JAX 0.10 does not have."""


def test_each_rule_is_tested() -> None:
    met = set[str]()

    def walk(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            met.add(eqn.primitive.name)
            if eqn.primitive.name == "call_hi_primitive":
                expand = partial(eqn.primitive.to_lojax, **eqn.params)
                walk(jax.make_jaxpr(expand)(*(atom.aval for atom in eqn.invars)))
            for value in jax.tree.leaves(list(eqn.params.values())):
                inner = getattr(value, "jaxpr", value)
                if hasattr(inner, "eqns"):
                    walk(inner)

    for name, rows in CASES:
        function, arrays = FUNCTIONS[name]
        types = [parse_type(f"{short_name(a.dtype)}[{rows},3]") for a in arrays]
        walk(trace("The function", function, *types).closed.jaxpr)
    for function in (*test_identities.MET, *test_windows.MET):
        walk(jax.make_jaxpr(function)(test_windows.X).jaxpr)
    walk(jax.make_jaxpr(lax.ragged_dot)(*params(2, 0, 2).values()).jaxpr)
    is_old = jax.__version__.startswith("0.10.")
    # The inserted ones are no primitives of JAX, and tested below.
    assert set(RULES) - met == set(INSERTED) | (LATER if is_old else set())
