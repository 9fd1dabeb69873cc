"""The reader of a missing attribute: the attributes that it reads next, or an import."""

from __future__ import annotations

import dis
from types import FrameType

READS = ("LOAD_ATTR", "LOAD_METHOD")


def attributes_after(frame: FrameType | None, name: str) -> list[str]:
    """Return the attributes that follow in the expression: `Linear` of `br.nn.Linear(3)`.

    Args:
        frame: The frame of the `__getattr__` that is called.
        name: The missing attribute.
    """
    reader = frame and frame.f_back
    if reader is None:
        return []
    code = (
        step for step in dis.get_instructions(reader.f_code) if step.offset >= reader.f_lasti
    )
    first = next(code, None)
    if first is None or first.opname not in READS or first.argval != name:
        return []
    names: list[str] = []
    for step in code:
        if step.opname in READS:
            names.append(str(step.argval))
        elif step.opname != "EXTENDED_ARG":
            break
    return names


def is_import(frame: FrameType | None) -> bool:
    """Return whether the caller of a frame is the import system."""
    caller = frame and frame.f_back
    return caller is not None and caller.f_globals.get("__name__") == "importlib._bootstrap"
