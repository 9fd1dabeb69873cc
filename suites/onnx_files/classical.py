"""Estimators that exporters write as ONNX, by Braces, by ONNX Runtime and by themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from suites.case import Check, Excluded, Verdict, attempt
from suites.comparison import Imported, difference
from suites.onnx_files.data import Data, data
from suites.onnx_files.estimators import KINDS
from suites.onnx_files.files import compare, session_results

OPSETS = {"": 21, "ai.onnx.ml": 3}
"""The versions to which models are exported: converters refuse some later ones."""
STEP = 1e-5
"""The step of numerical derivatives of the estimators, which compute in float64."""
LEAST_SHARE = 0.9
"""The share of equal predictions of classes by the file and by the estimator."""
LIBRARIES = {"LGBM": "lightgbm", "XGB": "xgboost"}
PIECEWISE = (
    "KBinsDiscretizer", "Binarizer", "QuantileTransformer", "Neighbors", "Imputer", "Encoder",
)  # fmt: skip
"""Parts of names of transformers that have no derivative everywhere."""
NOT_SELECTED = ("PowerTransformer",)
"""Transformers whose file takes powers of negative numbers and does not select their results:
the derivative of such a selection is NaN, as in other systems.
"""


def names(library: str) -> list[str]:
    """The cases of a library."""
    return [name for cases in KINDS.values() for name in cases if library_of(name) == library]


def library_of(name: str) -> str:
    """The library of a case."""
    return next((lib for start, lib in LIBRARIES.items() if name.startswith(start)), "sklearn")


def run(name: str) -> Iterator[Check]:
    """Fit, export and compare one estimator."""
    kind = next(kind for kind, cases in KINDS.items() if name in cases)
    given = data(kind)
    estimator, model = _exported(name, kind, given)
    asked = given.asked if given.asked.ndim > 1 else given.asked[:, None]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        inputs, wanted = session_results(path, {model.graph.input[0].name: asked})
        yield from compare(path, inputs, {inputs[0]: asked}, wanted)
        same = attempt("estimator", lambda: _against_estimator(estimator, asked, wanted))
        yield same
        slope = _slope(estimator, kind, name, asked)
        if slope is not None and same.verdict == Verdict.EQUAL:
            yield attempt("gradient", lambda: _against_slope(path, asked, slope))


# ---- export ----------------------------------------------------------------------------------


def _exported(name: str, kind: str, given: Data) -> tuple[Any, Any]:
    try:
        estimator = KINDS[kind][name]()
        estimator.fit(given.y) if kind == "labels" else estimator.fit(given.x, given.y)
        return estimator, _convert(estimator, library_of(name), given.asked)
    except Exception as error:
        raise Excluded(f"{type(error).__name__}: {error}") from error


def _convert(estimator: Any, library: str, asked: np.ndarray) -> Any:
    columns = asked.shape[1] if asked.ndim > 1 else 1
    if library == "sklearn":
        return _convert_sklearn(estimator, asked.dtype, columns)
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [("X", FloatTensorType([None, columns]))]
    if library == "lightgbm":
        return onnxmltools.convert_lightgbm(estimator, initial_types=types, zipmap=False)
    return onnxmltools.convert_xgboost(estimator, initial_types=types)


def _convert_sklearn(estimator: Any, dtype: np.dtype[Any], columns: int) -> Any:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType

    column_type = Int64TensorType if dtype.kind == "i" else FloatTensorType
    types: Any = [("X", column_type([None, columns]))]
    options = {id(estimator): {"zipmap": False}}
    try:
        return to_onnx(estimator, initial_types=types, options=options, target_opset=OPSETS)
    except (NameError, RuntimeError):  # an estimator without this option
        return to_onnx(estimator, initial_types=types, target_opset=OPSETS)


# ---- the estimator ---------------------------------------------------------------------------


def _against_estimator(estimator: Any, asked: np.ndarray, wanted: Sequence[Any]) -> str:
    """Compare the first output of the file with the estimator's.

    Raises:
        Excluded: If ONNX Runtime differs from the estimator, for the exporter's reasons.
    """
    method = _method(estimator)
    own = np.asarray(method(asked if len(asked.T) > 1 else asked.ravel()))
    first = np.asarray(wanted[0])
    if own.size != first.size:
        raise Excluded("the converter returns another shape than the estimator")
    own = own.reshape(first.shape).astype(first.dtype)
    if first.dtype.kind != "f":  # float32 may decide ties otherwise
        share = float(np.mean(own == first))
        if share < LEAST_SHARE:
            raise Excluded(f"ONNX Runtime and the estimator agree on {share:.0%} of the rows")
        return ""
    scale = float(np.max(np.abs(own), initial=0.0))
    text = difference(first, own, rtol=1e-2, atol=1e-2 * scale)
    if text:
        raise Excluded(f"ONNX Runtime differs from the estimator: {text}")
    return ""


def _method(estimator: Any) -> Callable[[Any], Any]:
    for name in ("predict", "transform"):
        if hasattr(estimator, name):
            return getattr(estimator, name)
    raise Excluded("the estimator neither predicts nor transforms")


# ---- gradients -------------------------------------------------------------------------------


def _slope(
    estimator: Any, kind: str, name: str, asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a direction, and the derivative of the estimator's output along it, by numbers."""
    if asked.dtype.kind != "f" or any(part in name for part in PIECEWISE + NOT_SELECTED):
        return None
    is_regressor = kind in ("regression", "positive targets", "two targets")
    if not is_regressor and (hasattr(estimator, "predict") or kind == "holes"):
        return None
    direction = np.random.default_rng(1).normal(size=asked.shape)
    x, method = asked.astype(np.float64), _method(estimator)
    try:
        ends = [np.asarray(method(x + sign * STEP * direction)) for sign in (1, -1)]
    except Exception:
        return None
    slope = (ends[0] - ends[1]) / (2 * STEP)
    return direction.astype(np.float32), slope.reshape(len(asked), -1)


def _against_slope(path: Path, asked: np.ndarray, slope: tuple[np.ndarray, np.ndarray]) -> str:
    """Compare the gradient, weighted along a direction, with the estimator's derivative."""
    program, values = br.from_onnx(path)
    direction, wanted = slope
    with program:
        y = program.var(program.fetches[0])
        weights = np.random.default_rng(2).normal(size=wanted.shape[-1]).astype(np.float32)
        total = br.sum(y * (weights if y.ndim > 1 else weights[0]))
    (feed,) = program.feeds
    (made,) = Imported(program, values, {feed: asked}).gradients(total, [feed])
    along, expected = (made * direction).sum(axis=1), wanted @ weights
    scale = float(np.max(np.abs(expected), initial=0.0))
    return difference(
        along.astype(np.float64),
        expected.astype(np.float64),
        rtol=1e-2,
        atol=3e-3 * scale + 1e-5,
    )
