"""Products in 16 bits: training, exceptions in float32, and errors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.extend.operators import OPS
from braces.extend.programs import all_bodies
from braces.passes.training.mixed_precision import PRODUCTS

pytestmark = pytest.mark.unoptimized

BF16 = br.passes.mixed_precision("bfloat16")


def model() -> tuple[br.Program, Any, Any]:
    """A layer of a transformer, a recurrent step and a row-wise branch, and their training."""
    with br.Program() as prog:
        x, y = br.data("x", ["b", 5, 8]), br.data("y", ["b"], dtype="int64")
        h = br.layers.transformer_encoder_layer(
            x, 2, 12, causal=True, norm_first=True, name="layer"
        )
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            memory = net.add_memory(shape=[8], batch_like=h)
            taken = br.concat([net.add_input(h, axis=1), memory], axis=1)
            memory.update(br.fc(taken, 8, act="tanh", name="step"))
        last = rnn.final(memory)
        choice = br.create_if_else(br.sum(last, axis=1) > 0.0)
        with choice.true_block() as block:
            block.add_output(br.fc(block.add_input(last), 3, name="one"))
        with choice.false_block() as block:
            block.add_output(br.fc(block.add_input(last), 3, name="other"))
        logits = choice()
        loss = br.softmax_cross_entropy(logits, y)
        br.optimizer.adam(learning_rate=3e-3).minimize(loss)
    return prog, loss, logits


def test_what_is_trained_in_16_bits_has_about_the_loss_and_keeps_its_parameters_whole(
    mode: str, rng: np.random.Generator
) -> None:
    prog, loss, logits = model()
    text, data = str(prog), prog.to_bytes()
    x = rng.normal(size=(16, 5, 8)).astype("f4")
    feed = {"x": x, "y": (x[:, 0, 0] > 0).astype("i8") + (x[:, 1, 1] > 0)}
    losses: dict[str, list[float]] = {}
    weights: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for name, passes in {"wide": (), "narrow": (BF16,)}.items():
        exe, scope = br.Executor(mode=mode, passes=(*br.passes.default, *passes)), br.Scope()
        exe.init(prog, scope, seed=4)
        first[name] = exe.run(prog.for_test(), scope, feed, fetch=logits)
        steps = 30 if mode == "compile" else 3
        losses[name] = [float(exe.run(prog, scope, feed, fetch=loss)) for _ in range(steps)]
        weights[name] = {p.name: scope.var(p.name).value for p in prog.parameters}
    assert (str(prog), prog.to_bytes()) == (text, data)
    assert np.any(first["wide"] != first["narrow"])
    np.testing.assert_allclose(first["narrow"], first["wide"], atol=0.1)
    np.testing.assert_allclose(losses["narrow"], losses["wide"], atol=0.08)
    assert mode == "interpret" or losses["narrow"][-1] < 0.5 * losses["narrow"][0]
    for value in weights["narrow"].values():
        assert value.dtype == np.float32
        rounded = value.astype(ml_dtypes.bfloat16).astype("f4")
        assert np.any(value != rounded)  # steps that 16 bits would lose are not lost


def test_products_alone_are_narrow_wherever_they_stand() -> None:
    prog, _, _ = model()
    made = BF16(prog)
    kinds: dict[str, set[str]] = {}
    for body, _ in all_bodies(made.definition.main):
        for op in body.ops:
            kinds.setdefault(op.type, set()).update(str(body.vars[n].type) for n in op.binds())
    narrow = {kind for kind, types in kinds.items() if any("bf16" in one for one in types)}
    assert narrow == {"cast", "matmul", "einsum"}
    assert all(one.startswith("bf16") for one in kinds["matmul"] | kinds["einsum"])
    assert {one.type for one in made.parameters} == {one.type for one in prog.parameters}
    assert all(str(one.type).startswith("f32") for one in made.parameters)


def test_convolutions_and_their_gradients_are_narrow(mode: str) -> None:
    with br.Program() as prog:
        y = br.relu(br.conv2d(br.data("x", ["b", 2, 6, 6]), 4, 3, padding="same", name="c"))
        made = br.layers.conv_transpose2d(y, br.parameter("w", [4, 2, 3, 3]))
        loss = br.mean(br.square(made))
        pairs = br.append_backward(loss)
    half = br.passes.mixed_precision("float16")
    types = [op.type for op in half(prog).block(0).ops]
    assert types.count("cast") > 10
    feed = {"x": np.linspace(-1, 1, 144, dtype="f4").reshape(2, 2, 6, 6)}
    got: list[Any] = []
    for passes in (br.passes.default, (*br.passes.default, half)):
        exe, scope = br.Executor(mode=mode, passes=passes), br.Scope()
        exe.init(prog, scope, seed=0)
        got.append(exe.run(prog, scope, feed, fetch=[loss, *dict(pairs).values()]))
    for wide, narrow in zip(*got, strict=True):
        assert np.any(wide != narrow)
        np.testing.assert_allclose(narrow, wide, rtol=0.02, atol=2e-3 * np.abs(wide).max())


def test_the_table_names_operators_that_take_long() -> None:
    for type_ in PRODUCTS:
        assert OPS.get(type_.removesuffix(".vjp")).costly, type_
        assert OPS.find(type_) is not None, type_


@pytest.mark.parametrize("dtype", ["float32", "int16", "float8_e5m2"])
def test_only_16_bit_floats_are_taken(dtype: str) -> None:
    with pytest.raises(br.DTypeError, match="16-bit float") as caught:
        br.passes.mixed_precision(dtype)
    assert "test_mixed_precision.py:" in str(caught.value)
