"""Losses against PyTorch (`torch_losses.npz`), and against formulas for the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

GIVEN = dict(np.load(Path(__file__).with_name("torch_losses.npz")))
"""Written by scripts/torch_losses.py."""
NAMES = ("x", "y", "z", "p", "yes", "sign", "count", "variance", "w", "labels", "side")
REDUCTIONS = ("none", "mean", "sum")

Loss = Callable[..., Any]


def losses(v: dict[str, Any]) -> dict[str, Loss]:
    x, y, z, p, w, labels = (v[k] for k in ("x", "y", "z", "p", "w", "labels"))
    some = {"class_weights": w, "ignored_label": 4}
    more = {**some, "label_smoothing": 0.2}
    logs = br.log_softmax(x)
    return {
        "squared": lambda **r: br.squared_error(x, y, **r),
        "absolute": lambda **r: br.absolute_error(x, y, **r),
        "huber": lambda **r: br.losses.huber_loss(x, y, 0.7, **r),
        "smooth_l1": lambda **r: br.losses.smooth_l1_loss(x, y, 0.7, **r),
        "poisson": lambda **r: br.losses.poisson_nll_loss(x, v["count"], full=True, **r),
        "poisson_plain": lambda **r: br.losses.poisson_nll_loss(
            v["variance"], v["count"], log_input=False, **r
        ),
        "gaussian": lambda **r: br.losses.gaussian_nll_loss(
            x, y, v["variance"], full=True, **r
        ),
        "soft_margin": lambda **r: br.losses.soft_margin_loss(x, v["sign"], **r),
        "hinge_embedding": lambda **r: br.losses.hinge_embedding_loss(x, v["sign"], 0.4, **r),
        "ranking": lambda **r: br.losses.margin_ranking_loss(x, y, v["sign"], 0.3, **r),
        "cosine": lambda **r: br.losses.cosine_embedding_loss(x, y, v["side"], -0.5, **r),
        "triplet": lambda **r: br.losses.triplet_margin_loss(x, y, z, swap=True, **r),
        "triplet_3": lambda **r: br.losses.triplet_margin_loss(x, y, z, 2.0, p=3.0, **r),
        "cross": lambda **r: br.softmax_cross_entropy(x, labels, **r),
        "cross_some": lambda **r: br.softmax_cross_entropy(x, labels, **some, **r),
        "cross_more": lambda **r: br.softmax_cross_entropy(x, labels, **more, **r),
        "soft": lambda **r: br.softmax_cross_entropy_soft(
            x, p, label_smoothing=0.2, class_weights=w, **r
        ),
        "nll": lambda **r: br.losses.nll_loss(logs, labels, **some, **r),
        "multi_margin": lambda **r: br.losses.multi_margin_loss(
            x, labels, p=2, class_weights=w, **r
        ),
        "binary": lambda **r: br.sigmoid_binary_cross_entropy(
            x, v["yes"], class_weights=w, positive_weight=w * 2.0, **r
        ),
        "multilabel": lambda **r: br.losses.multilabel_soft_margin_loss(
            x, v["yes"], class_weights=w, **r
        ),
        "multilabel_margin": lambda **r: br.losses.multilabel_margin_loss(x, v["yes"], **r),
        "circle": lambda **r: br.losses.circle_loss(x, labels % 2, scale=20.0, margin=0.3, **r),
        "tversky": lambda **r: br.losses.tversky_loss(
            br.sigmoid(x), v["yes"], 0.3, 0.7, smooth=0.5, **r
        ),
        "contrast": lambda **r: br.losses.info_nce_loss(x, y, temperature=0.3, **r),
        "divergence": lambda **r: br.losses.kl_div_loss(logs, p, **r),
    }


def fed() -> dict[str, Any]:
    """Data for all that is given, with rows of any number."""
    return {
        name: br.data(name, [5] if name == "w" else ["b", *GIVEN[name].shape[1:]],
                      dtype=str(GIVEN[name].dtype))
        for name in NAMES
    }  # fmt: skip


@pytest.mark.unoptimized
def test_losses_and_their_gradients_are_those_of_torch_in_each_reduction(mode: str) -> None:
    with br.Program() as prog:
        v = fed()
        fetch = dict[str, Any]()
        for name, loss in losses(v).items():
            source = v["variance" if name == "poisson_plain" else "x"]
            for reduction in REDUCTIONS:
                out = loss(reduction=reduction)
                (grad,) = br.gradients([br.sum(br.sin(out))], [source])
                fetch |= {f"{name}.{reduction}": out, f"{name}.{reduction}.grad": grad}
    assert {*fetch} == {*GIVEN} - {*NAMES}
    feed = {name: GIVEN[name] for name in NAMES}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch=[*fetch.values()])
    for name, value in zip(fetch, got, strict=True):
        np.testing.assert_allclose(value, GIVEN[name], rtol=1e-6, atol=1e-7, err_msg=name)


def test_losses_that_torch_has_not_follow_their_formulas(mode: str) -> None:
    with br.Program() as prog:
        v = fed()
        x, y, p, yes, sign = (v[k] for k in ("x", "y", "p", "yes", "sign"))
        fetch = [
            br.losses.hinge_loss(x, sign, reduction="none"),
            br.losses.log_cosh_loss(x, y, reduction="sum"),
            br.losses.dice_loss(p, yes, smooth=0.5, reduction="none"),
            br.losses.dice_loss(p, yes, axis=None, reduction="none"),
            br.losses.focal_loss(x, yes, reduction="mean"),
            br.losses.focal_loss(x, yes, alpha=None, gamma=0.0, reduction="none"),
            br.losses.info_nce_loss(x, y, v["z"], temperature=0.5, reduction="none"),
            br.sigmoid_binary_cross_entropy(x, yes, label_smoothing=0.2, reduction="none"),
            br.losses.smooth_l1_loss(x, y, 0.0, reduction="none"),
        ]
        (far,) = br.gradients([br.losses.log_cosh_loss(x * 1e4, y, reduction="mean")], [x])
    feed = {name: GIVEN[name] for name in NAMES}
    got = br.Executor(mode=mode).run(prog, br.Scope(), feed, fetch=[*fetch, far])
    x, y, p, yes, z = (GIVEN[k] for k in ("x", "y", "p", "yes", "z"))
    chance = 1 / (1 + np.exp(-x))
    entropy = -yes * np.log(chance) - (1 - yes) * np.log(1 - chance)
    right = np.where(yes == 1, chance, 1 - chance)
    alpha = np.where(yes == 1, 0.25, 0.75)
    units = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y, z)]
    own = (units[0] * units[1]).sum(1) / 0.5
    others = np.exp(units[0] @ units[2].T / 0.5).sum(1)
    wanted = [
        np.maximum(1 - x * GIVEN["sign"], 0),
        np.log(np.cosh(x - y)).sum(),
        1 - (2 * (p * yes).sum(1) + 0.5) / (p.sum(1) + yes.sum(1) + 0.5),
        1 - (2 * (p * yes).sum() + 1) / (p.sum() + yes.sum() + 1),
        (alpha * (1 - right) ** 2 * entropy).mean(),
        entropy,
        np.log(np.exp(own) + others) - own,
        entropy * 0.8 - 0.1 * np.log(chance * (1 - chance)),
        np.abs(x - y),
        np.sign(x) * 1e4 / x.size,
    ]
    for value, right in zip(got, wanted, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-6, atol=1e-8)


# ---- labels, and where losses stand ----------------------------------------------------------


def test_classes_may_lie_along_any_axis_and_ignored_labels_be_out_of_range(mode: str) -> None:
    with br.Program() as prog:
        x, y = br.data("x", [2, 3, 4]), br.data("y", [2, 4], dtype="int32")
        each = {"ignored_label": -100, "reduction": "none"}
        options: dict[str, Any] = {"label_smoothing": 0.1, **each}
        last = br.permute_dims(x, (0, 2, 1))
        pairs = [
            (loss(x, y, 1, **more), loss(last, y, **more))
            for loss, more in (
                (br.softmax_cross_entropy, options),
                (br.losses.nll_loss, options),
                (br.losses.multi_margin_loss, {"ignored_label": -100, "reduction": "mean"}),
            )
        ]
    rng = np.random.default_rng(0)
    labels = np.array([[0, 1, -100, 2], [2, 2, 0, -100]], "int32")
    feed = {"x": rng.normal(size=(2, 3, 4)).astype("f4"), "y": labels}
    exe = br.Executor(mode=mode)
    got = exe.run(prog, br.Scope(), feed, fetch=[one for pair in pairs for one in pair])
    for left, right in zip(got[::2], got[1::2], strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5)
    assert (got[0][labels == -100] == 0).all()
    for pair in pairs:
        feed["y"] = np.full((2, 4), 3, "int32")
        with pytest.raises(br.IndexRangeError):
            exe.run(prog, br.Scope(), feed, fetch=pair[0])


def test_padding_and_other_rows_reach_no_loss_in_steps_and_branches(mode: str) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["t", "b", 3]), br.data("y", ["t", "b"], dtype="int32")
        n = br.data("n", ["b"], dtype="int32")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            logits, label = net.add_input(x), net.add_input(y)
            choice = br.create_if_else(label > 0)
            with choice.true_block() as case:
                a, b = case.add_input(logits), case.add_input(label)
                case.add_output(
                    br.softmax_cross_entropy(a, b, label_smoothing=0.1, reduction="none")
                )
            with choice.false_block() as case:
                a, b = case.add_input(logits), case.add_input(label)
                case.add_output(br.losses.multi_margin_loss(a, b, reduction="none"))
            net.add_output(choice())
        steps = rnn()
        (grad,) = br.gradients([br.sum(steps)], [x])
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(3, 2, 3)).astype("f4")
    ys = np.array([[0, 1], [2, 0], [1, 2]], "int32")
    xs[1:, 1] = np.nan
    got, slope = br.Executor(mode=mode).run(
        prog, br.Scope(), {"x": xs, "y": ys, "n": np.array([3, 1], "i4")}, fetch=[steps, grad]
    )
    logs = xs - np.log(np.exp(xs).sum(-1, keepdims=True))
    smooth = -0.9 * logs[1, 0, 2] - 0.1 * logs[1, 0].mean()
    margin = sum(max(0, 1 - xs[0, 0, 0] + xs[0, 0, j]) for j in (1, 2)) / 3
    np.testing.assert_allclose(got[:2, 0], [margin, smooth], rtol=1e-5)
    assert np.isfinite(slope).all()
    assert not slope[1:, 1].any()
    assert slope[0].any()


def test_a_loss_of_several_operators_is_a_block_of_its_name() -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["b", 3]), br.data("y", ["b"], dtype="int32")
        br.softmax_cross_entropy(x, y, name="plain", reduction="none")
        br.softmax_cross_entropy(x, y, reduction="mean", name="whole")
        br.softmax_cross_entropy(x, y, label_smoothing=0.1, name="smooth", reduction="none")
        br.losses.hinge_loss(x, 1.0, reduction="none")
    assert [op.name for op in prog.block(0).ops if op.type != "constant"] == [
        "plain", "softmax_cross_entropy_0", "whole", "smooth", "hinge_loss",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "error", "what"),
    [
        (lambda x, y, z: br.squared_error(x, x, reduction="max"), br.ProgramError, "'max'"),
        (
            lambda x, y, z: br.losses.nll_loss(x, x, reduction="none"),
            br.DTypeError,
            "nll_loss: expected integer labels, got float32",
        ),
        (
            lambda x, y, z: br.losses.nll_loss(x, y, 0, reduction="none"),
            br.ShapeError,
            "nll_loss: expected one label for each",
        ),
        (
            lambda x, y, z: br.softmax_cross_entropy(x, y, label_smoothing=2, reduction="none"),
            br.ProgramError,
            "softmax_cross_entropy: expected label_smoothing of at most 1, got 2",
        ),
        (
            lambda x, y, z: br.softmax_cross_entropy(
                x, y, class_weights=[1.0], reduction="none"
            ),
            br.ShapeError,
            "softmax_cross_entropy: expected one class weight for each class",
        ),
        (
            lambda x, y, z: br.losses.multi_margin_loss(x, y, p=3, reduction="none"),
            br.ProgramError,
            "p=1 or p=2, got 3",
        ),
        (
            lambda x, y, z: br.losses.triplet_margin_loss(x, x, x, p=0.5, reduction="none"),
            br.ProgramError,
            "p of at least 1, got 0.5",
        ),
        (
            lambda x, y, z: br.losses.triplet_margin_loss(x, z, x, reduction="none"),
            br.ShapeError,
            "equal shapes",
        ),
        (
            lambda x, y, z: br.losses.info_nce_loss(x, x, temperature=0.0, reduction="none"),
            br.ProgramError,
            "temperature above 0, got 0.0",
        ),
        (
            lambda x, y, z: br.losses.circle_loss(x, y, scale=0.0, reduction="none"),
            br.ProgramError,
            "scale above 0, got 0.0",
        ),
        (
            lambda x, y, z: br.losses.circle_loss(y, y, reduction="none"),
            br.ShapeError,
            "circle_loss: expected arrays",
        ),
        (
            lambda x, y, z: br.losses.circle_loss(x, x, reduction="none"),
            br.DTypeError,
            "circle_loss: expected integer",
        ),
        (
            lambda x, y, z: br.losses.tversky_loss(x, z, reduction="none"),
            br.ShapeError,
            "tversky_loss: expected equal",
        ),
        (
            lambda x, y, z: br.losses.multilabel_margin_loss(x, z, reduction="none"),
            br.ShapeError,
            "equal shapes",
        ),
        (
            lambda x, y, z: br.losses.info_nce_loss(x, x, z, reduction="none"),
            br.ShapeError,
            "of equal size",
        ),
        (
            lambda x, y, z: br.losses.cosine_embedding_loss(x, x, x, reduction="none"),
            br.ShapeError,
            "one target for each",
        ),
        (
            lambda x, y, z: br.losses.focal_loss(x, x, gamma=-1.0, reduction="none"),
            br.ProgramError,
            "gamma of at least 0, got -1.0",
        ),
    ],
)
def test_invalid_arguments_raise_errors_at_the_users_line(
    build: Loss, error: type[br.BracesError], what: str
) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["b", 3]), br.data("y", ["b"], dtype="int32")
        short = br.data("z", ["b", 2])
        before = prog.to_bytes()
        with pytest.raises(error, match=what) as refused:
            build(x, y, short)
        assert prog.to_bytes() == before
    assert "test_losses.py" in str(refused.value.at)


@pytest.mark.parametrize(
    "loss", ["squared_error", "absolute_error", "huber_loss", "kl_div_loss", "smooth_l1_loss"]
)
def test_an_error_of_a_reduction_names_the_loss_as_its_place(loss: str) -> None:
    with br.Program():
        x = br.data("x", [2])
        with pytest.raises(br.ProgramError, match=f"(?m)^  at: {loss}, at "):
            getattr(br if loss in dir(br) else br.losses, loss)(x, x, reduction="avg")
