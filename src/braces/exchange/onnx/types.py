"""Types of ONNX protobuf records."""

from __future__ import annotations

from typing import Any

PRODUCER = "braces"
"""The producer name of Braces in models."""


def axes_of(type_: Any) -> list[Any]:
    """Return the axes of a type, or of its element type if it is a sequence or optional."""
    which = type_.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return axes_of(getattr(type_, which).elem_type)
    return list(type_.tensor_type.shape.dim) if which == "tensor_type" else []
