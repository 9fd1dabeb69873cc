"""Metrics over many batches: states that accumulate sums, and values computed from them.

    right = br.metrics.accuracy(logits, labels)
    loss_value, so_far = exe.run(prog, scope, feed, [loss, right.value])
    right.reset(scope)                       before the next epoch

The accumulators are states with the metric's name as a prefix, `accuracy/total`. Each run that
computes updates adds its batch to them. They are saved with the other states, and
`Program.for_test` keeps updating them. `value` covers all batches since the last reset,
including this run; `batch` covers this run only. A metric of no data is NaN. An empty batch, or
one of zero weight, leaves the accumulators unchanged. In a saved model, `predict` reads metrics
without counting, as it changes no state; `programs={"test": (prog.for_test(), feeds, fetches)}`
counts.

Accumulators are float64, which counts up to 2^53 examples exactly. Metrics have no gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braces.frontend.core.all_or_nothing import module_getattr
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
    binary_accuracy,
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
    "Metric", "accuracy", "auc", "binary_accuracy", "bleu", "concordance_correlation",
    "confusion_matrix", "cosine_similarity", "edit_distance", "f1", "mean",
    "mean_absolute_error", "mean_squared_error", "pearson_correlation", "perplexity",
    "precision", "precision_at_recall", "r2", "recall", "recall_at_precision",
    "root_mean_squared_error", "sensitivity_at_specificity", "specificity_at_sensitivity",
    "top_k_accuracy",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = module_getattr("br.metrics", __all__)


def __dir__() -> list[str]:
    return sorted(__all__)
