"""The seven tasks of one page each, at a small size: invariants and purpose of each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import braces as br
from examples.tasks import (
    beam_search,
    gradient_penalty,
    images,
    language_model,
    own_operator,
    transformer,
    trees,
)

pytestmark = pytest.mark.unoptimized


def begun(program: br.Program) -> tuple[br.Executor, br.Scope]:
    scope, exe = br.Scope(), br.Executor()
    exe.init(program, scope, seed=0)
    return exe, scope


TASKS = Path(trees.__file__).parent
"""The folder of the tasks."""


def lines_of(path: Path) -> int:
    """Lines that are not empty, documentation, comments or imports."""
    text = path.read_text(encoding="utf-8")
    left = {n for n, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip()}
    for node in ast.walk(ast.parse(text)):
        told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if told or isinstance(node, ast.Import | ast.ImportFrom):
            left.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(left)


def test_the_table_says_how_many_lines_each_task_takes() -> None:
    table = (TASKS.parent / "README.md").read_text(encoding="utf-8")
    said = {name: int(n) for name, n in re.findall(r"\(tasks/(\w+)\.py\).*?\| (\d+) \|", table)}
    found = {path.stem: lines_of(path) for path in TASKS.glob("*.py") if path.stem[0] != "_"}
    assert said == found
    assert max(found.values()) <= 40
    assert sum(found.values()) <= 210


def test_a_state_is_carried_from_batch_to_batch() -> None:
    prog, bits = language_model.program, language_model.bits
    test, (exe, scope) = prog.for_test(), begun(prog)
    ids = np.random.default_rng(0).integers(0, 5, (16, 65)).astype("int32")
    halves = [ids[:, :33], ids[:, 32:]]
    step = br.prune(prog, [bits, "h", "c"])
    carried = []
    for half in halves:
        carried.append(exe.run(test, scope, {"ids": half}, bits))
        exe.run(step, scope, {"ids": half})
    assert not np.allclose(scope.var("h").value, 0)
    scope.update({name: np.zeros([16, 128], "float32") for name in "hc"})
    assert carried[0] == exe.run(test, scope, {"ids": halves[0]}, bits)
    assert carried[1] != exe.run(test, scope, {"ids": halves[1]}, bits)


def test_batches_of_a_text_follow_each_other() -> None:
    found = language_model.batches("ab" * 1000)
    np.testing.assert_array_equal(found[0, :, -1], found[1, :, 0])


def test_what_is_written_letter_by_letter_is_what_the_net_says_of_the_whole() -> None:
    prog, logits, written = transformer.program, transformer.logits, transformer.written.ids
    exe, scope = begun(prog)
    asked = transformer.sums(9, 0)[:, : transformer.ASKED]
    ids = exe.run(prog.for_test(), scope, {"text": asked}, written)
    seen = np.concatenate([asked, ids[:, :-1]], axis=1).astype("int32")
    said = exe.run(prog.for_test(), scope, {"text": seen}, logits)[:, transformer.ASKED - 1 :]
    ended = np.cumsum(ids == transformer.END, axis=1) > 0
    assert not ended.all()
    np.testing.assert_array_equal(said.argmax(-1)[~ended], ids[~ended])


@pytest.mark.thorough
def test_a_transformer_learns_to_add() -> None:
    assert transformer.train(steps=30)[0] < 2.0


def test_the_file_of_a_search_gives_names(tmp_path: Path) -> None:
    path = str(tmp_path / "names.model")
    _, scope = begun(beam_search.program)
    fetches = [beam_search.best.ids]
    br.save_model(path, beam_search.program, scope, feeds=["first"], fetches=fetches)
    found = beam_search.search(path, "ab")
    assert [len({*names}) for names in found.values()] == [5, 5]
    assert all(name[0] == first for first, names in found.items() for name in names)


@pytest.mark.thorough
def test_names_are_learned(tmp_path: Path) -> None:
    path = str(tmp_path / "names.model")
    assert beam_search.train(path, steps=150) < 0.6
    assert len({*beam_search.search(path, "r")["r"]} & {*beam_search.NAMES}) >= 3


def test_a_killed_process_ends_with_the_numbers_it_would_have_had(tmp_path: Path) -> None:
    whole, right = images.train(str(tmp_path / "whole"), epochs=1)
    images.train(str(tmp_path / "killed"), epochs=1, killed_at=25)
    again, same = images.train(str(tmp_path / "killed"), epochs=1)
    assert (right, same) == (same, right)
    assert right > 0.7
    for name in whole.names():
        np.testing.assert_array_equal(whole.var(name).value, again.var(name).value, name)


def test_trees_have_values() -> None:
    made, value = trees.tree(np.random.default_rng(3), 3)
    stack: list[int] = []
    for one in made:
        if one in (trees.MAX, trees.MIN):
            one = (max if one == trees.MAX else min)(stack.pop(), stack.pop())
        stack.append(one)
    assert stack == [value]


def test_a_stack_of_vectors_computes_what_the_shape_of_a_tree_says() -> None:
    prog, loss = trees.program, trees.loss
    exe, scope = begun(prog)
    w = {info.name: scope.var(info.name).value for info in prog.parameters}
    table, first, first_b, second, second_b, last, last_b = w.values()

    def vector(ids: list[int]) -> np.ndarray:
        stack: list[np.ndarray] = []
        for one in ids:
            if one < trees.MAX:
                stack.append(table[one])
                continue
            b, a = stack.pop(), stack.pop()
            taken = np.concatenate([b, a, np.eye(2)[one - trees.MAX]])
            stack.append(np.maximum(taken @ first + first_b, 0) @ second + second_b)
        return stack.pop() @ last + last_b

    batch = trees.batch(7, 0)
    rows = zip(batch["ids"], batch["lengths"], strict=True)
    logits = np.array([vector(ids[:n]) for ids, n in rows])
    want = np.log(np.exp(logits).sum(1)) - logits[np.arange(7), batch["values"]]
    found = exe.run(prog.for_test(), scope, batch, loss)
    np.testing.assert_allclose(found, want.mean(), rtol=1e-5)


@pytest.mark.thorough
def test_a_net_learns_the_values_of_trees() -> None:
    prog, loss = trees.program, trees.loss
    exe, scope = begun(prog)
    losses = [exe.run(prog, scope, trees.batch(20, 0), loss) for _ in range(25)]
    assert losses[-1] < 0.7 * losses[0]


def test_the_penalty_has_a_gradient_of_second_order() -> None:
    """The step down the whole gradient lowers the loss as far as its length says."""
    prog, loss = gradient_penalty.program.for_test(), gradient_penalty.loss.name
    exe, scope = begun(gradient_penalty.program)
    scope["strength"] = 3.0
    x = np.random.default_rng(0).uniform(size=(40, 64)).astype("float32")
    feed = {"x": x, "y": (np.arange(40) % 10).astype("int32")}
    with prog:
        pairs = br.append_backward(prog.var(loss))
    grads = exe.run(prog, scope, feed, {p.name: g for p, g in pairs.items()})
    square = sum(float(np.sum(np.square(grad, dtype="float64"))) for grad in grads.values())
    step, losses = 1e-2, []
    values = {name: scope.var(name).value for name in grads}
    for sign in (1, -1):
        scope.update({n: value + sign * step * grads[n] for n, value in values.items()})
        losses.append(exe.run(prog, scope, feed, loss))
    np.testing.assert_allclose((losses[0] - losses[1]) / (2 * step), square, rtol=2e-2)


def test_numbers_of_two_bits_have_the_gradient_of_those_that_were_rounded(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"])
        out = own_operator.rounded(x)
        (slope,) = br.gradients([br.sum(out * 3.0)], [x])
    feed = {"x": np.array([-2.0, -0.9, -0.2, 0.4, 1.5], "float32")}
    found, grad = br.Executor(mode=mode).run(prog, br.Scope(), feed, [out, slope])
    np.testing.assert_allclose(found, [-1, -1, -1 / 3, 1 / 3, 1], rtol=1e-6)
    np.testing.assert_array_equal(grad, [0, 3, 3, 3, 0])


@pytest.mark.thorough
def test_a_net_of_two_bits_learns() -> None:
    assert own_operator.train(epochs=4)[0] > 0.5
