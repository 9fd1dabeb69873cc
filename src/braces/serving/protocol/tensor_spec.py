"""Datatypes of the protocol, and the declared tensors of a model.

BOOL, UINT8 … UINT64, INT8 … INT64, FP16, BF16, FP32, FP64
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from braces.dtypes import SHORT_NAMES, DType
from braces.errors import visible
from braces.serving.protocol.refusal import invalid

_SHORT = {
    **{"BOOL": "bool", "FP16": "f16", "BF16": "bf16", "FP32": "f32", "FP64": "f64"},
    **{f"INT{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
DTYPES: dict[str, DType] = {name: SHORT_NAMES[short] for name, short in _SHORT.items()}
DATATYPES: dict[DType, str] = {dtype: name for name, dtype in DTYPES.items()}

Array = np.ndarray[Any, Any]
MOST_AXES = 64
"""The largest rank of an array of NumPy."""


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model.

    Attributes:
        name: Its name.
        dtype: Its dtype.
        shape: Its sizes; a name stands for a symbolic size.
    """

    name: str
    dtype: DType
    shape: tuple[int | str, ...]

    def describe(self) -> dict[str, Any]:
        """Return the entry of the metadata; -1 stands for a symbolic size."""
        sizes = [size if isinstance(size, int) else -1 for size in self.shape]
        return {"name": self.name, "datatype": DATATYPES[self.dtype], "shape": sizes}

    def __str__(self) -> str:
        return f"{DATATYPES[self.dtype]}[{','.join(map(str, self.shape))}]"

    def admit(self, dtype: DType, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
        """Check an array against the declaration, and add its symbolic sizes to `sizes`.

        Raises:
            RefusalError: If dtype, rank, a size, or a size of the same name differs.
        """
        if dtype != self.dtype:
            actual = DATATYPES.get(dtype, dtype.name)
            raise invalid(
                f"expected {DATATYPES[self.dtype]} for input `{self.name}`, got {actual}."
            )
        if len(shape) != len(self.shape) or not all(
            _fits(declared, size, sizes)
            for declared, size in zip(self.shape, shape, strict=True)
        ):
            known = {name: size for name, size in sizes.items() if name in self.shape}
            where = f" where {known}" if known else ""
            raise invalid(
                f"expected {self} for input `{self.name}`, got shape {list(shape)}{where}."
            )


def _fits(declared: int | str, size: int, sizes: dict[str, int]) -> bool:
    if isinstance(declared, int):
        return declared == size
    return not declared or sizes.setdefault(declared, size) == size


def check_inputs(
    specs: Mapping[str, TensorSpec], arrays: Mapping[str, Array]
) -> dict[str, int]:
    """Check the inputs of a request against those of a model; return the symbolic sizes.

    Raises:
        RefusalError: If inputs are missing, unknown, or of a different type.
    """
    check_names(specs, arrays)
    sizes: dict[str, int] = {}
    for name, spec in specs.items():
        spec.admit(arrays[name].dtype, arrays[name].shape, sizes)
    return sizes


def check_names(specs: Mapping[str, TensorSpec], names: Iterable[str]) -> None:
    """Check the names of inputs.

    Raises:
        RefusalError: If inputs are missing or unknown.
    """
    present = set(names)
    if missing := [name for name in specs if name not in present]:
        raise invalid(f"missing input {_quoted(missing)}; the model has {_quoted(specs)}.")
    if unknown := sorted(present - specs.keys()):
        raise invalid(f"unknown input {_quoted(unknown)}; the model has {_quoted(specs)}.")


def _quoted(names: Iterable[str]) -> str:
    return visible(", ".join(f"`{name[:80]}`" for name in list(names)[:20])) or "none"
