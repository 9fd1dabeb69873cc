"""Residuals of row-wise branches, and gradients to second order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import braces as br
from braces.extend.programs import Op, all_ops
from tests.control.checking import check

pytestmark = pytest.mark.unoptimized

RNG = np.random.default_rng(3)
X, W = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 3)) / 2
ALL, SOME, NONE = (
    {"x": X, "w": W, "limit": np.asarray(limit, "int32")} for limit in (-9, 0, 9)
)
SHAPES = {"x": ["b", 3]}
Layer = Callable[[br.Var], br.Var]


def routed(x: br.Var, chosen: br.Var, yes: Layer, no: Layer) -> br.Var:
    """The rows of x through one of two layers."""
    choice = br.create_if_else(chosen)
    for block, layer in ((choice.true_block(), yes), (choice.false_block(), no)):
        with block as side:
            side.add_output(layer(side.add_input(x)))
    return choice()


def deep(w: br.Var) -> Layer:
    return lambda rows: br.tanh(br.tanh(rows @ w) @ w) @ w


def half(rows: br.Var) -> br.Var:
    return rows * 0.5


# ---- what is kept ----------------------------------------------------------------------------


def branches(yes: Callable[[br.Var], Layer], no: Callable[[br.Var], Layer]) -> list[Op]:
    """The branch of a program and that of its gradient."""
    with br.Program() as prog:
        x, w = br.data("x", ["b", 3]), br.data("w", [3, 3])
        br.gradients([br.sum(routed(x, x[:, 0] > 0.0, yes(w), no(w)) ** 2)], [x, w])
    return [op for _, op in all_ops(prog.definition.main) if op.type == "partition"]


def number_of(kind: str, op: Op) -> int:
    return sum(o.type == kind for body in op.bodies().values() for _, o in all_ops(body))


def test_the_gradient_computes_no_product_of_the_branch_again() -> None:
    forward, backward = branches(deep, lambda _: half)
    assert number_of("matmul", forward) == 3
    assert number_of("matmul", backward) == 6  # of each a cotangent by either side
    assert len(forward.outputs["out"]) == 3


def boxed(w: br.Var) -> Layer:
    """As `deep`, some of it in blocks."""

    def layer(rows: br.Var) -> br.Var:
        with br.block("outer"):
            h = br.tanh(rows @ w)
            with br.block("inner"):
                g = br.tanh(h @ w)
        return g @ w

    return layer


def test_what_is_costly_in_a_plain_block_is_kept_too() -> None:
    forward, backward = branches(boxed, lambda _: half)
    assert number_of("matmul", forward) == 3
    assert number_of("matmul", backward) == 6
    assert len(forward.outputs["out"]) == 3
    assert number_of("block", forward) == 2


def test_a_block_that_is_to_run_again_does() -> None:
    def again(w: br.Var) -> Layer:
        def layer(rows: br.Var) -> br.Var:
            with br.block("again", recompute=True):
                h = br.tanh(br.tanh(rows @ w) @ w)
            return h @ w

        return layer

    forward, backward = branches(again, lambda _: half)
    assert number_of("fence", backward) > 0
    assert number_of("matmul", backward) > 6
    assert len(forward.outputs["out"]) == 2  # what the block gives, and no more


def test_cases_share_the_outputs_that_keep_their_rows() -> None:
    forward, backward = branches(deep, deep)
    assert number_of("matmul", backward) == 12
    assert len(forward.outputs["out"]) == 3


def test_what_is_not_costly_runs_again() -> None:
    forward, backward = branches(
        lambda w: lambda rows: br.exp(br.sin(rows) * w[0]), lambda _: half
    )
    assert len(forward.outputs["out"]) == 1
    assert number_of("sin", backward) == 1


def test_an_output_that_the_gradient_reads_is_kept_already() -> None:
    forward, backward = branches(lambda w: lambda rows: br.tanh(rows @ w), lambda _: half)
    assert len(forward.outputs["out"]) == 1
    assert forward.outputs["out"][0] in backward.inputs["rows"]


# ---- that it is right ------------------------------------------------------------------------


def repeated(w: br.Var) -> Layer:
    """A loop whose history stays inside, between products."""

    def layer(rows: br.Var) -> br.Var:
        start = br.tanh(rows @ w)
        return br.tanh(
            br.while_loop(
                lambda carry: carry[0] < 2,
                lambda carry: (carry[0] + 1, br.sin(carry[1] @ w + rows)),
                (br.constant(0), start),
            )[1]
            @ w
        )

    return layer


def mixed(w: br.Var) -> Layer:
    """Products of all rows, and what is no row."""

    def layer(rows: br.Var) -> br.Var:
        z = br.tanh(rows @ w)
        total = br.sum(z @ w, axis=0)
        return (z @ w - br.max(z @ w, axis=0)) * br.tanh(total @ w) + br.sort(z @ w, axis=1)

    return layer


def several(w: br.Var) -> Layer:
    """Operators with several results, of which the gradient reads some."""

    def layer(rows: br.Var) -> br.Var:
        first, second, third = br.split(br.tanh(rows @ w), 3, axis=1)
        best, _ = br.topk(br.sin(rows @ w), 2)
        return br.concat([first * second, br.exp(third) * best[:, :1], best[:, 1:]], axis=1)

    return layer


def inner(w: br.Var) -> Layer:
    """A row-wise branch in a row-wise branch, and a choice for all rows."""

    def layer(rows: br.Var) -> br.Var:
        z = br.tanh(rows @ w)
        turned = br.cond(br.sum(w) > 0.0, lambda: br.tanh(z @ w) @ w, lambda: z)
        return routed(turned, turned[:, 1] > 0.1, deep(w), half) @ w

    return layer


def check_layer(layer: Callable[[br.Var], Layer]) -> None:
    """Hold the gradients of some rows through a layer against differences."""

    def build(x: br.Var, w: br.Var, limit: br.Var) -> br.Var:
        chosen = x[:, 0] > br.cast(limit, "float64")
        return br.sum(routed(x, chosen, layer(w), half) ** 2)

    check(build, ALL, SOME, NONE, shapes=SHAPES, second=layer is not inner)


@pytest.mark.parametrize("layer", [deep, repeated, mixed])
def test_gradients_are_right(layer: Callable[[br.Var], Layer]) -> None:
    check_layer(layer)


@pytest.mark.usefixtures("few_copies")
@pytest.mark.parametrize("layer", [deep, boxed, repeated, mixed, several, inner])
def test_gradients_are_right_where_a_case_has_padding(layer: Callable[[br.Var], Layer]) -> None:
    check_layer(layer)


@pytest.mark.usefixtures("few_copies")
def test_gradients_in_a_loop_are_right() -> None:
    def build(x: br.Var, w: br.Var, limit: br.Var) -> br.Var:
        def turned(rows: br.Var) -> br.Var:
            return br.sin(rows @ w)

        def step(carry: tuple[br.Var, br.Var]) -> tuple[br.Var, br.Var]:
            i, h = carry
            return i + 1, routed(h, h[:, 0] > 0.1 * i, deep(w), turned)

        found = br.while_loop(lambda carry: carry[0] < limit + 3, step, (br.constant(0), x))
        return br.sum(found[1] ** 2)

    check(build, SOME, shapes=SHAPES)
