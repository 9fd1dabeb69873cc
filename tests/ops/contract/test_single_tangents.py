"""Forward mode by one operand alone: the other operands have no tangent at all.

Each operand that is a float, in each example of each operator with a derivative. The tangents
are those with zeros as the tangents of the others; one that is absent there is zero here.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.extend.types import TensorType
from tests.ops.cases import Built, Case, build_together, differentiable_cases, number
from tests.ops.differentiated import floats
from tests.ops.reference import numbers

pytestmark = pytest.mark.unoptimized

BY_OPERATOR = {
    op: tuple(cases)
    for op, cases in groupby(differentiable_cases(), key=lambda case: case.op)
    if any(sum(map(len, case.types.values())) > 1 for case in cases)
}


def add_tangents(built: Built, case: Case) -> tuple[dict[str, np.ndarray], list[str]]:
    """Fetch tangents by one input with and without zeros; return feeds and their names."""
    inputs, outputs = floats(built.inputs), floats(built.outputs)
    sizes, rng = case.sizes(), case.rng()
    fed, names = dict[str, np.ndarray](), list[str]()
    if len(inputs) < 2 or not outputs:
        return fed, names
    with built.program:
        zeros = [br.zeros_like(var) for var in inputs]
        for at, var in enumerate(inputs):
            type_ = var.type
            assert isinstance(type_, TensorType)
            move = built.declare(f"{var.name}_move", type_)
            fed[move.name] = numbers(rng, number(type_.shape, sizes), type_.dtype)
            alone = br.jvp(outputs, [var], [move])
            among = br.jvp(outputs, inputs, [*zeros[:at], move, *zeros[at + 1 :]])
            for out, one, all_ in zip(outputs, alone, among, strict=True):
                key = f"{var.name} {out.name}"
                names.append(key)
                for kind, tangent in (("one", one), ("all", all_)):
                    if tangent is not None:
                        assert isinstance(tangent, Var)
                        assert tangent.type == out.type, key
                        built.fetch[f"{kind} {key}"] = tangent
    return fed, names


@pytest.mark.parametrize("op", BY_OPERATOR)
def test_the_tangent_by_one_operand_alone(op: str) -> None:
    for built in build_together(BY_OPERATOR[op]):
        moves, names = add_tangents(built, built.case)
        if not names:
            continue
        sizes = built.case.sizes()
        feed = built.feed(built.case.values(sizes), moves, sizes)
        found = built.run(br.Executor(mode="interpret"), feed)
        for key in names:
            one, among = found.get(f"one {key}"), found.get(f"all {key}")
            expected = 0.0 if among is None else among
            value = np.zeros_like(expected) if one is None else one
            np.testing.assert_allclose(value, expected, 1e-9, 1e-9, err_msg=key)
