"""What torch has, as Braces has it: dtypes, arrays, lines.

Nothing here imports torch: what it made tells all that is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.dtypes import DType, dtype_of
from braces.exchange.common.model.weights import Array
from braces.ir.records import Source

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)', re.MULTILINE)


def dtype_from(given: Any) -> DType:
    """The dtype that one of torch stands for.

    Raises:
        DTypeError: There is no such dtype in Braces.
    """
    return dtype_of(str(given).removeprefix("torch."))


def is_torch(value: Any, name: str) -> bool:
    """Whether a value is of torch's own class of this name, or of one made from it."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == "torch"
        for kind in type(value).__mro__
    )


def array_from(tensor: Any) -> Array:
    """The numbers of a tensor.

    Raises:
        DTypeError: There is no such dtype in Braces.
    """
    dtype = dtype_from(tensor.dtype)
    held = tensor.detach().cpu()
    wide = held if dtype.kind in "biufc" else held.float()  # NumPy has no such dtype itself
    return np.array(wide.numpy(), dtype)


def source_of(node: Any) -> Source | None:
    """The innermost line outside of torch that a node was made by."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    inside = f"{os.sep}torch{os.sep}"
    own = [frame for frame in frames if inside not in frame[0]] or frames
    return Source(own[-1][0], int(own[-1][1])) if own else None


# ---- where something stands ------------------------------------------------------------------


def module_of(node: Any) -> str:
    """The module of the user's that a node belongs to, as messages name it; maybe empty."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    known = kind if isinstance(kind, str) else kind.__qualname__
    return f"{path or 'the module'} ({known.rpartition('.')[2]})"
