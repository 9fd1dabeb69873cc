"""Types as ONNX's own records write them."""

from __future__ import annotations

from typing import Any


def axes_of(type_: Any) -> list[Any]:
    """The axes of a type, of its elements where it is a sequence or optional."""
    which = type_.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return axes_of(getattr(type_, which).elem_type)
    return list(type_.tensor_type.shape.dim) if which == "tensor_type" else []
