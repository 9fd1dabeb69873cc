"""Metrics as scikit-learn and SciPy have them, kept in checkpoints and models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as theirs

import braces as br
from braces.frontend.metrics.base import Metric
from tests.plugins.shares import thorough

CLASSES, PLACES = 4, 21
BATCHES = (0, 6, 17, 1, 0)
ZERO_OF_NOTHING = {"matrix", "precision", "recalls", "f1"}


def batches() -> list[dict[str, np.ndarray]]:
    """Batches of any number of rows, the first and the last of none."""
    rng = np.random.default_rng(4)
    return [
        {
            "logits": rng.normal(size=(n, CLASSES)),
            "labels": rng.integers(0, CLASSES, n),
            "scores": rng.integers(0, PLACES, n) / (PLACES - 1),
            "fine": rng.uniform(size=n),
            "targets": rng.normal(size=(n, 2)),
            "weights": rng.integers(0, 3, n).astype("f8"),
        }
        for n in BATCHES
    ]


def built() -> tuple[br.Program, dict[str, Metric]]:
    m = br.metrics
    with br.Program() as prog:
        data = {name: br.data(name, ["n", *value.shape[1:]], dtype=str(value.dtype))
                for name, value in batches()[0].items()}  # fmt: skip
        logits, labels, scores, fine, y, w = data.values()
        said, true, both = br.argmax(logits, axis=-1), labels % 2, br.expand_dims(w, axis=1)
        kinds = [said, labels, CLASSES]
        made = {
            "accuracy": m.accuracy(logits, labels, w),
            "top_k": m.top_k_accuracy(logits, labels, 2, w),
            "perplexity": m.perplexity(logits, labels, w),
            "matrix": m.confusion_matrix(*kinds, w),
            "precision": m.precision(*kinds, "macro", w),
            "recalls": m.recall(*kinds, None, w),
            "f1": m.f1(*kinds, "micro", w),
            "auc": m.auc(scores, true, w, thresholds=PLACES),
            "auc_fine": m.auc(fine, true, thresholds=PLACES),
            "precision_at": m.precision_at_recall(scores, true, 0.6, w, thresholds=PLACES),
            "recall_at": m.recall_at_precision(scores, true, 0.5, w, thresholds=PLACES),
            "sensitivity": m.sensitivity_at_specificity(
                scores, true, 0.3, w, thresholds=PLACES
            ),
            "specificity": m.specificity_at_sensitivity(
                scores, true, 0.7, w, thresholds=PLACES
            ),
            "squared": m.mean_squared_error(y, logits[:, :2], both),
            "absolute": m.mean_absolute_error(y, logits[:, :2], both),
            "root": m.root_mean_squared_error(scores, fine, w),
            "r2": m.r2(scores, fine, w),
            "pearson": m.pearson_correlation(scores, fine),
            "concordance": m.concordance_correlation(scores, fine, w),
            "cosine": m.cosine_similarity(y, logits[:, :2], w),
            "mean": m.mean(fine, w),
        }
    return prog, made


def expected(d: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the results of other libraries for all batch elements at once."""
    logits, labels, scores, fine, y, w = d.values()
    said, true, two = logits.argmax(1), labels % 2, logits[:, :2]
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    of: dict[str, Any] = {"sample_weight": w}
    kinds: Any = {**of, "labels": range(CLASSES), "zero_division": 0}
    precisions, recalls, _ = theirs.precision_recall_curve(true, scores, **of)
    false, found, _ = theirs.roc_curve(true, scores, drop_intermediate=False, **of)
    cosines = (y * two).sum(1) / np.linalg.norm(y, axis=1) / np.linalg.norm(two, axis=1)
    means = [np.average(x, weights=w) for x in (fine, scores)]
    both = np.cov(fine, scores, aweights=w, ddof=0)
    return {
        "accuracy": theirs.accuracy_score(labels, said, **of),
        "top_k": theirs.top_k_accuracy_score(labels, logits, k=2, **of),
        "perplexity": np.exp(theirs.log_loss(labels, chances, **of)),
        "matrix": theirs.confusion_matrix(labels, said, **of),
        "precision": theirs.precision_score(labels, said, average="macro", **kinds),
        "recalls": theirs.recall_score(labels, said, average=None, **kinds),
        "f1": theirs.f1_score(labels, said, average="micro", **kinds),
        "auc": theirs.roc_auc_score(true, scores, **of),
        "precision_at": precisions[recalls >= 0.6].max(),
        "recall_at": recalls[precisions >= 0.5].max(),
        "sensitivity": found[1 - false >= 0.3].max(),
        "specificity": (1 - false)[found >= 0.7].max(),
        "squared": theirs.mean_squared_error(y, two, **of),
        "absolute": theirs.mean_absolute_error(y, two, **of),
        "root": theirs.root_mean_squared_error(fine, scores, **of),
        "r2": theirs.r2_score(fine, scores, **of),
        "pearson": stats.pearsonr(scores, fine).statistic,
        "concordance": 2 * both[0, 1] / (both.trace() + (means[0] - means[1]) ** 2),
        "cosine": np.average(cosines, weights=w),
        "mean": means[0],
    }


@pytest.mark.parametrize("mode", ["compile", thorough("interpret")])
def test_metrics_are_those_of_scikit_learn_and_go_on_where_a_run_was_killed(
    tmp_path: Path, mode: str
) -> None:
    prog, metrics = built()
    exe, scope, given = br.Executor(mode=mode), br.Scope(), batches()
    exe.init(prog, scope)
    fetch = {name: metric.value for name, metric in metrics.items()}
    nothing = exe.run(prog, scope, given[0], fetch)
    for name, value in nothing.items():
        wanted = np.zeros_like(value) if name in ZERO_OF_NOTHING else np.nan
        np.testing.assert_array_equal(value, wanted, name)
    for feed in given[1:3]:
        exe.run(prog, scope, feed, fetch)
    br.save_checkpoint(scope, tmp_path, 2)
    scope = br.Scope()
    exe.init(prog, scope)
    br.load_checkpoint(scope, tmp_path)
    last, read = (exe.run(prog, scope, feed, fetch) for feed in given[3:])
    wanted = expected({key: np.concatenate([one[key] for one in given]) for key in given[0]})
    assert {*wanted} == {*metrics} - {"auc_fine"}
    for name, value in wanted.items():
        np.testing.assert_allclose(last[name], value, 1e-9, err_msg=name)
        np.testing.assert_array_equal(read[name], last[name], name)
    _check_rounded(given, float(last["auc_fine"]))


def _check_rounded(given: list[dict[str, np.ndarray]], area: float) -> None:
    """An area is wrong by half of the pairs at most that are in one interval."""
    fine, labels = (np.concatenate([one[key] for one in given]) for key in ("fine", "labels"))
    true, place = labels % 2 == 1, (fine * (PLACES - 1)).round()
    alike = (place[true][:, None] == place[~true]).mean()
    assert 0 < abs(area - theirs.roc_auc_score(true, fine)) <= alike / 2


def test_metrics_are_read_in_models_and_counted_by_programs_for_testing(
    tmp_path: Path, mode: str
) -> None:
    with br.Program() as prog:
        x, y = br.data("x", ["n", 3]), br.data("y", ["n"], dtype="int32")
        right = br.metrics.accuracy(x, y)
        seen = br.metrics.mean(br.cast(y, "float32"), y < 2, name="seen")
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    feed = {"x": np.eye(3, dtype="f4"), "y": np.array([0, 1, 1], "i4")}
    other = {"x": feed["x"], "y": np.array([1, 2, 2], "i4")}
    exe.run(prog, scope, feed, right.value)
    fetches = {"right": right.value, "seen": seen.value}
    test = (prog.for_test(), ["x", "y"], fetches)
    br.save_model(tmp_path / "m", prog, scope, ["x", "y"], fetches, programs={"test": test})
    model = br.load_model(tmp_path / "m", mode=mode)
    for name, given, wanted in (
        ("predict", other, (3 / 6, 3 / 4)),
        ("predict", other, (3 / 6, 3 / 4)),
        ("test", other, (3 / 6, 3 / 4)),
        ("test", feed, (5 / 9, 5 / 7)),
        ("predict", feed, (7 / 12, 7 / 10)),
    ):
        got = model.run_program(name, **given)
        np.testing.assert_allclose([got["right"], got["seen"]], wanted, 1e-6, err_msg=name)
    right.reset(model.scope)
    np.testing.assert_allclose(model.run(**feed)["right"], 2 / 3)


# ---- edits -----------------------------------------------------------------------------------


def distance(left: list[int], right: list[int]) -> int:
    """The definition, over all ways to begin."""
    if not left or not right:
        return len(left) + len(right)
    same = left[0] == right[0]
    ways = [distance(left[1:], right[1:]) + (not same)]
    if not same:
        ways += [distance(left[1:], right) + 1, distance(left, right[1:]) + 1]
    return min(ways)


def test_edit_distances_are_those_of_their_definition(mode: str) -> None:
    rng = np.random.default_rng(2)
    with br.Program() as prog:
        said, true = br.data("said", ["b", "s"], "int32"), br.data("true", ["b", "t"], "int64")
        n, k, w = (br.data(name, ["b"], "int32") for name in ("n", "k", "w"))
        m = br.metrics
        rate = m.edit_distance(said, true, w, lengths=n, label_lengths=k)
        each = m.edit_distance(said, true, lengths=n, label_lengths=k, normalize=False)
        whole = m.edit_distance(said, true)
    exe, scope = br.Executor(mode=mode), br.Scope()
    exe.init(prog, scope)
    edits = words = rows = plain = others = all_words = 0
    for b, s, t in ((3, 5, 4), (2, 1, 6), (0, 2, 2), (2, 0, 3)):
        feed = {
            "said": rng.integers(0, 3, (b, s)).astype("i4"),
            "true": rng.integers(0, 3, (b, t)),
            "n": rng.integers(0, s + 1, b).astype("i4"),
            "k": rng.integers(0, t + 1, b).astype("i4"),
            "w": rng.integers(0, 3, b).astype("i4"),
        }
        got = exe.run(prog, scope, feed, [rate.value, each.value, whole.value])
        parts = (feed[key] for key in ("said", "true", "n", "k"))
        found = [distance(list(x[:i]), list(y[:j])) for x, y, i, j in zip(*parts, strict=True)]
        pairs = zip(feed["said"], feed["true"], strict=True)
        others += sum(distance(list(x), list(y)) for x, y in pairs)
        rows += b
        edits += (feed["w"] * np.array(found, int)).sum()
        words += (feed["w"] * feed["k"]).sum()
        plain += sum(found)
        all_words += b * t
    np.testing.assert_allclose(got, [edits / words, plain / rows, others / all_words])
    feed["n"] = feed["n"] + 9
    with pytest.raises(br.IndexRangeError):
        exe.run(prog, scope, feed, rate.value)
