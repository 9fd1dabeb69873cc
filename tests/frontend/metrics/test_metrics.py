"""Metrics over several batches are those of all rows at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.frontend.metrics.base import Metric

pytestmark = pytest.mark.unoptimized

CLASSES = 3
BATCHES = (5, 0, 7, 1)


def batches() -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        {
            "logits": rng.normal(size=(n, CLASSES)).astype("f4"),
            "labels": rng.integers(-1, CLASSES, n).astype("i4"),
            "scores": rng.integers(0, 12, n).astype("f4") / 11,
            "targets": rng.normal(size=n).astype("f4"),
            "weights": rng.integers(0, 3, n).astype("f4"),
        }
        for n in BATCHES
    ]


def built() -> tuple[br.Program, dict[str, Metric]]:
    m = br.metrics
    with br.Program() as prog:
        logits = br.data("logits", ["n", CLASSES])
        labels = br.data("labels", ["n"], dtype="int32")
        scores, targets, weights = (br.data(x, ["n"]) for x in ("scores", "targets", "weights"))
        said, true = scores > 0.5, labels == 1
        kinds = br.argmax(logits, axis=-1)
        known = br.maximum(labels, 0)
        made = [
            m.mean(scores, weights),
            m.mean(scores > 0.5, name="share"),
            m.mean_squared_error(scores, targets, weights),
            m.root_mean_squared_error(scores, targets),
            m.mean_absolute_error(scores, targets),
            m.accuracy(logits, labels),
            m.binary_accuracy(scores, true, weights, threshold=0.25),
            m.binary_accuracy(scores, labels, threshold=0.25, ignored_label=-1, name="right"),
            m.accuracy(logits, labels, labels >= 0, name="masked"),
            m.accuracy(logits, labels, ignored_label=-1, name="ignored"),
            m.accuracy(logits, labels, weights, ignored_label=-1, name="weighted"),
            m.top_k_accuracy(logits, labels, 2),
            m.top_k_accuracy(logits, labels, 2, ignored_label=-1, name="top_ignored"),
            m.perplexity(logits, labels, weights, ignored_label=-1, name="words"),
            m.perplexity(logits, known, weights),
            m.confusion_matrix(kinds, labels, CLASSES),
            m.precision(said, true, weights=weights),
            m.recall(said, true),
            m.f1(said, true),
            m.precision(kinds, labels, CLASSES, None, name="precisions"),
            m.recall(kinds, labels, CLASSES, "macro", name="macro"),
            m.f1(kinds, labels, CLASSES, "micro", weights, name="micro"),
            m.auc(scores, true, thresholds=12),
            m.r2(scores, targets, weights),
        ]
    return prog, {metric.name: metric for metric in made}


def share(part: Any, whole: Any) -> Any:
    return np.divide(part, whole, out=np.zeros_like(part, float), where=np.asarray(whole) != 0)


def expected(data: dict[str, np.ndarray]) -> dict[str, Any]:
    """The formulas, of all rows at once."""
    logits, labels, x, y, w = (
        data[name].astype("f8") for name in ("logits", "labels", "scores", "targets", "weights")
    )
    labels = labels.astype(int)
    kinds, said, true = logits.argmax(1), x > 0.5, labels == 1
    known = np.maximum(labels, 0)
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = -logs[np.arange(len(logs)), known]
    rank = (logits > logits[np.arange(len(logs)), known][:, None]).sum(1)
    table, weighted = np.zeros((2, CLASSES, CLASSES))
    for row, column, weight in zip(labels, kinds, w, strict=True):
        if row >= 0:
            table[row, column] += 1
            weighted[row, column] += weight
    pairs = x[true][:, None] - x[~true][None]
    hits, all_said, all_true = (said & true).sum(), said.sum(), true.sum()
    spread = (w * (y - (w * y).sum() / w.sum()) ** 2).sum()
    return {
        "mean": (w * x).sum() / w.sum(),
        "share": said.mean(),
        "mean_squared_error": (w * (x - y) ** 2).sum() / w.sum(),
        "root_mean_squared_error": np.sqrt(((x - y) ** 2).mean()),
        "mean_absolute_error": np.abs(x - y).mean(),
        "accuracy": (kinds == labels).mean(),
        "binary_accuracy": (w * ((x > 0.25) == true)).sum() / w.sum(),
        "right": ((x > 0.25) == labels)[labels >= 0].mean(),
        "masked": (kinds == labels)[labels >= 0].mean(),
        "ignored": (kinds == labels)[labels >= 0].mean(),
        "weighted": (w * (kinds == labels))[labels >= 0].sum() / w[labels >= 0].sum(),
        "top_ignored": (rank < 2)[labels >= 0].mean(),
        "words": np.exp((w * loss)[labels >= 0].sum() / w[labels >= 0].sum()),
        "top_k_accuracy": ((rank < 2) & (labels >= 0)).mean(),
        "perplexity": np.exp((w * loss).sum() / w.sum()),
        "confusion_matrix": table,
        "precision": share((w * (said & true)).sum(), (w * said).sum()),
        "recall": share(hits, all_true),
        "f1": share(2 * hits, all_said + all_true),
        "precisions": share(np.diag(table), table.sum(0)),
        "macro": share(np.diag(table), table.sum(1))[table.sum(0) + table.sum(1) > 0].mean(),
        "micro": np.trace(weighted) / weighted.sum(),
        "auc": ((pairs > 0) + (pairs == 0) / 2).sum() / np.float64(pairs.size),
        "r2": 1 - (w * (x - y) ** 2).sum() / spread,
    }


def test_metrics_are_those_of_all_rows(mode: str) -> None:
    prog, metrics = built()
    exe, scope, given = br.Executor(mode=mode), br.Scope(), batches()
    exe.init(prog, scope)
    fetch = {name: metric.value for name, metric in metrics.items()}
    fetch |= {f"batch {name}": metric.batch for name, metric in metrics.items()}
    found = [exe.run(prog, scope, feed, fetch) for feed in given]
    whole = expected({name: np.concatenate([one[name] for one in given]) for name in given[0]})
    with np.errstate(invalid="ignore"):
        alone = expected(given[2])
    assert set(whole) == set(metrics)
    for name in metrics:
        np.testing.assert_allclose(found[-1][name], whole[name], 1e-5, err_msg=name)
        np.testing.assert_allclose(found[2][f"batch {name}"], alone[name], 1e-5, err_msg=name)


def test_metrics_begin_anew_and_count_in_programs_for_testing(
    tmp_path: Path, mode: str
) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 2])
        with br.block("model"):
            logits = br.fc(br.dropout(x, 0.5), 2, name="out")
            labels = br.cast(x[:, 0] > 0, "int32")
            right = br.metrics.accuracy(logits, labels)
        loss = br.softmax_cross_entropy(logits, labels)
        seen = br.metrics.mean(br.ones_like(x[:, 0]), name="seen")
        test = prog.for_test()
        br.optimizer.sgd(0.1).minimize(loss)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope, seed=0)
    feed = {"x": np.array([[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]], np.float32)}
    assert seen.states[1].name == "seen/count"
    assert right.states[1].name == "model/accuracy/count"
    for count in (3.0, 6.0):
        exe.run(test, scope, feed, [right.value])
        assert scope.find_var("model/accuracy/count").value == count
    before = scope.find_var("model/out.w").value
    br.save_parameters(scope, tmp_path / "kept.safetensors")
    right.reset(scope)
    assert scope.find_var("model/accuracy/count").value == 0.0
    assert scope.find_var("seen/count").value == 6.0
    br.load_parameters(scope, tmp_path / "kept.safetensors")
    exe.run(prog, scope, feed, [loss])
    assert scope.find_var("model/accuracy/count").value == 9.0
    assert np.any(scope.find_var("model/out.w").value != before)


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (
            lambda x, n: br.metrics.accuracy(x, x[:, 0]),
            br.DTypeError,
            "expected integer labels",
        ),
        (lambda x, n: br.metrics.accuracy(n, n), br.ShapeError, "one axis more"),
        (lambda x, n: br.metrics.accuracy(n, n), br.ShapeError, "br.metrics.binary_accuracy"),
        (lambda x, n: br.metrics.accuracy(x, x), br.DTypeError, r"argmax\(labels, axis=-1\)"),
        (
            lambda x, n: br.metrics.binary_accuracy(n > 0, n, threshold=0.5),
            br.DTypeError,
            "expected real scores, got bool",
        ),
        (
            lambda x, n: br.metrics.binary_accuracy(x[:, :1], n, threshold=0.5),
            br.ShapeError,
            "equal shapes of `scores` and `labels`",
        ),
        (
            lambda x, n: br.metrics.precision(x, n),
            br.DTypeError,
            "expected integer or bool classes",
        ),
        (lambda x, n: br.metrics.f1(n, n, 3), br.ProgramError, "average='binary' for 3"),
        (
            lambda x, n: br.metrics.recall(n, n, 1),
            br.ProgramError,
            "num_classes of 2 or more, got 1",
        ),
        (
            lambda x, n: br.metrics.auc(x[:, 0], x[:, 0]),
            br.DTypeError,
            "expected bool or integer",
        ),
        (
            lambda x, n: br.metrics.auc(x[:, 0], n, thresholds=1),
            br.ProgramError,
            "thresholds, got 1",
        ),
        (
            lambda x, n: br.metrics.top_k_accuracy(x, n, 0),
            br.ProgramError,
            "k of 1 or more, got 0",
        ),
        (
            lambda x, n: br.metrics.mean_squared_error(x, x[:, :1]),
            br.ShapeError,
            "`prediction` and `target`",
        ),
        (lambda x, n: br.metrics.r2(x[:, 0], x[:1, 0]), br.ShapeError, "equal shapes"),
        (
            lambda x, n: br.metrics.mean(x[:, 0], x[:, :1]),
            br.ShapeError,
            "cannot broadcast the weights",
        ),
        (lambda x, n: br.metrics.accuracy(x, n[:1]), br.ShapeError, "one label for each"),
        (lambda x, n: br.metrics.recall(n, n[:2]), br.ShapeError, "equal shapes"),
        (lambda x, n: br.metrics.auc(x, n), br.ShapeError, "equal shapes"),
        (lambda x, n: br.metrics.edit_distance(x, n), br.DTypeError, "integer labels"),
        (
            lambda x, n: br.metrics.edit_distance(n, x[0]),
            br.ShapeError,
            r"an array \[rows, steps\]",
        ),
        (
            lambda x, n: br.metrics.pearson_correlation(x, x[:, :1]),
            br.ShapeError,
            "equal shapes",
        ),
        (
            lambda x, n: br.metrics.recall_at_precision(x, x > 0, 2.0),
            br.ProgramError,
            "a precision between 0 and 1, got 2.0",
        ),
        (lambda x, n: br.metrics.mean(3.0), br.ProgramError, "expected a variable, got 3.0"),
        (
            lambda x, n: br.metrics.mean(n, n + 1j),
            br.DTypeError,
            "expected real or bool weights",
        ),
        (
            lambda x, n: br.scan(lambda c, row: (c, br.metrics.mean(row).value), 0.0, x),
            br.ProgramError,
            "cannot accumulate in an inner block",
        ),
    ],
)
def test_bad_input_is_refused_by_the_users_line(build: Any, error: Any, said: str) -> None:
    with br.Program() as prog:
        x, n = br.data("x", [4, 2]), br.data("n", [4], dtype="int32")
        with pytest.raises(error, match=said) as told:
            build(x, n)
    assert "test_metrics.py" in str(told.value)
    assert not prog.updates
    assert not [name for name, var in prog.block(0).vars.items() if var.persistable]


def test_what_has_no_weight_is_not_looked_at(mode: str) -> None:
    nan, m = np.float32(np.nan), br.metrics
    with br.Program() as prog:
        x, y = br.data("x", [3]), br.data("y", [3], dtype="int32")
        mask = br.cast(br.isfinite(x), "bfloat16")
        logits = br.stack([x, -x], axis=1)
        made = {
            "mean": m.mean(x, mask),
            "r2": m.r2(x, 2.0 * x, mask),
            "perplexity": m.perplexity(logits, y, mask),
            "auc": m.auc(x, y == 1, mask, thresholds=3),
            "spoilt": m.auc(x, y == 1, name="spoilt"),
        }
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    feed = {"x": np.array([0.5, nan, 1.0]), "y": np.array([0, -1, 1])}
    got = exe.run(prog, scope, feed, {name: metric.value for name, metric in made.items()})
    losses = np.log1p(np.exp([-1.0, 2.0]))
    wanted = {"mean": 0.75, "r2": 1 - 1.25 / 0.5, "auc": 1.0, "spoilt": np.nan}
    wanted["perplexity"] = np.exp(losses.mean())
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, 1e-5, err_msg=name)
    with pytest.raises(
        br.DTypeError, match=r"expected a br.Scope, got \{\}[\s\S]*test_metrics"
    ):
        made["mean"].reset({})  # pyright: ignore[reportArgumentType]
    child = scope.new_scope()
    made["mean"].reset(child)
    assert scope.find_var(made["mean"].states[0].name).value == 0.0
    assert not child.names()


def test_bleu_is_that_of_its_paper() -> None:
    """The example of the paper's section 2.1.1: `the` seven times has 2 of 7."""
    bleu = br.metrics.bleu
    seven = ["the"] * 7
    people = [
        ["the", "cat", "is", "on", "the", "mat"],
        ["there", "is", "a", "cat", "on", "the", "mat"],
    ]
    assert bleu([seven], [people], longest=1) == pytest.approx(2 / 7)
    assert bleu([seven], [people]) == 0.0
    assert bleu(people[:1], [people]) == pytest.approx(1.0)
    assert bleu([people[0][:5]], [people[:1]], longest=2) == pytest.approx(np.exp(1 - 6 / 5))
    assert bleu([["a", "b"]], [[["a", "c"]]], longest=2, smooth=True) == pytest.approx(0.5)
    assert bleu([[]], [people]) == 0.0
    with pytest.raises(br.ProgramError, match="1 candidates and 0 lists"):
        bleu([["a"]], [])
    with pytest.raises(br.ProgramError, match=r"got a string[\s\S]*split"):
        bleu(["a b"], [["a b"]])
    with pytest.raises(br.ProgramError, match="longest of 1 or more, got 0"):
        bleu([["a"]], [[["a"]]], longest=0)
