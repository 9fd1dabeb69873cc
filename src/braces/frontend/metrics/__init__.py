"""Metrics over many batches: sums that are states of the program, and a number made of them.

    right = br.metrics.accuracy(logits, labels)
    loss_value, so_far = exe.run(prog, scope, feed, [loss, right.value])
    right.reset(scope)                       before the next epoch

The sums are called after the metric, `accuracy/total`, and are states: each run that computes
updates adds its batch to them, they are saved with the others, and `Program.for_test` keeps
them moving. `value` is of all batches since the last reset, that of this run included; `batch`
is of this run alone. Of nothing, a metric is NaN; a batch of no rows, or of no weight, reads it
and changes nothing. In a model that is saved, `predict` reads without counting, as it changes
no state at all; `programs={"test": (prog.for_test(), feeds, fetches)}` counts.

Sums are float64, in which 2^53 rows are counted exactly. Metrics have no gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.core.all_or_nothing import missing_from
from braces.frontend.metrics.base import Metric
from braces.frontend.metrics.bleu import bleu
from braces.frontend.metrics.classification import confusion_matrix, f1, precision, recall
from braces.frontend.metrics.correlations import (
    concordance_correlation,
    cosine_similarity,
    pearson_correlation,
)
from braces.frontend.metrics.edit_distance import edit_distance
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
from braces.frontend.metrics.threshold_curves import (
    auc,
    precision_at_recall,
    recall_at_precision,
    sensitivity_at_specificity,
    specificity_at_sensitivity,
)

__all__ = [
    "Metric", "accuracy", "auc", "bleu", "concordance_correlation", "confusion_matrix",
    "cosine_similarity", "edit_distance", "f1", "mean", "mean_absolute_error",
    "mean_squared_error", "pearson_correlation", "perplexity", "precision",
    "precision_at_recall", "r2", "recall", "recall_at_precision", "root_mean_squared_error",
    "sensitivity_at_specificity", "specificity_at_sensitivity", "top_k_accuracy",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = missing_from("br.metrics", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
