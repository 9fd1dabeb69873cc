"""Every layer in steps with lengths and in row-wise branches, and its gradient's gradient."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import braces as br
from braces.frontend.core.pytree import tree_leaves
from tests.support.layer_examples import LAYERS, feeding

APART = {
    "AttentionCache": "has no rows of data",
    "attention_cache": "has no rows of data",
    "batch_norm": "looks at all rows, and keeps states",
    "spectral_norm": "takes weights, and keeps a state",
    "weight_norm": "takes weights",
}
"""What is not built in blocks of rows, and why; `test_torch_layers.py` builds them in steps."""
NOISY = ["alpha_dropout", "dropout", "gaussian_dropout", "gaussian_noise", "rrelu"]
"""What draws for each row by its number among all, which it has not alone."""
NAMES = [name for name in LAYERS if name not in {*APART, *NOISY}]
STILL = {"ctc_greedy_decode", "positional_encoding"}
"""The layers without gradient."""
CURVED = [name for name in NAMES if name not in {*STILL, "embedding", "embedding_bag"}]
"""What is not linear in all that has a gradient, in float64."""
STEPS, ROWS = 2, 3


def declared(name: str) -> dict[str, br.dtypes.TensorType]:
    """The data that a layer takes."""
    with br.Program() as prog:
        LAYERS[name]()
    return {info.name: info.type for info in prog.vars.values() if info.kind == "data"}


def built(name: str, given: dict[str, br.Var]) -> br.Var:
    """One number for each row, of all that a layer gives."""
    with feeding(given):
        found = [end for end in tree_leaves(LAYERS[name]()) if isinstance(end, br.Var)]
    floats = [br.sin(end) if end.dtype.kind == "f" else 0.1 * end for end in found]
    rows = [br.reshape(end, (end.shape[0], -1)) for end in floats]
    return br.cast(br.sum(br.concat(rows, axis=1), axis=1), "float64")


def sources(name: str, prog: br.Program, given: dict[str, br.Var]) -> list[br.Var]:
    """Return the variables with gradients."""
    if name in STILL:
        return []
    floats = [var for var in given.values() if var.dtype.kind == "f"]
    return [*floats, *(prog.var(info.name) for info in prog.parameters)]


def wide(name: str, front: list[str]) -> dict[str, br.Var]:
    """Data of a layer in float64, behind other axes."""
    return {
        key: br.data(key, [*front, *type_.shape[1:]],
                     "float64" if type_.dtype.kind == "f" else str(type_.dtype))
        for key, type_ in declared(name).items()
    }  # fmt: skip


def numbers(given: dict[str, br.Var], front: list[int]) -> dict[str, np.ndarray]:
    """Values for data."""
    rng, found = np.random.default_rng(1), dict[str, np.ndarray]()
    for key, var in given.items():
        sizes = [*front, *var.shape[len(front) :]]
        floats = var.dtype.kind == "f"
        found[key] = rng.normal(size=sizes) if floats else rng.integers(1, 3, sizes)
        found[key] = found[key].astype(str(var.dtype))
    return found


class InBlocks(NamedTuple):
    """A layer in a row-wise branch of a step with lengths.

    Attributes:
        end: One number for each row of each step.
        grads: Of their sum.
    """

    prog: br.Program
    whole: dict[str, br.Var]
    end: br.Var
    grads: Any


def in_blocks(name: str) -> InBlocks:
    with br.Program() as prog:
        whole = wide(name, ["t", "b"])
        n, chosen = br.data("n", ["b"], "int32"), br.data("chosen", ["t", "b"], "bool")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            step = {key: net.add_input(var) for key, var in whole.items()}
            choice = br.create_if_else(net.add_input(chosen))
            with choice.true_block() as case:
                inside = {key: case.add_input(var) for key, var in step.items()}
                case.add_output(built(name, inside))
            with choice.false_block() as case:
                one = case.add_input(next(iter(step.values())))
                flat = br.reshape(br.cast(one, "float64"), (one.shape[0], -1))
                case.add_output(br.zeros_like(flat[:, 0]))
            net.add_output(choice())
        end = rnn()
        grads = br.gradients([br.sum(end)], sources(name, prog, whole))
    return InBlocks(prog, whole, end, grads)


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_is_the_same_in_a_step_with_lengths_and_a_branch(name: str) -> None:
    with br.Program() as alone:
        given = wide(name, ["b"])
        rows = built(name, given)
        slopes = br.gradients([br.sum(rows)], sources(name, alone, given))
    prog, whole, end, grads = in_blocks(name)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=2)
    assert [p.name for p in prog.parameters] == [p.name for p in alone.parameters]
    feed = numbers(whole, [STEPS, ROWS])
    lengths, counted = np.array([2, 0, 1], "i4"), np.array([[1, 1, 0], [1, 1, 1]], bool)
    runs = counted & (np.arange(STEPS)[:, None] < lengths)
    for value in feed.values():
        if value.dtype.kind == "f":
            value[~(np.arange(STEPS)[:, None] < lengths)] = np.nan
    told = {"n": lengths, "chosen": counted}
    got, *found = exe.run(prog, scope, feed | told, [end, *grads])
    parts = [{key: value[at][runs[at]] for key, value in feed.items()} for at in range(STEPS)]
    wanted = [exe.run(alone, scope, part, [rows, *slopes]) for part in parts]
    np.testing.assert_allclose(got[runs], np.concatenate([w[0] for w in wanted]), 1e-6, 1e-9)
    assert not got[~runs].any()
    floats = 0 if name in STILL else sum(var.dtype.kind == "f" for var in whole.values())
    for at, grad in enumerate(found):
        right = [w[1 + at] for w in wanted]
        if at < floats:
            assert not grad[~runs].any()
            grad, right = grad[runs], np.concatenate(right)
        else:
            right = sum(right)
        np.testing.assert_allclose(grad, right, 1e-6, 1e-9)


@pytest.mark.parametrize("name", NOISY)
def test_a_layer_draws_the_same_for_a_row_whichever_others_run(name: str) -> None:
    prog, whole, end, grads = in_blocks(name)
    exe, scope, feed = br.Executor(), br.Scope(), numbers(whole, [STEPS, ROWS])
    full = {"n": np.full(ROWS, STEPS, "i4"), "chosen": np.ones([STEPS, ROWS], bool)}
    few = {"n": np.array([2, 0, 1], "i4"), "chosen": np.array([[1, 1, 0], [1, 1, 1]], bool)}
    found = list[Any]()
    for told in (full, few):
        exe.init(prog, scope, seed=2)
        found.append(exe.run(prog, scope, feed | told, [end, *grads]))
    runs = few["chosen"] & (np.arange(STEPS)[:, None] < few["n"])
    for every, some in zip(*found, strict=True):
        assert every[runs].any()
        np.testing.assert_allclose(some[runs], every[runs], 1e-6, 1e-9)
        assert not some[~runs].any()


@pytest.mark.parametrize("kind", ["steps", "pictures"])
def test_what_loops_in_branches_compute_for_all_trips_keeps_its_rows(kind: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3, 2] if kind == "steps" else ["b", 3, 2, 4, 4])
        n, chosen = br.data("n", ["b"], "int32"), br.data("chosen", ["b"], "bool")
        choice = br.create_if_else(chosen)
        with choice.true_block() as case:
            row, length = case.add_input(x), case.add_input(n)
            if kind == "steps":
                out, _ = br.lstm(row, 2, lengths=length)
            else:
                out, _ = br.layers.conv_lstm(row, 2, 3)
            case.add_output(br.sum(br.reshape(out, (row.shape[0], -1)), axis=1))
        with choice.false_block() as case:
            case.add_output(br.cast(case.add_input(n), "float32"))
        (grad,) = br.gradients([br.sum(br.sin(choice()))], [x])
    xs = np.random.default_rng(0).normal(size=[3, *x.shape[1:]]).astype("f4")
    feed = {"x": xs, "n": np.array([1, 3, 2], "i4"), "chosen": np.array([True, False, True])}
    scope = br.Scope()
    br.Executor().init(prog, scope, seed=0)
    fetch = [choice(), grad]
    found, wanted = (
        br.Executor(mode=mode).run(prog, scope, feed, fetch)
        for mode in ("compile", "interpret")
    )
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, 1e-4, 1e-6)
    assert not found[1][1].any()
    assert found[1][2].any()


@pytest.mark.parametrize("name", CURVED[::-1])
def test_the_gradients_gradient_is_that_of_differences(name: str) -> None:
    with br.Program() as prog:
        given = wide(name, ["b"])
        rows = built(name, given)
        over = sources(name, prog, given)
        along = [br.data(f"v{at}", var.shape, "float64") for at, var in enumerate(over)]
        slopes = br.gradients([br.sum(rows * rows)], over)
        turned = [br.sum(slope * v) for slope, v in zip(slopes, along, strict=True)]
        second = br.gradients([sum(turned[1:], turned[0])], over)
    exe, scope = br.Executor(), br.Scope()
    exe.init(prog, scope, seed=2)
    feed = numbers(given, [ROWS])
    base = [feed[var.name] if var.name in feed else np.asarray(scope.find_var(var.name).value)
            for var in over]  # fmt: skip
    rng = np.random.default_rng(3)
    v = [rng.normal(size=value.shape) for value in base]
    feed |= {f"v{at}": value for at, value in enumerate(v)}
    found = exe.run(prog, scope, feed, second)

    def slopes_at(shift: float) -> list[np.ndarray]:
        moved = [x + shift * d for x, d in zip(base, v, strict=True)]
        for var, value in zip(over, moved, strict=True):
            if var.name in feed:
                feed[var.name] = value
            else:
                scope.var(var.name).set(value)
        return exe.run(prog, scope, feed, slopes)

    tiny = 1e-6
    for left, right, value in zip(slopes_at(tiny), slopes_at(-tiny), found, strict=True):
        np.testing.assert_allclose(value, (left - right) / (2 * tiny), 1e-4, 1e-5)
