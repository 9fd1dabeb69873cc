"""Number of times that batch axes are tracked through blocks: about once per new operator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.programs import all_ops
from braces.ops.control.batch_axis.analysis import BatchAxisAnalysis, is_row_wise

pytestmark = pytest.mark.unoptimized


def nested(rows: br.Var, depth: int) -> br.Var:
    """Loops in each other, each with a memory of rows and one that becomes rows inside."""
    if not depth:
        return br.tanh(rows)
    start = br.full(rows.shape, 0.0)
    _, found, met = br.while_loop(
        lambda carry: carry[0] < 2,
        lambda carry: (carry[0] + 1, nested(carry[1], depth - 1), carry[2] + carry[1]),
        (br.constant(0), rows, start),
    )
    return found + met - br.sum(found, axis=0)


def built(depth: int) -> tuple[br.Program, br.Var]:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        choice = br.create_if_else(x[:, 0] > 0.0)
        with choice.true_block() as block:
            block.add_output(nested(block.add_input(x), depth))
        choice.pass_through(x)
        out = choice()
    return program, out


def followed(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of operators visited while loops of this depth are built."""
    calls, transfer = [0], BatchAxisAnalysis.transfer

    def counting(self: BatchAxisAnalysis, *given: Any) -> Any:
        calls[0] += 1
        return transfer(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(BatchAxisAnalysis, "transfer", counting)
        built(depth)
    return calls[0]


def test_a_loop_that_is_deeper_is_followed_no_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = [followed(depth, monkeypatch) for depth in range(1, 7)]
    more = [b - a for a, b in pairwise(counts)]
    assert len(set(more[1:])) == 1, counts  # as many more operators with each level


def test_rows_that_a_deep_loop_sums_are_masked() -> None:
    program, out = built(3)
    values = np.random.default_rng(0).normal(size=(9, 3)).astype("float32")
    found = [
        br.Executor(mode=mode).run(program, br.Scope(), feed={"x": values}, fetch=out)
        for mode in ("compile", "interpret")
    ]
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("step", "alone"),
    [
        (lambda x, w: br.tanh(x @ w), True),
        (lambda x, w: br.softmax(x @ w, axis=-1), True),
        (lambda x, w: x @ w + br.sum(x, axis=0), False),
        (lambda x, w: x @ (br.matrix_transpose(x) @ x) @ w, False),
    ],
)
def test_a_row_is_on_its_own_where_no_other_reaches_it(
    step: Callable[[Any, Any], Any], alone: bool
) -> None:
    with br.Program() as program:
        xs, lengths = br.data("xs", [5, 4, 3]), br.data("lengths", [4], dtype="int32")
        w = br.data("w", [3, 3])
        rnn = br.create_rnn(lengths=lengths)
        with rnn.stepnet() as net:
            net.add_output(step(net.add_input(xs), w))
        rnn()
    (branch,) = (op for _, op in all_ops(program.definition.main) if op.type == "partition")
    (body,) = branch.bodies().values()
    visible = {**program.definition.main.vars, **body.vars}
    types = {name: info.type for name, info in visible.items()}
    assert is_row_wise(body, types, 4) == alone
