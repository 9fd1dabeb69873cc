"""Connectionist temporal classification is that of torch, rows without a path included.

`sequences.npz` has what torch computed; `scripts/torch_sequences.py` writes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.refusing import refuse_here

pytestmark = pytest.mark.unoptimized

TORCH = dict(np.load(Path(__file__).parents[1] / "sequences.npz"))
ROWS = len(TORCH["ctc.labels"])
LENGTHS = ["logit_lengths", "label_lengths"]


def feeds() -> dict[str, Any]:
    x = TORCH["ctc.x"].copy()
    for row, steps in enumerate(TORCH["ctc.logit_lengths"]):
        x[steps:, row] = np.nan
    names = ["labels", *LENGTHS]
    return {"x": x, **{name: TORCH[f"ctc.{name}"] for name in names}}


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_losses_and_their_gradients_are_those_of_torch(mode: Any) -> None:
    with br.Program() as program:
        x = br.data("x", ["t", "b", 4], dtype="float64")
        labels = br.data("labels", ["b", "most"], dtype="int32")
        n, m = (br.data(name, ["b"], dtype="int32") for name in LENGTHS)
        fetched, losses = dict[str, Any](), list[Any]()
        for blank in (0, 3):
            loss = br.losses.ctc_loss(x, labels, n, m, blank=blank, axis=0, reduction="none")
            fetched[f"ctc.none.{blank}"] = loss
            options = {"zero_infinity": True, "reduction": "mean", "axis": 0}
            mean = br.losses.ctc_loss(x, labels, n, m, blank=blank, **options)
            fetched[f"ctc.mean.{blank}"] = mean
            (fetched[f"ctc.mean.{blank}.grad"],) = br.gradients([mean], [x])
            losses.append(loss)
        infinite = br.gradients([br.sum(losses[0])], [x])[0]
    found = br.Executor(mode=mode).run(
        program, br.Scope(), feeds(), [*fetched.values(), infinite]
    )
    for name, value in zip(fetched, found, strict=False):
        np.testing.assert_allclose(value, TORCH[name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert np.isinf(TORCH["ctc.none.0"]).sum() == 2
    slope = np.moveaxis(found[-1], 0, 1)
    assert np.all(np.isfinite(slope))
    assert not np.any(slope[np.isinf(TORCH["ctc.none.0"])])
    assert np.any(slope[0])


def test_all_steps_and_labels_count_where_no_lengths_are_given_and_none_may_be_there() -> None:
    rng = np.random.default_rng(0)
    with br.Program() as program:
        x, y = br.data("x", ["b", "t", 3]), br.data("y", ["b", "most"], dtype="int64")
        n, m = (br.data(name, ["b"], dtype="int64") for name in "nm")
        half = br.cast(x, "bfloat16")
        total = br.losses.ctc_loss(x, y, reduction="sum")
        out = [
            br.losses.ctc_loss(x, y, reduction="none"),
            br.losses.ctc_loss(x, y, n, m, reduction="none"),
            total,
            br.losses.ctc_loss(half, y, reduction="none"),
        ]
    for steps, most in ((3, 2), (1, 1), (2, 0), (0, 0)):
        feed = {
            "x": rng.normal(size=[2, steps, 3]).astype("f4"),
            "y": np.tile([1, 2][:most], [2, 1]).astype("i8").reshape(2, most),
            **{name: np.full(2, size) for name, size in (("n", steps), ("m", most))},
        }
        plain, said, total, half = br.Executor(mode="interpret").run(
            program, br.Scope(), feed, out
        )
        np.testing.assert_array_equal(plain, said)
        np.testing.assert_allclose(total, plain.sum(), rtol=1e-6)
        np.testing.assert_allclose(half.astype("f4"), plain, rtol=0.05)
        likely = feed["x"] - np.log(np.exp(feed["x"]).sum(-1, keepdims=True))
        if most == 0:
            np.testing.assert_allclose(plain, -likely[:, :, 0].sum(1), rtol=1e-5, atol=1e-6)
        if steps == 1:
            np.testing.assert_allclose(plain, -likely[:, 0, 1], rtol=1e-5)


def test_the_best_class_of_each_step_gives_labels_without_repetitions_and_blanks() -> None:
    best = np.array([[1, 1, 0, 1, 2, 2], [0, 0, 2, 2, 2, 1], [2, 1, 1, 1, 1, 1]])
    lengths = np.array([6, 5, 0], "int32")
    with br.Program() as program:
        x, n = br.data("x", ["b", "t", 3]), br.data("n", ["b"], dtype="int32")
        some = br.layers.ctc_greedy_decode(x, n)
        first = br.moveaxis(x, 1, 0)
        every = br.layers.ctc_greedy_decode(first, blank=2, padding=7, axis=0)
    feed = {"x": np.eye(3, dtype="f4")[best], "n": lengths}
    for mode in ("interpret", "compile"):
        found = br.Executor(mode=mode).run(program, br.Scope(), feed, [*some, *every])
        rest = -1
        wanted = [[1, 1, 2, *[rest] * 3], [2, *[rest] * 5], [rest] * 6]
        np.testing.assert_array_equal(found[0], wanted)
        np.testing.assert_array_equal(found[1], [3, 1, 0])
        wanted = [[1, 0, 1, 7, 7, 7], [0, 1, 7, 7, 7, 7], [1, 7, 7, 7, 7, 7]]
        np.testing.assert_array_equal(found[2], wanted)
        np.testing.assert_array_equal(found[3], [3, 2, 1])
    with br.Program() as program:
        out = br.layers.ctc_greedy_decode(br.data("x", [2, "t", 3]))
    found = br.Executor(mode="interpret").run(
        program, br.Scope(), {"x": np.ones([2, 0, 3], "f4")}, list(out)
    )
    assert found[0].shape == (2, 0)
    np.testing.assert_array_equal(found[1], [0, 0])


def test_invalid_arguments_raise_errors_at_the_users_line() -> None:
    with br.Program() as program:
        x, flat = br.data("seq", ["b", "t", 3]), br.data("x", ["b", 4])
        ids = br.data("ids", ["b", "t", 3], dtype="int32")
        many = br.data("many", ["b", "t", "c"])
        y = br.data("y", ["b", "most"], dtype="int32")
        few = br.data("few", [2], dtype="int32")
        others = br.data("others", ["a", "most"], dtype="int32")
        br.sum(flat, name="loss")
    shape, dtype, wrong = br.ShapeError, br.DTypeError, br.ProgramError

    def refused(error: type[Exception], do: Any, *words: str) -> None:
        refuse_here(program, error, do, "ctc", *words)

    refused(dtype, lambda: br.losses.ctc_loss(ids, y, reduction="none"), "int32")
    refused(
        dtype,
        lambda: br.losses.ctc_loss(x, flat, reduction="none"),
        "integer labels",
        "float32",
    )
    refused(
        shape, lambda: br.losses.ctc_loss(flat, y, reduction="none"), "rows, steps, classes"
    )
    refused(
        shape, lambda: br.losses.ctc_loss(x, few, reduction="none"), "labels of shape", "few"
    )
    refused(
        shape,
        lambda: br.losses.ctc_loss(x, others, reduction="none"),
        "labels of shape",
        "others",
    )
    refused(
        shape,
        lambda: br.losses.ctc_loss(x, y, few, reduction="none"),
        "each batch element",
        "few",
    )
    refused(
        shape,
        lambda: br.losses.ctc_loss(x, y, None, few, reduction="none"),
        "each batch element",
        "few",
    )
    refused(wrong, lambda: br.losses.ctc_loss(x, y, blank=3, reduction="none"), "blank=3")
    refused(
        shape,
        lambda: br.losses.ctc_loss(many, y, reduction="none"),
        "constant number of classes",
    )
    refused(wrong, lambda: br.losses.ctc_loss(x, y, reduction="avg"), "avg")
    refused(shape, lambda: br.layers.ctc_greedy_decode(x, few), "few")
    refused(wrong, lambda: br.layers.ctc_greedy_decode(x, blank=-1), "blank=-1")


def test_a_label_that_is_no_class_is_an_error_of_the_run() -> None:
    with br.Program() as program:
        x, y = br.data("x", ["b", "t", 3]), br.data("y", ["b", 1], dtype="int32")
        loss = br.losses.ctc_loss(x, y, reduction="none")
    feed = {"x": np.ones([1, 2, 3], "f4"), "y": np.array([[3]], "i4")}
    for mode in ("interpret", "compile"):
        with pytest.raises(br.IndexRangeError):
            br.Executor(mode=mode).run(program, br.Scope(), feed, [loss])
