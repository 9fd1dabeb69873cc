"""Shapes that follow from axis maps: operators, shapes, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.define import type_inference
from braces.errors import ShapeError
from braces.extend.building import emit
from braces.extend.operators import OPS
from braces.extend.types import Dim

KERNELS = [
    d
    for d in OPS.definitions.values()
    if not d.owns_blocks and d.kernel.__module__.startswith("braces.")
]
"""Ours: some tests define others."""
COMPUTED = "sizes are computed from attributes and other sizes"
DRAWN = "a random state, trips and a salt are checked together with the shape that is drawn"
LISTED = "the elements of a list have the shape, the list itself none"
OWN_RULES = {
    **dict.fromkeys(("arange", "concat", "diag", "flatten"), COMPUTED),
    **dict.fromkeys((f"conv{rank}d" for rank in (1, 2, 3)), COMPUTED),
    **dict.fromkeys((f"conv_transpose{rank}d" for rank in (1, 2, 3)), COMPUTED),
    **dict.fromkeys(("conv_to_input", "conv_to_weight"), COMPUTED),
    **dict.fromkeys(("getitem", "setitem_add", "window", "window_add"), COMPUTED),
    **dict.fromkeys(
        (f"{kind}_pool{r}d" for kind in ("max", "avg", "lp") for r in (1, 2, 3)), COMPUTED
    ),
    **dict.fromkeys((f"max_pool_with_indices{rank}d" for rank in (1, 2, 3)), COMPUTED),
    **dict.fromkeys((f"max_unpool{rank}d" for rank in (1, 2, 3)), COMPUTED),
    **dict.fromkeys(("im2col", "col2im", "deform_conv2d"), COMPUTED),
    **dict.fromkeys(("pad", "repeat", "reshape"), COMPUTED),
    **dict.fromkeys(("split", "tile"), COMPUTED),
    **dict.fromkeys(("bits_of_key", "philox_bits", "split_key"), COMPUTED),
    **dict.fromkeys(
        (
            f"{kind}_of_key"
            for kind in (
                "bernoulli",
                "exponential",
                "gumbel",
                "normal",
                "randint",
                "truncated_normal",
                "uniform",
            )
        ),
        COMPUTED,
    ),
    **dict.fromkeys((d.type for d in KERNELS if d.random), DRAWN),
    **dict.fromkeys((d.type for d in KERNELS if d.lists), LISTED),
    "broadcast_to": "the attribute is a shape to which the input is brought",
    "constant": "the attribute is an array, which has a type",
    "ensure_shape": "the attribute is the shape",
    "identity": "the input may be a list",
    "squeeze": "unnamed sizes of what is removed become 1",
    "stack": "refuses what differs as concat does",
}
"""Operators whose shapes do not follow from their axes, and why."""


def test_shapes_follow_from_axes_but_where_a_reason_says_why_not() -> None:
    assert {d.type for d in KERNELS if d.infer_rule is not None} == set(OWN_RULES)
    for definition in KERNELS:
        rules = (definition.infer_rule, definition.dtype_rule)
        assert sum(rule is not None for rule in rules) == 1, definition.type


def test_few_operators_have_a_rule_of_their_own_but_where_attributes_say_sizes() -> None:
    others = [why for why in OWN_RULES.values() if why not in (COMPUTED, DRAWN, LISTED)]
    assert len(others) <= 6


# ---- sizes -----------------------------------------------------------------------------------


def type_of(build: Callable[..., br.Var], *shapes: list[Any]) -> str:
    with br.Program():
        return str(build(*[br.data(f"x{i}", shape) for i, shape in enumerate(shapes)]).type)


@pytest.mark.parametrize(
    ("build", "shapes", "type_"),
    [
        (br.matmul, [["b", "t", 3], [3, 4]], "f32[b,t,4]"),
        (br.matmul, [[2, 1, 5, 3], ["h", 3, 4]], "f32[2,h,5,4]"),
        (lambda x, y: x + y, [["b", 1], [5]], "f32[b,5]"),
        (lambda x: br.sum(x, axis=-1, keepdims=True), [["b", 4]], "f32[b,1]"),
        (lambda x: br.swapaxes(x, 0, -1), [[2, "b", 3]], "f32[3,b,2]"),
        (lambda x: br.topk(x, 2)[1], [["b", 5]], "i64[b,2]"),
        (lambda x: br.layers.glu(x, axis=0), [[Dim.named("b") * 4, 3]], "f32[2*b,3]"),
        (lambda x: br.unstack(x, axis=1)[1], [["b", 3, 2]], "f32[b,2]"),
        (lambda x: br.one_hot(br.cast(x, "int64"), x.shape[0]), [["b"]], "f32[b,b]"),
        (lambda: br.eye(3, Dim.named("m")), [], "f32[3,m]"),
        (lambda x, y: br.einsum("...i,ij->...j", x, y), [["b", 2, 3], [3, 4]], "f32[b,2,4]"),
    ],
)
def test_an_axis_has_one_size_wherever_it_is_named(
    build: Any, shapes: list[Any], type_: str
) -> None:
    assert type_of(build, *shapes) == type_


@pytest.mark.parametrize(
    ("build", "x", "y"),
    [
        (br.matmul, ["b", None], [3, 4]),
        (br.squared_error, ["b", None], ["b", 3]),
        (br.einsum, ["b", None], [3]),
        (lambda x, y: x + y, ["b", None], ["b", 3]),
        (br.layer_norm, ["b", None], [3]),
    ],
)
def test_an_unnamed_size_becomes_what_stands_beside_it(build: Any, x: Any, y: Any) -> None:
    with br.Program():
        unnamed, known = br.data("x", x), br.data("y", y)
        operands = ("bi,i->b", unnamed, known) if build is br.einsum else (unnamed, known)
        build(*operands)
        assert str(unnamed.type) == "f32[b,3]"


def test_an_unnamed_size_that_is_1_broadcasts() -> None:
    with br.Program():
        x, row, five = br.data("x", [None]), br.data("row", [1]), br.data("five", [2, 5])
        br.squared_error(x, row, reduction="none")
        assert str(x.type) == "f32[1]"
        assert str((x + five).type) == "f32[2,5]"


def test_what_is_known_in_one_program_is_not_in_another() -> None:
    with br.Program():
        x, one_row = br.data("x", [None, 2]), br.data("w", [4, 2])
        br.squared_error(x, one_row, reduction="none")
        assert str(br.tanh(x).type) == "f32[4,2]"
        assert str(emit("full", shape=(x.shape[0],), value=0.0).type) == "f32[4]"
    with br.Program():
        unnamed = br.data("x", [None, 2])
        rows = str(unnamed.type).partition(",")[0]
        assert rows.startswith("f32[?")
        assert str(br.tanh(unnamed).type) == f"{rows},2]"
        assert str(emit("full", shape=(unnamed.shape[0],), value=0.0).type) == f"{rows}]"


def test_what_followed_once_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with br.Program():
        x, y = br.data("x", ["b", 3]), br.data("y", [3, 4])
        first = br.matmul(x, y)
        monkeypatch.setattr(type_inference, "infer_shapes", None)
        assert br.matmul(x, y).type == first.type


# ---- what does not fit -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "shapes", "what", "fix"),
    [
        (
            br.matmul,
            [["b", 784], [512, 10]],
            "matmul cannot contract 784 with 512 for `k`.",
            "The last axis of x must equal the second last axis of y.",
        ),
        (
            br.matmul,
            [[2, 1, 1], [3, 1, 1]],
            "matmul cannot broadcast 2 with 3 on axis -3.",
            "Use equal sizes, or size 1, on this axis.",
        ),
        (
            lambda x, y: x - y,
            [["k"], ["m"]],
            "subtract cannot broadcast k with m on axis -1.",
            "Use equal sizes, or size 1, on this axis. Different symbolic sizes may differ in "
            "a run: declare the data with one name, and slice both alike, as x[1:] and y[1:].",
        ),
        (
            lambda *xs: br.einsum("ij,jk->ik", *xs),
            [[2, 3], [4, 5]],
            "einsum cannot match 3 with 4 for `j`.",
            "The last axis of xs[0] must equal the second last axis of xs[1].",
        ),
        (
            lambda x, y: br.tensordot(x, y, axes=1),
            [["b", 3], [4, 2]],
            "tensordot cannot contract 3 with 4.",
            "The last axis of x must equal the second last axis of y.",
        ),
        (
            br.layer_norm,
            [["b", 2, 4], [3]],
            "layer_norm: expected a scale of shape [4], got f32[3].",
            "The last axis of x must equal the only axis of scale.",
        ),
        (
            lambda x, y: br.batch_norm(x, y, y),
            [["b", 2, 4], [3]],
            "batch_norm: expected a running_mean of shape [2], got f32[3].",
            "The second last axis of x must equal the only axis of running_mean.",
        ),
        (
            br.squared_error,
            [["b", 1], ["b"]],
            "squared_error: expected two equal shapes, got f32[b,1] and f32[b].",
            "target must have rank 2. Use br.expand_dims, br.squeeze or br.reshape.",
        ),
        (
            br.tril,
            [["b"]],
            "tril: expected an array of rank 2 or more, got f32[b].",
            "Pass `x` with the axes `... i j`.",
        ),
        (
            lambda x: br.max(x, axis=0),
            [[0, 3]],
            "max: zero-size axis in a reduction without identity element.",
            "Reduce axes of size 1 or more.",
        ),
        (
            lambda x: br.sum(x, axis=2),
            [["b", 3]],
            "sum: axis 2 is out of range for an array of rank 2.",
            "Use an axis from -2 to 1.",
        ),
        (
            lambda: emit("full", shape=(2, -1), value=0.0),
            [],
            "full: negative axis size -1.",
            "Use a size of 0 or more.",
        ),
    ],
)
def test_shape_errors_have_the_axis_and_the_expected_size(
    build: Any, shapes: list[Any], what: str, fix: str
) -> None:
    with br.Program() as program:
        given = [br.data(f"x{i}", shape) for i, shape in enumerate(shapes)]
        before = program.definition
        with pytest.raises(ShapeError) as caught:
            build(*given)
        assert (caught.value.what, caught.value.fix) == (what, fix)
        assert "test_shapes.py" in str(caught.value)
        assert program.definition == before


def test_a_declared_size_that_is_an_expression_is_refused_with_the_way_out() -> None:
    with br.Program(), pytest.raises(ShapeError, match=r"(?s)'k - 1'.*declare `k` and slice"):
        br.data("x", ["k - 1"])


@pytest.mark.parametrize("op", ["tanh", "add", "sum", "matmul"])
def test_a_list_is_no_input_of_an_operator_on_arrays(op: str) -> None:
    with br.Program():
        made = emit("list_empty", dtype="float32", shape=(3,), history="h")
        with pytest.raises(ShapeError, match=r"expected an array, got the list list<f32\[3\]>"):
            emit(op, *[made] * len(OPS.get(op).inputs))


# ---- sizes that are said ---------------------------------------------------------------------


def said() -> tuple[br.Program, br.Var, br.Var]:
    with br.Program() as prog:
        x, y = br.data("x", ["n"], dtype="float64"), br.data("y", ["m"], dtype="float64")
        out = x * br.square(br.ensure_shape(y, x.shape))
        (slope,) = br.gradients(br.sum(out), y)
    return prog, out, slope


@pytest.mark.parametrize("mode", ["compile", "interpret"])
@pytest.mark.parametrize("size", [0, 1, 3])
def test_sizes_that_are_said_hold_in_the_run(mode: str, size: int) -> None:
    prog, out, slope = said()
    x, y = np.arange(1.0, size + 1), np.arange(2.0, size + 2)
    found = br.Executor(mode=mode).run(
        prog, br.Scope(), feed={"x": x, "y": y}, fetch=[out, slope]
    )
    np.testing.assert_allclose(found[0], x * y**2)
    np.testing.assert_allclose(found[1], 2 * x * y)


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_sizes_that_were_said_wrongly_are_an_error_of_the_run(mode: str) -> None:
    prog, out, _ = said()
    with pytest.raises(br.errors.RunError, match="differs from the shape of ensure_shape"):
        br.Executor(mode=mode).run(
            prog, br.Scope(), feed={"x": np.ones(2), "y": np.ones(3)}, fetch=out
        )


@pytest.mark.parametrize("shape", [["n", 3], [4], [-1], [Dim.named("n") + 5]])
def test_sizes_that_cannot_be_are_refused(shape: list[Any]) -> None:
    with br.Program(), pytest.raises(ShapeError):
        br.ensure_shape(br.data("x", [3]), shape)
