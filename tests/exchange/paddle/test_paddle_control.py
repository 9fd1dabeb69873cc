"""Loops, branches, arrays of arrays and sequences of Paddle, by NumPy."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import ProgramError
from paddle_programs import branching, growing, normal, number, tagger
from paddle_writing import Written
from tests.exchange.paddle.test_from_paddle import close, run

MODES = ("compile", "interpret")
pytestmark = pytest.mark.unoptimized


@pytest.mark.parametrize("mode", MODES)
def test_a_while_with_an_array_that_begins_in_it_agrees_with_numpy(
    mode: str, tmp_path: Path
) -> None:
    p, x = growing(), normal(2, 3)
    wanted, given = [x], {"x": x, "n": [3]}
    for _ in range(3):
        wanted.append(np.tanh(wanted[-1] @ p.weights["w"]))
    folder = p.save(tmp_path)
    last, read, second, every, late = run(folder, given, mode)
    close(last, wanted[3])
    close(read, wanted[3])
    close(second, wanted[2])
    close(every, np.stack(wanted[1:]))
    close(late, wanted[2] @ p.weights["w"])
    prog, values = br.from_paddle(folder)
    with prog:
        loss = br.mean(br.square(prog.var(prog.fetches[1])))
        (grad,) = br.gradients([loss], [prog.var("w")])
    scope, exe = br.Scope(), br.Executor(mode=mode)
    scope.update(values)
    found = exe.run(prog, scope, feed=given, fetch=grad)
    ends = []
    for step in (1e-2, -1e-2):
        moved, h = p.weights["w"].astype("f8"), x.astype("f8")
        moved[1, 2] += step
        for _ in range(3):
            h = np.tanh(h @ moved)
        ends.append(np.mean(h**2))
    np.testing.assert_allclose(found[1, 2], (ends[0] - ends[1]) / 2e-2, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_blocks_with_a_condition_become_one_branch(mode: str, tmp_path: Path) -> None:
    p, x = branching(), normal(2, 3)
    folder = p.save(tmp_path)
    for c, one, kept in ((True, np.exp(x), x**2), (False, np.tanh(x), x)):
        first, second, third = run(folder, {"x": x, "c": [c]}, mode)
        close(first, one)
        close(second, one * 2)
        close(third, kept)
    kinds = [op.type for op in br.from_paddle(folder)[0].block(0).ops]
    assert kinds.count("switch") == 2  # both results of the first come from one


def test_what_only_a_condition_makes_is_not_read_without_it(tmp_path: Path) -> None:
    p = Written()
    c = p.feed("c", 1, dtype="bool")
    with p.block() as body:
        number(p, "a", 1.0)
    p.op("conditional_block", {"Cond": c}, {"Out": "a"}, sub_block=body,
         is_scalar_condition=True)  # fmt: skip
    p.op("relu", {"X": "a"}, {"Out": "b"})
    p.fetch("b")
    with pytest.raises(ProgramError, match="may be undefined: it is assigned in a branch only"):
        br.from_paddle(p.save(tmp_path))


@pytest.mark.parametrize("mode", MODES)
def test_a_name_that_one_branch_leaves_undefined_has_the_type_of_the_other(
    mode: str, tmp_path: Path
) -> None:
    """Paddle writes a marker of shape `[1]` for it; no defined value depends on it."""
    p, x = Written(), normal(2, 3)
    p.feed("x", -1, 3)
    c = p.feed("c", 1, dtype="bool")
    p.op("assign_value", {}, {"Out": "marker"}, shape=[1], dtype=5, values=[1.77113e27])
    p.op("logical_not", {"X": c}, {"Out": "not"})
    for asked, side, names in ((c, "yes", ["z", "y"]), ("not", "no", ["y"])):
        with p.block() as body:
            for name in names:
                p.op("exp", {"X": "x"}, {"Out": f"{side}.{name}"})
        p.op("conditional_block", {"Cond": asked, "Input": "x"},
             {"Out": [f"{side}.{name}" for name in names]}, sub_block=body,
             is_scalar_condition=True)  # fmt: skip
    p.op("cast", {"X": c}, {"Out": "mask"}, in_dtype=0, out_dtype=2)
    for out, pair in (("z", ["marker", "yes.z"]), ("y", ["no.y", "yes.y"])):
        p.op("select_input", {"X": pair, "Mask": "mask"}, {"Out": out})
    p.fetch("y", "z")
    folder = p.save(tmp_path)
    for c_value in (True, False):
        y, z = run(folder, {"x": x, "c": [c_value]}, mode)
        close(y, np.exp(x))
        close(z, np.exp(x) * c_value)


def test_a_while_that_never_ends_is_refused(tmp_path: Path) -> None:
    p = Written()
    c = p.feed("c", 1, dtype="bool")
    with p.block() as body:
        number(p, "a", 1.0)
    p.op("while", {"Condition": c}, {"Out": "a"}, sub_block=body)
    p.fetch(c)
    with pytest.raises(ProgramError, match="never assigns the condition `c`"):
        br.from_paddle(p.save(tmp_path))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_static_rnn_is_a_loop_over_its_first_axis(reverse: bool, tmp_path: Path) -> None:
    p, x, start = Written(), normal(4, 2, 3), normal(2, 3)
    p.feed("x", -1, 2, 3)
    p.feed("start", 2, 3)
    w = p.weight("w", normal(3, 3))
    with p.block() as body:
        p.op("matmul_v2", {"X": "before", "Y": w}, {"Out": "product"})
        p.op("elementwise_add", {"X": "product", "Y": "x"}, {"Out": "sum"})
        p.op("tanh", {"X": "sum"}, {"Out": "after"})
        p.op("rnn_memory_helper", {"X": "after"}, {"Out": "rows"})
    p.op("recurrent", {"inputs": "x", "initial_states": "start", "parameters": w},
         {"outputs": "rows", "step_scopes": "scopes"}, sub_block=body, reverse=reverse,
         ex_states=[b"before"], states=[b"after"])  # fmt: skip
    p.fetch("rows")
    (found,) = run(p.save(tmp_path), {"x": x, "start": start})
    wanted, h = np.zeros_like(x), start
    for t in reversed(range(4)) if reverse else range(4):
        h = wanted[t] = np.tanh(h @ p.weights["w"] + x[t])
    close(found, wanted)


# ---- sequences -------------------------------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gru_by_numpy(x: Any, weight: Any, bias: Any) -> Any:
    """One sequence backwards; the gates' weights are a matrix of their own in the file."""
    size = weight.shape[0]
    gates = weight.ravel()[: 2 * size * size].reshape(size, 2 * size)
    candidate = weight.ravel()[2 * size * size :].reshape(size, size)
    h, made = np.zeros(size), np.zeros((len(x), size))
    for t in reversed(range(len(x))):
        row = x[t] + bias[0]
        u, r = np.split(sigmoid(row[: 2 * size] + h @ gates), 2)
        new = np.tanh(row[2 * size :] + (r * h) @ candidate)
        h = made[t] = (1 - u) * h + u * new
    return made


def best_path(x: Any, transition: Any) -> Any:
    """The likeliest labels, by trying them all."""

    def score(path: Any) -> float:
        inside = sum(transition[2 + a, b] for a, b in pairwise(path))
        ends = transition[0, path[0]] + transition[1, path[-1]]
        return float(inside + ends + sum(x[t, label] for t, label in enumerate(path)))

    return max(product(range(x.shape[1]), repeat=len(x)), key=score)


@pytest.mark.parametrize("mode", MODES)
def test_sequences_are_data_and_lengths(mode: str, tmp_path: Path) -> None:
    p, lengths = tagger(), [4, 1, 0, 3]
    words = np.random.default_rng(1).integers(0, 7, (4, 4, 1))
    prog, _ = br.from_paddle(p.save(tmp_path))
    assert prog.feeds == ("words", "words.lengths")
    assert prog.fetches == ("path", "path.lengths", "mean")
    assert str(prog.var("words").type) == "i64[batch,time,1]"
    found = run(tmp_path, {"words": words, "words.lengths": lengths}, mode)
    path, kept, mean = found
    assert kept.tolist() == lengths
    w = p.weights
    table = np.where(np.arange(7)[:, None] == 0, 0.0, w["emb"])
    for row, length in enumerate(lengths):
        h = gru_by_numpy(table[words[row, :length, 0]], w["gru.w"], w["gru.b"])
        close(mean[row], h.mean(axis=0) if length else np.zeros(3))
        wanted = best_path(h @ w["fc.w"], w["crf"]) if length else ()
        assert path[row, :, 0].tolist() == [*wanted, *[0] * (4 - length)]


def test_an_operator_that_would_mix_sequences_is_refused(tmp_path: Path) -> None:
    p = Written()
    x = p.feed("x", -1, 3, level=1)
    p.op("reduce_sum", {"X": x}, {"Out": "a"}, dim=[0])
    p.op("mean", {"X": x}, {"Out": "b"})
    p.op("while", {"Condition": x}, {"Out": "c"})
    p.op("gru", {"Input": p.weight("w", normal(2, 9)), "Weight": "w"}, {"Hidden": "d"})
    p.fetch("a")
    with pytest.raises(ProgramError, match="4 unsupported operators") as caught:
        br.from_paddle(p.save(tmp_path))
    said = str(caught.value)
    assert "does not keep the rows of its operand with LoD" in said
    assert "the operator is not row-wise" in said
    assert "expected an array with LoD" in said
