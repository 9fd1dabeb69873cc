"""The position in the data in the file of a checkpoint.

A position of more than `IN_HEADER` bytes as JSON, such as that of a long history, is an array
of bytes of the file; its record then has `"position_array": true` in place of `data_position`.
The header of a safetensors file is limited, and it is read whole before each array.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.errors import FileFormatError
from braces.storage.tensor_file import RESERVED, Array, TensorFile

IN_HEADER = 1 << 16
"""The largest number of bytes of a position in the header."""
ARRAY = f"{RESERVED}/position"
_FLAG = "position_array"


def stored_position(
    record: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the record of a checkpoint in its file, and the array of a large position."""
    text = json.dumps(record["data_position"], allow_nan=False).encode()
    if len(text) <= IN_HEADER:
        return dict(record), {}
    rest = {name: value for name, value in record.items() if name != "data_position"}
    return {**rest, _FLAG: True}, {ARRAY: np.frombuffer(text, np.uint8)}


def read_position(file: TensorFile) -> Any:
    """Return the position in the data of the file of a checkpoint.

    Raises:
        FileFormatError: If the array of the position is missing or damaged.
    """
    if not file.record.get(_FLAG):
        return file.record.get("data_position")
    declared = file.types.get(ARRAY)
    try:
        if declared is None or declared.dtype != np.uint8 or len(declared.shape) != 1:
            raise ValueError("expected an array of bytes")
        return json.loads(file.read(ARRAY).tobytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(
            "the checkpoint has an invalid position in the data.", given=f"{error!s:.80}"
        ) from None
