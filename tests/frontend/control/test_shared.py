"""Functions that are built once, and called again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.support.layer_examples import LAYERS

pytestmark = pytest.mark.unoptimized


def test_a_layer_is_shared_by_calling_it_again(mode: str) -> None:
    encode = br.shared(br.fc, name="enc")
    with br.Program() as prog:
        x, y = br.data("x", ["n", 3]), br.data("y", ["m", 3])
        a, b = encode(x, 4, act="tanh"), encode(y, 4, act="tanh")
        (w_grad,) = br.gradients(br.sum(a) + 2.0 * br.sum(b), prog.parameters[0])
    assert [p.name for p in prog.parameters] == ["enc/fc_0.w", "enc/fc_0.b"]
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=0)
    xs, ys = np.ones([2, 3], np.float32), np.full([5, 3], 0.5, np.float32)
    got_a, got_b, got_grad = exe.run(prog, scope, {"x": xs, "y": ys}, [a, b, w_grad])
    w = np.asarray(scope.find_var("enc/fc_0.w").value)
    np.testing.assert_allclose(got_a, np.tanh(xs @ w), rtol=1e-6)
    np.testing.assert_allclose(got_b, np.tanh(ys @ w), rtol=1e-6)
    want = xs.T @ (1 - got_a**2) + 2.0 * (ys.T @ (1 - got_b**2))
    np.testing.assert_allclose(got_grad, want, rtol=1e-5)


def test_annotations_of_a_users_function_convert_no_argument() -> None:
    def scaled(x: Any, by: Any) -> Any:
        return br.tanh(x) * by

    with br.Program():
        x = br.data("x", [3])
        for annotation in (int, "int", "int | None", br.Var):
            scaled.__annotations__ = {"x": br.Var, "by": annotation}
            assert str(br.shared(scaled)(x, by=x).type) == "f32[3]"
            assert str(br.shared(scaled)(x, x).type) == "f32[3]"


BLOCKS = [
    "conv_lstm",
    "gru",
    "lstm",
    "multi_head_attention",
    "separable_conv1d",
    "separable_conv2d",
    "simple_rnn",
    "transformer_decoder_layer",
    "transformer_encoder_layer",
]
"""Layers that are one block, with parameters, whatever they are given."""


@pytest.mark.parametrize("name", BLOCKS)
def test_a_layer_that_is_a_block_is_that_of_what_is_shared(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = br if hasattr(br, name) else br.layers
    layer = getattr(home, name)
    with br.Program() as alone:
        LAYERS[name]()
    monkeypatch.setattr(home, name, br.shared(layer, name="enc"))
    with br.Program() as prog:
        LAYERS[name]()
    found = [info.name for info in prog.parameters]
    assert found == [info.name.replace(f"{name}/", "enc/", 1) for info in alone.parameters]
    assert len(prog.blocks) == len(alone.blocks)
    assert [op.name for op in prog.block(0).ops if op.type == "block"] == ["enc"]


def test_a_shared_layer_is_called_again_with_its_parameters(mode: str) -> None:
    encode = br.shared(br.lstm, name="enc")
    with br.Program() as prog:
        x, y = br.data("x", ["n", 5, 3]), br.data("y", ["m", 5, 3])
        (a, (h, _)), (b, _) = encode(x, 4), encode(y, 4)
        with br.block("outer"):
            c, _ = br.lstm(encode(x, 4)[0], 2)
    assert {p.name.rpartition("/")[0] for p in prog.parameters} == {"enc", "outer/lstm"}
    assert c.shape[-1] == 2
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=0)
    xs = np.random.default_rng(0).normal(size=[2, 5, 3]).astype(np.float32)
    got = exe.run(prog, scope, {"x": xs, "y": xs[:1]}, [a, b, h])
    np.testing.assert_allclose(got[0][:1], got[1], rtol=1e-5)
    np.testing.assert_array_equal(got[0][:, -1], got[2])


def test_each_argument_changes_alone(mode: str) -> None:
    @br.shared
    def weighed(pair: tuple[Any, Any], *, by: dict[str, Any], power: int) -> dict[str, Any]:
        left, right = pair
        return {"out": left * by["w"] + right**power, "same": right}

    with br.Program() as prog:
        x = br.data("x", [2])
        w = br.parameter("w", [2], init=3.0)
        first = weighed((x, x), by={"w": w}, power=2)
        second = weighed((x, 2.0 * x), by={"w": np.array([5.0, 7.0], np.float32)}, power=2)
        third = weighed((first["out"], second["same"]), by={"w": w}, power=2)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    xs = np.array([1.0, -2.0], np.float32)
    got = exe.run(prog, scope, {"x": xs}, {"a": first, "b": second, "c": third}["c"])
    want = (3.0 * xs + xs**2) * 3.0 + (2.0 * xs) ** 2
    np.testing.assert_allclose(got["out"], want)
    np.testing.assert_allclose(got["same"], 2.0 * xs)
    both = exe.run(prog, scope, {"x": xs}, [first["out"], second["out"]])
    np.testing.assert_allclose(both[0], 3.0 * xs + xs**2)
    np.testing.assert_allclose(both[1], [5.0, 7.0] * xs + 4.0 * xs**2)


def test_what_is_built_in_a_step_is_called_after_it(mode: str) -> None:
    cell = br.shared(lambda x, h: br.fc(br.concat([x, h], axis=1), 3, act="tanh"), name="cell")
    with br.Program() as prog:
        x = br.data("x", ["t", "n", 2])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            h = net.add_memory(shape=[3], batch_like=x, batch_axis=1)
            h.update(cell(net.add_input(x), h))
            net.add_output(h.next)
        again = br.scan(lambda h, xt: (cell(xt, h),) * 2, rnn.final(h), x)[0]
        loss = br.sum(again)
        (grad,) = br.gradients(loss, prog.parameters[0])
    assert len(prog.parameters) == 2
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=1)
    xs = np.random.default_rng(0).normal(size=[4, 2, 2]).astype(np.float32)
    got, got_grad = exe.run(prog, scope, {"x": xs}, [again, grad])
    w = np.asarray(scope.find_var(prog.parameters[0].name).value)
    state = np.zeros([2, 3], np.float32)
    for row in (*xs, *xs):
        state = np.tanh(np.concatenate([row, state], axis=1) @ w)
    np.testing.assert_allclose(got, state, rtol=1e-5)
    assert np.abs(got_grad).max() > 0


def test_each_program_has_its_own() -> None:
    encode = br.shared(br.fc, name="enc")
    made = []
    for _ in range(2):
        with br.Program() as prog:
            x = br.data("x", ["n", 3])
            encode(x, 4)
            encode(x, 4)
        made.append(prog.to_bytes())
    assert made[0] == made[1]


def test_other_options_are_refused_by_name() -> None:
    encode = br.shared(br.fc, name="enc")
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        wide = br.cast(x, "float64")
        encode(x, 4)
        before = str(prog)
        with pytest.raises(br.ProgramError, match="`enc` was already built") as told:
            encode(x, 5)
        assert "enc(x, 4), and now enc(x, 5)" in str(told.value)
        assert "fc, at" in str(told.value)
        assert "test_shared.py" in str(told.value)
        with pytest.raises(br.ProgramError, match="enc\\(x, 4, act='tanh'\\)"):
            encode(x, 4, act="tanh")
        with pytest.raises(br.DTypeError, match="dtype mismatch"):
            encode(wide, 4)
    assert str(prog) == before


def test_what_an_error_undid_is_built_again() -> None:
    encode = br.shared(br.fc, name="enc")
    with br.Program() as prog:
        x = br.data("x", ["n", 3])
        with pytest.raises(br.ShapeError), br.block("outer"):
            br.matmul(encode(x, 4), x)
        encode(x, 4)
        encode(x, 4)
    assert [p.name for p in prog.parameters] == ["enc/fc_0.w", "enc/fc_0.b"]


def test_only_functions_are_shared() -> None:
    with pytest.raises(br.ProgramError, match="expected a function"):
        br.shared(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(br.ProgramError, match="slashes"):
        br.shared(br.fc, name="a/b")


def test_what_was_built_on_a_cut_input_takes_other_sizes(mode: str) -> None:
    @br.shared
    def placed(ids: br.Var, other: br.Var) -> br.Var:
        places = br.cast(br.arange(ids.shape[1]), "float32")
        return br.sum(br.concat([ids * places, other], axis=1), axis=1)

    with br.Program() as prog:
        x, y = br.data("x", ["n", "t"]), br.data("y", ["n", "m"])
        first = placed(x[:, :-1], x[:, 1:])
        others = [placed(y, y), placed(x[:, :5], x[:, -5:]), placed(x[:, :-1], x[:, 1:])]
    feed = {
        "x": np.arange(14, dtype="float32").reshape(2, 7),
        "y": np.arange(6, dtype="float32").reshape(2, 3),
    }
    found = br.Executor(mode=mode).run(prog, br.Scope(), feed, [first, *others])
    x_, y_ = feed["x"], feed["y"]
    cut = [(x_[:, :-1], x_[:, 1:]), (y_, y_), (x_[:, :5], x_[:, -5:]), (x_[:, :-1], x_[:, 1:])]
    for got, (ids, other) in zip(found, cut, strict=True):
        want = (ids * np.arange(ids.shape[1])).sum(axis=1) + other.sum(axis=1)
        np.testing.assert_array_equal(got, want)


def test_inputs_that_were_cut_from_one_must_still_have_one_size() -> None:
    @br.shared
    def both(left: br.Var, right: br.Var) -> br.Var:
        return left[:, 0] + right[:, 0]

    with br.Program():
        x, y, z = (
            br.data(name, ["n", size]) for name, size in [("x", "t"), ("y", 4), ("z", 7)]
        )
        both(x, x[:, :-1])
        assert both(y, z[:, :3]).shape == y.shape[:1]
        with pytest.raises(br.ShapeError, match="different values of the size `t`"):
            both(y, z)
