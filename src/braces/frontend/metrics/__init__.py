"""Metrics over many batches: sums that are states of the program, and a number made of them.

    right = br.metrics.accuracy(logits, labels)
    loss_value, so_far = exe.run(prog, scope, feed, [loss, right.value])
    right.reset(scope)                       before the next epoch

The sums are called after the metric, `accuracy/total`, and are states: each run that computes
updates adds its batch to them, they are saved with the others, and `Program.for_test` keeps
them moving. `value` is of all batches since the last reset, that of this run included; `batch`
is of this run alone. Of nothing, a metric is NaN.

Sums are float64, in which 2^53 rows are counted exactly. Metrics have no gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.guard import missing_from
from braces.frontend.metrics.bleu import bleu
from braces.frontend.metrics.counts import auc, confusion_matrix, f1, precision, recall
from braces.frontend.metrics.means import (
    accuracy,
    mean,
    mean_absolute_error,
    mean_squared_error,
    perplexity,
    r2,
    root_mean_squared_error,
    top_k_accuracy,
)
from braces.frontend.metrics.metric import Metric

__all__ = [
    "Metric", "accuracy", "auc", "bleu", "confusion_matrix", "f1", "mean",
    "mean_absolute_error", "mean_squared_error", "perplexity", "precision", "r2", "recall",
    "root_mean_squared_error", "top_k_accuracy",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = missing_from("br.metrics", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
