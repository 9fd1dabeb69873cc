"""Numbers of dtypes and kinds of variables in files."""

from __future__ import annotations

from typing import Any

from braces.dtypes import DType, dtype_of, short_name
from braces.ir.proto import program_pb2 as pb
from braces.ir.records import VARIABLE_KINDS

DTYPES: dict[int, DType] = {
    number: dtype_of(name.removeprefix("DTYPE_").lower())
    for name, number in pb.DType.items()
    if number
}
VAR_KINDS: dict[int, str] = {
    number: name.removeprefix("VAR_KIND_").lower()
    for name, number in pb.VarKind.items()
    if number
}
KIND_NUMBERS = {kind: number for number, kind in VAR_KINDS.items()}
assert set(KIND_NUMBERS) == set(VARIABLE_KINDS)

_DTYPE_NUMBERS = {short_name(dtype): number for number, dtype in DTYPES.items()}


def dtype_number(dtype: DType) -> Any:
    """Return the number of a dtype.

    Raises:
        DTypeError: If the dtype has no number.
    """
    return _DTYPE_NUMBERS[short_name(dtype_of(dtype))]
