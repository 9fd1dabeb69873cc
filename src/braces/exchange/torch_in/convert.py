"""What torch has, as Braces has it: dtypes, arrays, sizes, lines.

Nothing here imports torch: what it made tells all that is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from braces import dims
from braces.builder.var import Var
from braces.dims import Dim, Size
from braces.dtypes import DType, dtype_of
from braces.errors import ShapeError
from braces.exchange import sizes
from braces.exchange.names import dimension_name
from braces.exchange.onnx_in.known import Array
from braces.frontend import functions as ops
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


# ---- sizes -----------------------------------------------------------------------------------


def size_from(size: Any) -> Size:
    """A size of torch: a number, or a polynomial over named ones.

    Raises:
        ShapeError: It is computed in a way that sizes are not.
    """
    if isinstance(size, int):
        return size
    return _from_expression(size.node.expr, _names(size.node.shape_env))


def _names(env: Any) -> Mapping[str, str]:
    """What users called the symbols of an export, where they did."""
    called = env.source_name_to_debug_name
    found = dict[str, str]()
    for symbol, sources in env.var_to_sources.items():
        for source in sources:
            name = source.name() if callable(source.name) else source.name
            if name in called:
                found[str(symbol)] = called[name]
    return found


_JOINED: Mapping[str, Callable[[Size, Size], Size]] = {
    "Add": sizes.plus, "Mul": sizes.times, "Max": sizes.largest, "Min": sizes.smallest,
    "FloorDiv": sizes.over, "Mod": sizes.rest, "PythonMod": sizes.rest,
    "CleanDiv": sizes.over,
}  # fmt: skip


def _from_expression(expression: Any, names: Mapping[str, str]) -> Size:
    kind = type(expression).__name__
    if kind == "Symbol":
        name = dimension_name(names.get(str(expression), str(expression)))
        if name is not None:
            return Dim.named(name)
    if expression.is_Integer:
        return int(expression)
    if kind == "Pow" and expression.exp.is_Integer and expression.exp > 0:
        base = _from_expression(expression.base, names)
        return dims.product([base] * int(expression.exp))
    joined = _JOINED.get(kind)
    if joined is None:
        raise ShapeError(f"The size {expression} is not one that programs compute.")
    first, *rest = (_from_expression(part, names) for part in expression.args)
    for part in rest:
        first = joined(first, part)
    return first


def in_dtype(x: Var, dtype: DType) -> Var:
    """The same numbers in another dtype."""
    if x.dtype == dtype:
        return x
    return ops.not_equal(x, ops.zeros_like(x)) if dtype.kind == "b" else ops.cast(x, dtype)
