"""Layers: their parameters, their values, and their permitted places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.made import parameters, run
from tests.support.layer_examples import LAYERS, LINES, public_layers

pytestmark = pytest.mark.unoptimized

# ---- fc --------------------------------------------------------------------------------------


def test_fc_is_a_product_and_a_bias(mode: str, rng: np.random.Generator) -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", "t", 8])
        out = br.fc(x, 5, act="tanh", name="fc1", bias_init=0.5)
    assert parameters(prog) == {"fc1.w": "f32[8,5]", "fc1.b": "f32[5]"}
    assert (out.name, str(out.type)) == ("fc1", "f32[batch,t,5]")
    fed = rng.normal(size=(2, 3, 8)).astype("f4")
    got, values = run(mode, prog, {"x": fed}, "fc1")
    np.testing.assert_allclose(got, np.tanh(fed @ values["fc1.w"] + 0.5), atol=1e-5)


def test_fc_makes_up_names_and_the_size_of_the_last_axis() -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", 8])
        assert br.fc(br.fc(x), bias=False).shape == x.shape
    assert parameters(prog) == {"fc_0.w": "f32[8,8]", "fc_0.b": "f32[8]", "fc_1.w": "f32[8,8]"}


def test_fc_shares_parameters_by_name(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", 8])
        first = br.fc(x, params=["fc.w", "fc.b"], size=32)
        second = br.fc(x, params=["fc.w", "fc.b"])
        third = br.fc(x, params=["fc.w"])
    assert parameters(prog) == {"fc.w": "f32[8,32]", "fc.b": "f32[32]"}
    assert second.shape == third.shape == first.shape
    got, _ = run(mode, prog, {"x": np.ones((2, 8), "f4")}, [first, second])
    np.testing.assert_array_equal(*got)


def test_fc_shares_what_br_parameter_made() -> None:
    with br.Program() as prog:
        br.parameter("table", [8, 3], trainable=False)
        assert br.fc(br.data("x", ["batch", 8]), params=["table", "b"]).shape[-1] == 3
    assert parameters(prog) == {"table": "f32[8,3]", "b": "f32[3]"}


def test_fc_takes_vectors_and_other_dtypes(mode: str) -> None:
    with br.Program() as prog:
        vector = br.fc(br.data("v", [4], "float64"), 3, name="a")
        counts = br.fc(br.data("n", ["batch", 4], "int32"), 3, name="b", act=br.relu)
    assert (str(vector.type), str(counts.type)) == ("f64[3]", "f32[batch,3]")
    feed = {"v": np.ones(4), "n": np.ones((2, 4), "i4")}
    got, _ = run(mode, prog, feed, [vector, counts])
    assert [one.dtype for one in got] == ["float64", "float32"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"size": 5, "params": ["p.w", "p.b"]},
            br.ShapeError,
            "5 output features, got 3 of `p.w`",
        ),
        ({"params": "p.w"}, br.ProgramError, "a list"),
        ({"params": ["a", "b", "c"]}, br.ProgramError, "w, b"),
        ({"params": ["x"]}, br.ShapeError, "matrix|matmul"),
        ({"size": 3, "act": "tahn"}, br.UnknownNameError, "`tanh`"),
        ({"size": 3, "act": "add"}, br.UnknownNameError, "activation"),
        ({"size": "3"}, br.BracesError, "3"),
        ({"size": -3}, br.ShapeError, "-3"),
        ({"size": 3, "name": "a b"}, br.ProgramError, "name"),
        ({"size": 3, "name": "p"}, br.DuplicateNameError, "share"),
    ],
)
def test_fc_refuses_and_leaves_no_trace(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["batch", 8])
        br.fc(x, 3, name="p")
        before = str(prog), str(prog.startup)
        with pytest.raises(error, match=f"(?s)({message}).*") as caught:
            br.fc(x, **options)
        assert "test_layers.py:" in str(caught.value)
        assert (str(prog), str(prog.startup)) == before


def test_fc_takes_the_weights_themselves(mode: str, rng: np.random.Generator) -> None:
    with br.Program() as prog:
        x, table = br.data("x", ["batch", 4]), br.parameter("table", [7, 4])
        bias, tied = br.parameter("bias", [7]), table.T
        pairs = [
            (br.fc(x, tied), x @ tied),
            (br.fc(x, tied, bias=bias, act="tanh", name="out"), br.tanh(x @ tied + bias)),
            (br.fc(x, np.eye(4, dtype="f4"), bias=False), x),
            (br.fc(x, 7, bias=bias, name="made"), x @ br.get_variable("made.w") + bias),
            (
                br.fc(x, np.int64(7), params=["made.w"], bias=False),
                x @ br.get_variable("made.w"),
            ),
        ]
    assert list(parameters(prog)) == ["table", "bias", "made.w"]
    assert pairs[1][0].name == "out"
    fed = rng.normal(size=(2, 4)).astype("f4")
    got, _ = run(mode, prog, {"x": fed}, [one for pair in pairs for one in pair])
    for left, right in zip(got[::2], got[1::2], strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"init": 0.0}, "does not use init.*br.fc.x, 32., or br.fc.x, w, bias=b"),
        ({"bias": True}, "does not use bias=True"),
        ({"params": ["w"]}, "creates no parameters"),
    ],
)
def test_fc_refuses_mixtures_of_what_is_made_and_given(
    options: dict[str, Any], message: str
) -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["batch", 4]), br.parameter("w", [4, 7])
        before = str(prog), str(prog.startup)
        with pytest.raises(br.ProgramError, match=f"(?s){message}"):
            br.fc(x, w, **options)
        assert (str(prog), str(prog.startup)) == before


def test_fc_needs_to_know_the_last_axis_unless_it_shares() -> None:
    with br.Program():
        x = br.data("x", [3, "width"])
        with pytest.raises(br.ShapeError, match="constant size of axis -1"):
            br.fc(x, 3)
        with pytest.raises(br.BracesError, match=r"br\.concat"):
            br.fc([x, x], 3)
        with pytest.raises(br.ShapeError):
            br.fc(br.sum(x), 3)


def test_a_layer_in_a_step_is_one_layer_for_all_steps(
    mode: str, rng: np.random.Generator
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", "batch", 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            step = net.add_input(x)
            h = net.add_memory(shape=[4], batch_like=x, batch_axis=1)
            h.update(br.tanh(br.fc(step, 4, name="in") + br.fc(h, 4, name="rec", bias=False)))
            net.add_output(h.pre(1))
        out, last = rnn(), rnn.final(h)
    assert parameters(prog) == {"in.w": "f32[3,4]", "in.b": "f32[4]", "rec.w": "f32[4,4]"}
    fed = rng.normal(size=(5, 2, 3)).astype("f4")
    (_, got), values = run(mode, prog, {"x": fed}, [out, last])
    state = np.zeros((2, 4), "f4")
    for row in fed:
        state = np.tanh(row @ values["in.w"] + values["in.b"] + state @ values["rec.w"])
    np.testing.assert_allclose(got, state, atol=1e-5)


def test_a_layer_in_a_branch_in_a_loop_lives_in_the_main_block() -> None:
    with br.Program() as prog:
        x = br.data("x", ["t", 3])

        def step(carry: Any, row: Any) -> Any:
            more = br.cond(
                br.sum(row) > 0.0,
                lambda: br.fc(row, 3, name="a"),
                lambda: br.fc(row, 3, name="b"),
            )
            return carry + more, None

        br.scan(step, br.zeros([3]), x)
    assert list(parameters(prog)) == ["a.w", "a.b", "b.w", "b.b"]
    assert set(prog.startup.updates) == {"a.w", "a.b", "b.w", "b.b"}


# ---- embedding, convolution ------------------------------------------------------------------


def test_embedding_looks_up(mode: str) -> None:
    with br.Program() as prog:
        ids = br.data("ids", ["batch", 2], "int32")
        out = br.embedding(ids, [10, 4], name="words")
        again = br.embedding(ids, [10, 4], params=["words.w"])
    assert parameters(prog) == {"words.w": "f32[10,4]"}
    fed = np.array([[0, 9], [3, 3]], "i4")
    (got, same), values = run(mode, prog, {"ids": fed}, [out, again])
    np.testing.assert_array_equal(got, values["words.w"][fed])
    np.testing.assert_array_equal(same, got)


@pytest.mark.parametrize("size", [10, [10], [10, "d"]])
def test_embedding_needs_both_sizes(size: Any) -> None:
    with br.Program(), pytest.raises(br.ShapeError):
        br.embedding(br.data("ids", ["batch"], "int32"), size)


def test_embedding_looks_up_in_a_table_that_is_given(mode: str) -> None:
    rows = np.arange(10, dtype="f4").reshape(5, 2)
    with br.Program() as prog:
        ids, table = br.data("ids", ["batch"], "int32"), br.parameter("table", [5, 2], rows)
        given = [table, table * 2.0, rows, rows.tolist()]
        outs = [br.embedding(ids, one) for one in given]
        named = br.embedding(ids, table, name="looked_up")
    assert list(parameters(prog)) == ["table"]
    assert named.name == "looked_up"
    got, _ = run(mode, prog, {"ids": np.array([4, 0], "i4")}, [*outs, named])
    for one, factor in zip(got, (1, 2, 1, 1, 1), strict=True):
        np.testing.assert_array_equal(one, rows[[4, 0]] * factor)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda ids, table: br.embedding(table, ids), br.DTypeError, "the ids first"),
        (
            lambda ids, table: br.embedding(table, [5, 2]),
            br.DTypeError,
            "expected integer indices",
        ),
        (
            lambda ids, table: br.embedding(ids, table, init=0.5),
            br.ProgramError,
            "does not use init",
        ),
        (
            lambda ids, table: br.embedding(ids, table, dtype="f64"),
            br.ProgramError,
            "does not use dtype",
        ),
        (lambda ids, table: br.embedding(ids, table, params=["w"]), br.ProgramError, "params="),
        (lambda ids, table: br.embedding(ids, "table"), br.ShapeError, "size='table'"),
        (lambda ids, table: br.embedding([1, 2], table), br.ProgramError, "variable"),
        (
            lambda ids, table: br.embedding(ids, ids),
            br.ShapeError,
            "expected a table of rank 2",
        ),
    ],
)
def test_the_error_of_embedding_has_both_signatures(
    build: Any, error: type[Exception], message: str
) -> None:
    with br.Program() as prog:
        ids, table = br.data("ids", ["batch"], "int32"), br.parameter("table", [5, 2])
        before = str(prog), str(prog.startup)
        with pytest.raises(error, match=message) as caught:
            build(ids, table)
        assert "test_layers.py:" in str(caught.value)
        assert (str(prog), str(prog.startup)) == before


@pytest.mark.parametrize(
    ("layout", "shape", "weight", "want"),
    [
        ("NCHW", ["b", 3, 8, 6], "f32[5,3,2,3]", "f32[b,5,7,4]"),
        ("NHWC", ["b", 8, 6, 3], "f32[2,3,3,5]", "f32[b,7,4,5]"),
    ],
)
def test_conv2d_makes_a_weight_for_its_layout(
    mode: str, layout: str, shape: list[Any], weight: str, want: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", shape)
        out = br.conv2d(x, 5, (2, 3), layout=layout, act="relu", name="conv")
        bare = br.conv2d(
            x, br.get_variable("conv.w"), bias=br.get_variable("conv.b"), layout=layout
        )
    assert parameters(prog) == {"conv.w": weight, "conv.b": "f32[5]"}
    assert (out.name, str(out.type)) == ("conv", want)
    fed = np.random.default_rng(0).normal(size=(2, *shape[1:])).astype("f4")
    (got, plain), values = run(mode, prog, {"x": fed}, [out, bare])
    np.testing.assert_allclose(got, np.maximum(plain, 0), atol=1e-6)
    assert abs(values["conv.w"]).max() <= (6 / (18 + 30)) ** 0.5


def test_conv1d_and_groups() -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 4, "t"])
        assert str(br.conv1d(x, 6, 3, padding="same", name="a").type) == "f32[b,6,t]"
        br.conv1d(x, 6, 3, groups=2, bias=False, name="b")
    assert parameters(prog) == {"a.w": "f32[6,4,3]", "a.b": "f32[6]", "b.w": "f32[6,2,3]"}


@pytest.mark.parametrize(
    ("window", "options", "message"),
    [
        (3, {"layout": "NCWH"}, "NCHW or NHWC"),
        ((3, 3, 3), {}, "window"),
        (3, {"groups": 2}, "group|channels"),
        (9, {}, "window"),
    ],
)
def test_conv2d_refuses(window: Any, options: dict[str, Any], message: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 3, 8, 8])
        before = str(prog)
        with pytest.raises(br.BracesError, match=message):
            br.conv2d(x, 4, window, **options)
        assert str(prog) == before


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, w, b: br.conv2d(x, w, b), "does not use window.*16, 3.*weight, bias=b"),
        (lambda x, w, b: br.conv2d(x, w, 3), "does not use window"),
        (lambda x, w, b: br.conv2d(x, w, init=0.0), "does not use init"),
        (lambda x, w, b: br.conv2d(x, w, bias=True), "bias=True"),
        (lambda x, w, b: br.conv2d(x, w, params=["c.w"]), "creates no parameters"),
        (lambda x, w, b: br.conv2d(x, 4), r"window.*br\.conv2d\(x, 4, 3\)"),
        (
            lambda x, w, b: br.conv2d(x, "4", 3),
            "expected a variable, a number or an array|does not use",
        ),
        (lambda x, w, b: br.conv2d(x, True, 3), "does not use window"),
        (lambda x, w, b: br.conv1d(x, w), "3"),
    ],
)
def test_conv2d_refuses_mixtures_of_what_is_made_and_given(build: Any, message: str) -> None:
    with br.Program() as prog:
        x, w = br.data("x", ["b", 3, 8, 8]), br.parameter("w", [4, 3, 3, 3])
        b = br.parameter("c", [4])
        before = str(prog), str(prog.startup)
        with pytest.raises(br.BracesError, match=f"(?s){message}") as caught:
            build(x, w, b)
        assert "test_layers.py:" in str(caught.value)
        assert (str(prog), str(prog.startup)) == before


def test_a_convolution_is_given_its_weights_or_only_its_bias(mode: str) -> None:
    with br.Program() as prog:
        x, shared = br.data("x", ["b", 2, 5]), br.parameter("shared", [3], 0.5)
        made = br.conv1d(x, np.int64(3), 2, bias=shared, name="made")
        w = br.get_variable("made.w")
        pairs = [
            (br.conv1d(x, w, bias=shared), made),
            (br.conv1d(x, w, bias=False) + br.full([3, 1], 0.5), made),
            (br.conv1d(x, w * 2.0, act="relu"), br.relu(2.0 * br.conv1d(x, w))),
            (br.conv1d(x, np.ones((3, 2, 2), "f4")), br.conv1d(x, br.full([3, 2, 2], 1.0))),
        ]
    assert list(parameters(prog)) == ["shared", "made.w"]
    fed = np.random.default_rng(0).normal(size=(2, 2, 5)).astype("f4")
    got, _ = run(mode, prog, {"x": fed}, [one for pair in pairs for one in pair])
    for left, right in zip(got[::2], got[1::2], strict=True):
        np.testing.assert_allclose(left, right, atol=1e-6)


# ---- all together ----------------------------------------------------------------------------


def test_layers_train(mode: str, rng: np.random.Generator) -> None:
    """Gradients reach every parameter of every layer."""
    with br.Program() as prog:
        x = br.data("x", ["b", 2, 6, 6])
        image = br.conv2d(x, 4, 3, act="relu", name="conv")
        flat = br.reshape(br.batch_norm(image, name="bn"), [x.shape[0], 64])
        hidden = br.layer_norm(br.fc(flat, 8, act="gelu", name="fc"), name="ln")
        loss = br.mean(br.square(br.dropout(hidden, 0.25)))
        pairs = br.append_backward(loss)
    assert {p.name for p in pairs} == {info.name for info in prog.parameters}
    fed = rng.normal(size=(5, 2, 6, 6)).astype("f4")
    got, _ = run(mode, prog, {"x": fed}, {p.name: g for p, g in pairs.items()})
    assert all(np.isfinite(grad).all() for grad in got.values())
    assert all(abs(got[name]).max() > 0 for name in ("conv.w", "ln.scale", "bn.scale", "fc.w"))


@pytest.mark.parametrize("name", public_layers())
def test_a_layer_is_three_operators_at_most_or_a_block_of_its_name(name: str) -> None:
    """One that makes more is a block of its own, called as the layer, or lines of a step."""
    with br.Program() as prog:
        LAYERS[name]()
    apart = ("cast", "next_random_state")
    made = [(op.type, op.name) for op in prog.block(0).ops if op.type not in apart]
    if name in LINES:
        assert all(type_ != "block" for type_, _ in made)
    else:
        assert 1 <= len(made) <= 3
        assert len(prog.blocks) == 1 or made == [("block", name)]
