"""Convert dtypes, arrays and source lines of torch.

Nothing here imports torch: its objects provide all information.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from braces.exchange.common.model.source_lines import describe_lines, sources_in
from braces.exchange.common.model.weights import Array
from braces.extend.programs import Source
from braces.extend.types import DType, dtype_of


def dtype_from(torch_dtype: Any) -> DType:
    """Return the dtype of a torch dtype.

    Raises:
        DTypeError: If Braces has no corresponding dtype.
    """
    return dtype_of(str(torch_dtype).removeprefix("torch."))


def is_torch(value: Any, name: str) -> bool:
    """Return whether a value is an instance of the torch class with this name."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == "torch"
        for kind in type(value).__mro__
    )


def array_from(tensor: Any) -> Array:
    """Return the array of a tensor.

    Raises:
        DTypeError: If Braces has no corresponding dtype.
    """
    dtype = dtype_from(tensor.dtype)
    detached = tensor.detach().cpu()
    convertible = (
        detached if dtype.kind in "biufc" else detached.float()
    )  # NumPy itself has no such dtype
    return np.array(convertible.numpy(), dtype)


# ---- locations -------------------------------------------------------------------------------


def source_of(node: Any) -> Source | None:
    """Return the innermost line outside torch that created a node.

    An export with `strict=False` has the call of a function of control flow, and then lines of
    code that torch generated from this function.
    """
    sources = sources_in(node.meta.get("stack_trace") or "")
    return sources[-1] if sources else None


def lines_of(node: Any) -> str:
    """Return the lines outside torch that created a node, for messages; may be empty."""
    return describe_lines(sources_in(node.meta.get("stack_trace") or ""))


def module_of(node: Any) -> str:
    """Return the user's module that a node belongs to, for messages; may be empty."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    if not stack:
        return ""
    path, kind = list(stack.values())[-1]
    class_name = kind if isinstance(kind, str) else kind.__qualname__
    return f"{path or 'the module'} ({class_name.rpartition('.')[2]})"
