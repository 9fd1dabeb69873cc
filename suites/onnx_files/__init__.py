"""ONNX files: models of exporters for classical learning, and files of packages of PyPI."""

from __future__ import annotations

from suites.case import Group
from suites.onnx_files import classical, files

TITLE = "ONNX files of exporters and of packages"
PACKAGES = (
    "onnx", "onnxruntime", "skl2onnx", "onnxmltools", "scikit-learn", "lightgbm", "xgboost",
)  # fmt: skip

GROUPS = {
    "scikit-learn": Group(1.0, lambda: classical.names("sklearn"), classical.run, 300),
    "LightGBM": Group(1.0, lambda: classical.names("lightgbm"), classical.run, 300),
    "XGBoost": Group(1.0, lambda: classical.names("xgboost"), classical.run, 300),
    "files of packages": Group(0.97, files.names, files.run, seconds=600),
}
