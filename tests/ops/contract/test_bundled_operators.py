"""An operator that is dispatched among others gives the bits that it gives alone."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br
from braces.extend.operators import OpDef
from tests.ops.cases import build_together, cases, definitions, differentiable_cases, is_float
from tests.support.hot_traces import check_same_bits

pytestmark = pytest.mark.unoptimized


def of_operator(op: str) -> tuple[br.Program, dict[str, Any], dict[str, br.Var]]:
    """All examples of an operator side by side, and gradients of those that have one."""
    chosen = [case for case in (*cases(), *differentiable_cases()) if case.op == op]
    parts = build_together(chosen)
    feed, fetch = dict[str, Any](), dict[str, br.Var]()
    for i, (case, part) in enumerate(zip(chosen, parts, strict=True)):
        sizes = case.sizes()
        feed |= part.feed(case.values(sizes), {}, sizes)
        fetch |= {f"{i} {name}": var for name, var in part.wanted().items()}
        outs = [var for var in part.fetch.values() if is_float(var.dtype)]
        if case.floats is None or not outs:
            continue
        floats = [var for one in part.inputs.values() for var in one if is_float(var.dtype)]
        with part.program:
            grads = br.gradients(outs, floats)
        fetch |= {f"{i} gradient {k}": g for k, g in enumerate(grads) if g is not None}
    return parts[0].program, feed, fetch


@pytest.mark.parametrize("definition", definitions(), ids=lambda d: d.type)
def test_an_operator_among_others_gives_the_bits_that_it_gives_alone(definition: OpDef) -> None:
    prog, feed, fetch = of_operator(definition.type)
    together = check_same_bits(prog, feed, fetch)
    slow = definition.costly and not definition.product
    assert together or slow or definition.random or definition.learn_rule is not None
