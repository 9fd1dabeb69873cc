"""Loops and branches on several devices: each runs its own rows, and sums go between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.support.sharded_models import (
    MODELS,
    ROWS,
    STEPS,
    WIDTH,
    batch,
    classifier,
    collectives,
    layouts,
    train,
)
from tests.support.sharded_rows import DATA, Branch, add_gradients, alike, by_mask, masked

pytestmark = pytest.mark.unoptimized

REDUCED = dict.fromkeys(MODELS, 2) | {"looping": 4, "branching_whole": 4}
"""How often devices add up in a step of training: the loss and all gradients, and the checks.

A condition of all rows is added up too, and so are the gradients of what runs only where the
data says so.
"""
CHEAP = {"with_lengths", "branching"}


def every() -> list[Any]:
    """Each model; what costs much is left to `make thorough`."""
    return [
        pytest.param(model, marks=() if model in CHEAP else pytest.mark.thorough)
        for model in MODELS
    ]


@pytest.mark.parametrize("model", every())
def test_devices_that_have_rows_tell_each_other_sums_alone(
    model: str, rng: np.random.Generator
) -> None:
    program, loss = classifier(model)
    exe = br.Executor(layout=DATA)
    train(program, loss, exe, batch(program, rng), steps=1)
    assert collectives(exe, program) == {"all-reduce": REDUCED[model]}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["data", "fsdp", "tensor", "both"])
@pytest.mark.parametrize("model", MODELS)
def test_in_64_bits_only_the_order_of_additions_tells_devices_apart(
    model: str, kind: str, rng: np.random.Generator
) -> None:
    program, loss = classifier(model, "float64")
    fed = batch(program, rng)
    alone = train(program, loss, br.Executor(), fed)
    found = train(program, loss, br.Executor(layout=layouts(program)[kind]), fed)
    np.testing.assert_allclose(found.losses, alone.losses, rtol=0, atol=1e-12)
    for name in alone.scope.names():
        np.testing.assert_allclose(
            found.scope[name], alone.scope[name], rtol=0, atol=1e-12, err_msg=name
        )


# ---- which rows run --------------------------------------------------------------------------


def plain(t: Any, h: br.Var) -> br.Var:
    """Each row on its own."""
    return br.tanh(br.fc(t.add_input(h), 8, name="in"))


def test_each_device_runs_the_rows_that_it_has(rng: np.random.Generator) -> None:
    program, wanted = by_mask(plain)
    exe = alike(program, wanted, masked(rng))
    assert collectives(exe, program)["all-gather"] == 1  # the rows that are fetched


@pytest.mark.thorough
def test_rows_are_interpreted(rng: np.random.Generator) -> None:
    program, wanted = by_mask(plain)
    alike(program, wanted, masked(rng), "interpret")


@pytest.mark.thorough
def test_no_rows_at_all(mode: str, rng: np.random.Generator) -> None:
    program, wanted = by_mask(plain)
    fed = {"x": rng.normal(size=[0, WIDTH]), "chosen": np.zeros(0, bool)}
    alike(program, wanted[:1], [fed], mode)


@pytest.mark.thorough
def test_gradients_of_gradients(mode: str, rng: np.random.Generator) -> None:
    program, wanted = by_mask(plain, orders=2)
    alike(program, wanted, masked(rng), mode)


@pytest.mark.thorough
def test_a_layout_of_two_axes_of_the_mesh(rng: np.random.Generator) -> None:
    program, wanted = by_mask(plain)
    mesh = br.Mesh({"data": 4, "model": 2})
    for axes in ("data", ("data", "model"), ("model", "data")):
        layout = br.Layout(
            mesh, {"batch": axes}, {"in.w": (None, None), "up.w": (None, "model")}
        )
        alike(program, wanted, masked(rng), layout=layout)


# ---- what cannot run in parts ----------------------------------------------------------------


def centred(t: Any, h: br.Var) -> br.Var:
    """Rows less the mean of those that are chosen."""
    rows = t.add_input(h)
    return rows - br.mean(rows, axis=0)


def summed(t: Any, h: br.Var) -> br.Var:
    """Rows times a sum over those that are chosen."""
    rows = t.add_input(h)
    return br.einsum("ri,sj->ri", rows, rows)


def beside_all(t: Any, h: br.Var) -> br.Var:
    """Rows beside the sum of all, chosen or not."""
    return t.add_input(h) + br.sum(h, axis=0)


def drawn(t: Any, h: br.Var) -> br.Var:
    """Draws for each row."""
    return br.dropout(t.add_input(h), 0.5) + br.random.normal([8], dtype="float64")


@pytest.mark.thorough
@pytest.mark.parametrize("branch", [centred, summed, beside_all, drawn])
def test_whatever_a_branch_does_to_its_rows(
    branch: Branch, mode: str, rng: np.random.Generator
) -> None:
    program, wanted = by_mask(branch)
    alike(program, wanted, masked(rng), mode)


# ---- steps -----------------------------------------------------------------------------------

LENGTHS = {
    "none": np.zeros(ROWS, int),
    "all": np.full(ROWS, STEPS),
    "those of some devices": np.where(np.arange(ROWS) < ROWS // 2, STEPS, 0),
    "all others": np.arange(ROWS) % (STEPS + 1),
}


def stepped(drop: bool, orders: int) -> tuple[br.Program, list[br.Var]]:
    """Steps with lengths; all steps, the last one, and gradients."""
    with br.Program() as program:
        x = br.data("x", ["batch", "time", WIDTH], dtype="float64")
        rnn = br.create_rnn(lengths=br.data("lengths", ["batch"], dtype="int32"))
        with rnn.stepnet() as net:
            xt = net.add_input(x, axis=1)
            h = net.add_memory(shape=[8], batch_like=x, batch_axis=0)
            given = br.dropout(xt, 0.5) if drop else xt
            after = br.tanh(br.fc(given, 8, name="up") + br.fc(h, 8, name="again"))
            h.update(after)
            net.add_output(after)
        wanted = [br.mean(rnn(), axis=0)]
        add_gradients(program, wanted, orders)
    return program, wanted


def sequences(rng: np.random.Generator, steps: int) -> list[dict[str, Any]]:
    """Steps of rows that end."""
    x = rng.normal(size=[ROWS, steps, WIDTH])
    return [{"x": x, "lengths": np.minimum(ends, steps)} for ends in LENGTHS.values()]


@pytest.mark.parametrize(
    ("drop", "orders", "steps"),
    [
        (False, 1, STEPS),
        (True, 1, STEPS),
        (False, 2, STEPS),
        (True, 1, 1),
    ],
)
@pytest.mark.thorough
def test_rows_end_on_each_device_for_themselves(
    drop: bool, orders: int, steps: int, rng: np.random.Generator
) -> None:
    program, wanted = stepped(drop, orders)
    exe = alike(program, wanted, sequences(rng, steps))
    assert "all-to-all" not in collectives(exe, program)


@pytest.mark.thorough
def test_rows_end_where_steps_are_interpreted(rng: np.random.Generator) -> None:
    program, wanted = stepped(True, 1)
    alike(program, wanted, sequences(rng, STEPS), "interpret")


# ---- what fails ------------------------------------------------------------------------------


def test_an_invalid_id_on_one_device_fails_on_all_devices(rng: np.random.Generator) -> None:
    with br.Program() as program:
        ids = br.data("ids", ["batch"], dtype="int32")
        choice = br.create_if_else(br.data("chosen", ["batch"], dtype="bool"))
        with choice.true_block() as t:
            t.add_output(br.embedding(t.add_input(ids), (8, 4), name="table"))
        with choice.false_block() as f:
            f.add_output(
                br.zeros_like(br.cast(f.add_input(ids), "float32"))[:, None] * br.ones([4])
            )
        loss = br.mean(br.fc(choice(), 2, name="up") ** 2)
        br.optimizer.adam(0.1).minimize(loss)
    scope, exe = br.Scope(), br.Executor(layout=DATA)
    exe.init(program, scope)
    ids = rng.integers(0, 8, ROWS)
    fed = {"ids": ids, "chosen": np.arange(ROWS) % 3 == 0}
    exe.run(program, scope, fed, loss)
    before = scope.state_dict()
    ids[9] = 99  # of the fifth device
    with pytest.raises(br.IndexRangeError, match=r"test_layout_control\.py"):
        exe.run(program, scope, fed, loss)
    for name, value in before.items():
        np.testing.assert_array_equal(scope[name], value, name)
    exe.run(program, scope, {**fed, "chosen": np.arange(ROWS) == 3}, loss)  # nobody looks it up
