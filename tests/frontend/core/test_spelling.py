"""Other names for the same things, and hints for names that do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.hints.table_files import habits
from tests.support.running import run


def test_other_names_are_the_same_operators(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", [2, 3])
        pairs = [
            (br.add_two(x, 1.0), x + 1.0),
            (br.permute_dims(x, (1, 0)), x.T),
            (br.cast(x, "int32"), br.cast(x, br.int32)),
            (br.pow(x, 2.0), x**2.0),
            (br.atan(x), br.atan(x)),
            (br.einsum("ij,kj->ik", x, x), x @ x.T),
            (br.einsum("ij->j", [x]), br.sum(x, 0)),
            (br.asarray(x), x),
        ]
    fed = np.arange(6, dtype="f4").reshape(2, 3)
    for left, right in pairs:
        np.testing.assert_allclose(*run(mode, prog, [left, right], x=fed), rtol=1e-6)


FILLED: list[tuple[Callable[[], Any], Any]] = [
    (lambda: br.zeros([2, 3]), np.zeros((2, 3), "f4")),
    (lambda: br.ones((2,), "int32"), np.ones(2, "i4")),
    (lambda: br.full(3, 7), np.full(3, 7, "i8")),
    (lambda: br.full([2], 0.5), np.full(2, 0.5, "f4")),
    (lambda: br.full([2], True), np.full(2, True)),
    (lambda: br.full([], 3, "f64"), np.full((), 3.0)),
    (lambda: br.full([2], np.int8(3)), np.full(2, 3, "i1")),
    (lambda: br.full([2], 2**60 + 1), np.full(2, 2**60 + 1, "i8")),
    (lambda: br.full([2], br.inf), np.full(2, np.inf, "f4")),
    (lambda: br.full([2], 1 + 2j), np.full(2, 1 + 2j, "c8")),
    (lambda: br.full([2, 2], br.constant(3)), np.full((2, 2), 3, "i8")),
    (lambda: br.full([0, 2], br.constant(3), "f32"), np.zeros((0, 2), "f4")),
    (lambda: br.arange(5), np.arange(5)),
    (lambda: br.arange(5, 1, -2), np.arange(5, 1, -2)),
    (lambda: br.arange(1, 4, dtype=br.float32), np.arange(1, 4, dtype="f4")),
    (lambda: br.asarray([1, 2], "f32"), np.array([1, 2], "f4")),
    (lambda: br.linspace(0.0, 1.0, 3), np.linspace(0, 1, 3, dtype="f4")),
]


def test_arrays_from_nothing(mode: str) -> None:
    with br.Program() as prog:
        made = [build() for build, _ in FILLED]
    for got, (_, want) in zip(run(mode, prog, made), FILLED, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_arrays_from_nothing_have_symbolic_shapes(mode: str) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", 2])
        made = [br.zeros(x.shape), br.full(["b"], 2), br.arange(x.shape[0])]
    assert [str(one.type) for one in made] == ["f32[b,2]", "i64[b]", "i64[b]"]
    got = run(mode, prog, [*made, x], x=np.ones((3, 2), "f4"))
    assert [one.shape for one in got] == [(3, 2), (3,), (3,), (3, 2)]


@pytest.mark.parametrize(
    ("module", "written", "meant"),
    [
        ("init", "glorot_unifrom", "glorot_uniform"),
        ("init", "Normal", "normal"),
        ("layers", "lstm_cel", "lstm_cell"),
        ("optimizer", "adma", "adam"),
        ("random", "randnit", "randint"),
        ("optimizer", "cosine_deacy_schedule", "cosine_decay_schedule"),
    ],
)
def test_a_misspelled_name_of_a_module_suggests_the_nearest(
    module: str, written: str, meant: str
) -> None:
    place = getattr(br, module)
    with pytest.raises(
        AttributeError, match=f"br.{module} has no attribute `{written}`"
    ) as caught:
        getattr(place, written)
    assert isinstance(caught.value, br.UnknownNameError)
    assert f"`{meant}`" in str(caught.value)
    assert "test_spelling.py" in str(caught.value)
    assert not hasattr(place, "_written")


@pytest.mark.parametrize("module", ["init", "layers", "optimizer", "random"])
def test_what_modules_offer_is_there(module: str) -> None:
    place = getattr(br, module)
    assert [name for name in place.__all__ if not hasattr(place, name)] == []


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: br.full([2], [1, 2]), "br.constant"),
        (lambda: br.full([2], "1"), "expected a number"),
        (lambda: br.zeros([None]), "size"),
        (lambda: br.arange(0.0, 1.0), "br.linspace"),
        (lambda: br.arange(br.constant(3)), "x.shape"),
        (lambda: br.arange(0, 3, 0), "step"),
    ],
)
def test_what_does_not_fit_is_refused(build: Callable[[], Any], message: str) -> None:
    with br.Program(), pytest.raises(br.BracesError, match=message) as caught:
        build()
    assert "test_spelling.py:" in str(caught.value)


@pytest.mark.parametrize("name", sorted(habits()))
def test_every_hint_names_what_exists(name: str) -> None:
    assert name not in vars(br), f"br.{name} exists, so nobody needs the hint"
    with pytest.raises(AttributeError, match=f"no attribute `{name}`"):
        getattr(br, name)
    for path in re.findall(r"\bbr\.([\w.]+\w)", habits()[name]):
        reduce(getattr, path.split("."), br)


def test_a_hint_ignores_case_and_near_misses_are_suggested() -> None:
    with pytest.raises(AttributeError, match=r"Use br\.create_rnn\(\)"):
        br.StaticRNN  # noqa: B018
    with pytest.raises(AttributeError, match="Did you mean `softmax`"):
        br.sofmax  # noqa: B018
    with pytest.raises(AttributeError, match="dir"):
        br.qqqqqq  # noqa: B018
    assert not hasattr(br, "__wrapped__")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("numpy", "fetch=x"),
        ("view", "Use x.reshape"),
        ("backward", "Use br.append_backward"),
        ("relu", "Use br.relu(x)"),
        ("add_", "variables are immutable"),
        ("update", "Use prog.update(x, value)"),
        ("shap", "Did you mean `shape`"),
        ("zzz", "See dir(br.Var)"),
    ],
)
def test_a_variable_suggests_counterparts_of_foreign_methods(name: str, said: str) -> None:
    with br.Program():
        x = br.data("x", [3])
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(x, name)
    assert not hasattr(x, name)


def test_case_is_no_matter_for_what_is_suggested() -> None:
    with pytest.raises(AttributeError, match="Did you mean `sgd`"):
        br.optimizer.SGD  # noqa: B018
    with pytest.raises(AttributeError, match=r"Use br\.lstm\(x, size\)"):
        getattr(br.layers, "LSTM")  # noqa: B009
    with pytest.raises(AttributeError, match=r"Use br\.squared_error"):
        getattr(br.losses, "MSELoss")  # noqa: B009


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("losses.mean_squared_error", "Use br.squared_error"),
        ("losses.mse", "Use br.squared_error"),
        ("losses.MSELoss", "Use br.squared_error"),
        ("mse", "Use br.squared_error"),
        ("Module", "Use layers in a `with br.Program() as prog` block, without a class"),
        (
            "no_grad",
            "Use exe.evaluate(prog, scope, feed, fetch) for inference, or br.stop_gradient",
        ),
        ("optimizer.cosine_decay", "Use br.optimizer.cosine_decay_schedule"),
        ("optimizer.CosineAnnealingLR", "Use br.optimizer.cosine_decay_schedule"),
        ("optimizer.StepLR", "Use br.optimizer.piecewise_constant_schedule"),
        ("layers.MultiHeadAttention", "Use br.multi_head_attention(x, heads, key, value)"),
        ("layers.Embedding", "br.embedding"),
        ("layers.attention", "Use br.multi_head_attention"),
        ("attention", "Use br.multi_head_attention"),
        ("metrics.mae", "Use br.metrics.mean_absolute_error"),
        ("metrics.confusion", "Use br.metrics.confusion_matrix"),
        ("GRUCell", "Use br.layers.gru_cell"),
        ("AdditiveAttention", "Use `br.softmax("),
        ("sequence_mask", "Use br.arange(steps) < lengths[:, None]"),
        ("pad_sequence", "Use br.batches"),
        ("greedy_decode", "Use br.decoding.greedy"),
        ("export_onnx", "br.to_onnx(prog, path)"),
        ("onnx.export", "br.to_onnx(prog, path)"),
        ("EarlyStop", "Use br.EarlyStopping"),
    ],
)
def test_names_of_a_first_time_user_have_hints(path: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(said)):
        reduce(getattr, path.split("."), br)


def test_keywords_of_a_first_time_user_have_hints() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4, 8])
        calls: list[tuple[Any, str]] = [
            (
                lambda: br.multi_head_attention(x, 2, key_padding_mask=x),
                "Use lengths=, or mask=",
            ),
            (lambda: br.gru(x, 8, mask=x), "Use lengths=, as in lengths=br.sum(mask, axis=1)."),
            (
                lambda: br.decoding.greedy(None, x, start=1, eos=2, max_length=3),  # pyright: ignore
                "Use end=.",
            ),
            (lambda: br.dropout(x, training=True), "exe.run trains, exe.evaluate predicts"),
            (lambda: br.scan(lambda a, b: (a, b), x, x, axis=1), "use br.moveaxis(x, axis, 0)"),
            (
                lambda: br.optimizer.adam(1e-3, clip_norm=1.0),
                "br.optimizer.clip_by_global_norm",
            ),
            (
                lambda: br.to_onnx(prog, "m.onnx", opset=17),
                "unsupported operator set version 17",
            ),
            (lambda: br.flatten(x, start_dim=1), "Use axis=."),
            (lambda: x.transpose(0, 1), "Use br.swapaxes(x, 0, 1)"),
        ]
        for call, said in calls:
            with pytest.raises(
                (TypeError, AttributeError, br.BracesError), match=re.escape(said)
            ):
                call()


def test_query_key_and_value_in_the_order_of_pytorch_are_refused() -> None:
    with br.Program() as prog:
        q = br.data("q", ["n", 4, 8])
        with pytest.raises(br.ProgramError, match="expected an integer for `heads`") as caught:
            br.multi_head_attention(q, q, q)
    assert "br.multi_head_attention(x, 2, key, value)" in str(caught.value)
    assert "test_spelling.py:" in str(caught.value)
    assert not prog.parameters
