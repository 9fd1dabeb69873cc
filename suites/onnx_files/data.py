"""Generated data on which estimators are fitted, and for which they predict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

ROWS, COLUMNS, CLASSES = 60, 6, 3
SEED = 0


@dataclass(frozen=True)
class Data:
    """Features with targets, and further rows for which predictions are compared."""

    x: np.ndarray
    y: np.ndarray
    asked: np.ndarray


def _numbers(rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(SEED + rows).normal(size=(rows, COLUMNS)).astype(np.float32)


def _scores(x: np.ndarray) -> np.ndarray:
    weights = np.random.default_rng(7).normal(size=(COLUMNS,))
    return x @ weights + 0.5 * x[:, 0] * x[:, 1]


def _classes(x: np.ndarray, count: int) -> np.ndarray:
    score = _scores(x)
    return np.searchsorted(np.quantile(score, np.arange(1, count) / count), score)


def _data(x: np.ndarray, y: np.ndarray, asked: np.ndarray | None = None) -> Data:
    return Data(x, y, _numbers(17) if asked is None else asked)


def _counts(rows: int) -> np.ndarray:
    return np.random.default_rng(SEED + rows).integers(0, 4, (rows, COLUMNS)).astype(np.float32)


def _holes(x: np.ndarray) -> np.ndarray:
    missing = np.random.default_rng(3).random(x.shape) < 0.15
    return np.where(missing, np.float32(np.nan), x)


def _targets(x: np.ndarray) -> np.ndarray:
    return np.stack([_scores(x), x[:, 2] - x[:, 3]], axis=1)


@cache
def data(kind: str) -> Data:
    """The data of a kind."""
    x = _numbers()
    positive = np.abs(x)
    return {
        "regression": lambda: _data(x, _scores(x)),
        "positive targets": lambda: _data(x, np.exp(_scores(x) / 4)),
        "two targets": lambda: _data(x, _targets(x)),
        "two classes": lambda: _data(x, _classes(x, 2)),
        "classes": lambda: _data(x, _classes(x, CLASSES)),
        "two class targets": lambda: _data(
            x, np.stack([_classes(x, 2), _classes(x[:, ::-1], 3)], axis=1)
        ),
        "many labels": lambda: _data(x, (_targets(x) > 0).astype(int)),
        "counts": lambda: _data(_counts(ROWS), _classes(x, CLASSES), _counts(17)),
        "positive": lambda: _data(positive, _classes(x, CLASSES), np.abs(_numbers(17))),
        "holes": lambda: _data(_holes(x), _classes(x, CLASSES), _holes(_numbers(17))),
        "kernel": lambda: _data(x @ x.T, _scores(x), _numbers(17) @ x.T),
        "labels": lambda: _data(_classes(x, 4), _classes(x, 4), _classes(_numbers(17), 4)),
    }[kind]()
