"""Conditional random fields, compared with an enumeration of all paths."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import refuse_here

pytestmark = pytest.mark.unoptimized

STEPS, TAGS = 3, 3
LENGTHS = np.array([3, 0, 1, 2], "int32")
NAMES = ["crf.transitions", "crf.start", "crf.end"]


def numbers() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = [4, STEPS, TAGS], [TAGS, TAGS], [TAGS], [TAGS]
    return {
        name: rng.normal(size=shape) for name, shape in zip(["x", *NAMES], shapes, strict=True)
    }


def score(x: Any, path: Any, values: dict[str, Any]) -> float:
    """That of one path, as the formula says."""
    if not len(path):
        return 0.0
    pairs, start, end = (values[name] for name in NAMES)
    found = start[path[0]] + end[path[-1]] + sum(x[t, tag] for t, tag in enumerate(path))
    return found + sum(pairs[a, b] for a, b in itertools.pairwise(path))


def by_hand(values: dict[str, Any], labels: Any) -> tuple[list[float], list[Any], list[float]]:
    """Losses, best paths and their scores, from all paths of each row."""
    losses, best, most = list[float](), list[Any](), list[float]()
    for x, row, steps in zip(values["x"], labels, LENGTHS, strict=True):
        paths = list(itertools.product(range(TAGS), repeat=int(steps)))
        scores = [score(x, path, values) for path in paths]
        losses.append(np.log(np.sum(np.exp(scores))) - score(x, row[:steps], values))
        best.append([*paths[int(np.argmax(scores))], *[0] * (STEPS - steps)])
        most.append(max(scores))
    return losses, best, most


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_losses_gradients_and_best_paths_are_those_of_all_paths(mode: Any) -> None:
    values = numbers()
    labels = np.random.default_rng(1).integers(0, TAGS, [4, STEPS]).astype("int32")
    with br.Program() as program:
        x = br.data("x", ["b", "t", TAGS], dtype="float64")
        y, n = br.data("y", ["b", "t"], dtype="int32"), br.data("n", ["b"], dtype="int32")
        loss = br.layers.conditional_random_field(x, y, lengths=n, name="crf", reduction="none")
        assert [p.name for p in program.parameters] == NAMES
        weights = [br.get_variable(name) for name in NAMES]
        path, best = br.layers.viterbi(x, params=NAMES, lengths=n)
        first, swapped = br.swapaxes(x, 0, 1), br.swapaxes(y, 0, 1)
        total = br.layers.conditional_random_field(
            *(first, swapped, *weights), lengths=n, axis=0, reduction="sum"
        )
        turned, _ = br.layers.viterbi(first, *weights, lengths=n, axis=0)
        grads = br.gradients([total], [x, *weights])
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(program, scope)
    for name in NAMES:
        scope.var(name).set(values[name])
    losses, paths, most = by_hand(values, labels)
    given, padded = values["x"].copy(), labels.copy()
    for row, steps in enumerate(LENGTHS):
        given[row, steps:], padded[row, steps:] = np.nan, -7
    feed = {"x": given, "y": padded, "n": LENGTHS}
    found = exe.run(program, scope, feed, [loss, path, best, total, turned, *grads])
    np.testing.assert_allclose(found[0], losses, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(found[1], paths)
    np.testing.assert_allclose(found[2], most, rtol=1e-10)
    np.testing.assert_allclose(found[3], sum(losses), rtol=1e-10)
    np.testing.assert_array_equal(found[4], np.transpose(paths))
    rng = np.random.default_rng(2)
    for name, grad in zip(["x", *NAMES], found[5:], strict=True):
        way = rng.normal(size=grad.shape)
        up, down = (
            sum(by_hand(values | {name: values[name] + step * way}, labels)[0])
            for step in (1e-5, -1e-5)
        )
        np.testing.assert_allclose(np.sum(grad * way), (up - down) / 2e-5, rtol=1e-6)
    assert not np.any(found[5][1])
    assert not np.any(found[5][2, 1:])


def test_fields_may_have_one_step_or_none_and_no_scores_of_first_and_last_tags() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=[TAGS, TAGS]).astype("f4")
    pairs[0, 1] = -np.inf  # which may not follow each other
    with br.Program() as program:
        x, y = br.data("x", ["b", "t", TAGS]), br.data("y", ["b", "t"], dtype="int64")
        loss = br.layers.conditional_random_field(x, y, pairs, reduction="none")
        path, best = br.layers.viterbi(x, pairs)
    assert not program.parameters
    for steps in (2, 1, 0):
        scores = rng.normal(size=[2, steps, TAGS]).astype("f4")
        labels = np.zeros([2, steps], "i8")
        found = br.Executor(mode="interpret").run(
            program, br.Scope(), {"x": scores, "y": labels}, [loss, path, best]
        )
        paths = list(itertools.product(range(TAGS), repeat=steps))
        for row in range(2):
            points = [
                sum(scores[row, t, tag] for t, tag in enumerate(path))
                + sum(pairs[a, b] for a, b in itertools.pairwise(path))
                for path in paths
            ]
            wanted = np.log(np.sum(np.exp(points))) - points[0]
            np.testing.assert_allclose(found[0][row], wanted, rtol=1e-4, atol=1e-6)
            np.testing.assert_array_equal(found[1][row], paths[int(np.argmax(points))])
            np.testing.assert_allclose(found[2][row], max(points), rtol=1e-5)


def test_what_does_not_fit_a_field_is_refused_at_the_users_line() -> None:
    with br.Program() as program:
        x, flat = br.data("seq", ["b", "t", 3]), br.data("x", ["b", 4])
        ids = br.data("ids", ["b", "t", 3], dtype="int32")
        y = br.data("y", ["b", "t"], dtype="int32")
        few = br.data("few", [2], dtype="int32")
        longer = br.data("longer", ["b", 5], dtype="int32")
        br.sum(flat, name="loss")
    shape, dtype, field = br.ShapeError, br.DTypeError, br.layers.conditional_random_field

    def refused(error: type[Exception], do: Any, *words: str) -> None:
        refuse_here(program, error, do, *words)

    refused(dtype, lambda: field(ids, y), "conditional_random_field", "int32")
    refused(dtype, lambda: field(x, flat), "integer labels", "float32")
    refused(shape, lambda: field(flat, y), "rows, steps, tags")
    refused(shape, lambda: field(x, longer), "labels of shape", "longer")
    refused(shape, lambda: field(x, y, lengths=few), "each batch element", "few")
    refused(shape, lambda: field(x, y, np.ones([2, 2], "f4")), "transitions of shape [3,3]")
    refused(br.ProgramError, lambda: field(x, y, reduction="avg"), "avg")
    refused(shape, lambda: br.layers.viterbi(x, lengths=few), "viterbi", "few")
    refused(dtype, lambda: br.layers.viterbi(ids), "viterbi", "int32")
    with program:
        loss = field(x, y, name="crf")
    exe, scope = br.Executor(), br.Scope()
    exe.init(program, scope)
    feed = {"seq": np.ones([1, 1, 3], "f4"), "y": np.array([[3]], "i4")}
    with pytest.raises(br.IndexRangeError):
        exe.run(program, scope, feed, [loss])
