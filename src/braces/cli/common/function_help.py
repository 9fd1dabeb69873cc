"""Documentation in `braces ops` of public functions that are not operators."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from braces.cli.common.terminal import Style
from braces.define.decorator import OPS
from braces.homes import MODULES, public_path

LAYERS = (
    "braces.frontend.attention.", "braces.frontend.nn.", "braces.frontend.recurrent.",
    "braces.frontend.sequence.crf", "braces.frontend.sequence.ctc",
)  # fmt: skip
"""The modules whose functions are layers."""
MADE_OF = {
    "bilinear": ("einsum", "add"),
    "channel_shuffle": ("reshape", "swapaxes"),
    "depthwise_conv1d": ("conv1d",),
    "depthwise_conv2d": ("conv2d",),
    "fc": ("matmul", "add"),
    "global_avg_pool": ("mean",),
    "global_max_pool": ("max",),
    "instance_norm": ("group_norm",),
    "maxout": ("reshape", "max"),
    "pixel_shuffle": ("reshape", "transpose"),
    "pixel_unshuffle": ("reshape", "transpose"),
    "upsample": ("resize",),
}
"""The operators that a layer appends, if they are not one operator of its own name."""


@dataclass(frozen=True)
class FunctionHelp:
    """A public function or class.

    Attributes:
        name: The qualified name: `br.conv2d`.
        signature: Its parameters.
        doc: Its documentation.
        made_of: The operators that it appends, if it is a layer.
    """

    name: str
    signature: str
    doc: str
    made_of: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`layer`, or `function`."""
        return "layer" if self.made_of else "function"


def find_function(name: str) -> FunctionHelp | None:
    """Return the public function of a name, with or without `br.` and its module."""
    path = name.removeprefix("br.")
    for place in ("", *MODULES):
        full_path = f"{place}.{path}" if place else path
        member = _find_public(full_path)
        if callable(member):
            return _describe(full_path, member)
    return None


def _find_public(path: str) -> Any:
    member: Any = sys.modules["braces"]
    for part in path.split("."):
        member = getattr(member, part) if part in dir(member) else None
        if member is None:
            return None
    return member


def is_layer(member: Any) -> bool:
    """Test whether a public object is a layer."""
    return getattr(member, "__module__", "").startswith(LAYERS)


def _describe(path: str, function: Any) -> FunctionHelp:
    last = path.rpartition(".")[2]
    layer = is_layer(function)
    same_name = (
        (last,) if last in OPS.definitions else ()
    )  # block operators are documented as functions
    made_of = MADE_OF.get(last, same_name) if layer else ()
    try:
        signature = str(inspect.signature(function, eval_str=False))
    except ValueError:
        signature = "(...)"
    return FunctionHelp(f"br.{path}", signature, inspect.getdoc(function) or "", made_of)


def spelling_of(op_type: str) -> str | None:
    """Return the public function named like an operator, or `None` if `br` has none."""
    path = public_path(op_type)
    return path if _find_public(path.removeprefix("br.")) is not None else None


def describe_lines(function: FunctionHelp, style: Style) -> Iterator[str]:
    """Yield the documentation of a function, line by line."""
    yield style.bold(function.name + function.signature)
    yield ""
    yield function.doc
    if function.made_of:
        names = " and ".join(f"`{op_type}`" for op_type in function.made_of)
        yield ""
        yield style.dim(f"A layer: it creates its parameters and appends {names}.")
        for op_type in function.made_of:
            yield f"  {op_type}: {OPS.get(op_type).doc.partition(chr(10))[0]}"


def plain(function: FunctionHelp) -> dict[str, Any]:
    """Return a function as JSON-compatible data."""
    return {
        "name": function.name,
        "kind": function.kind,
        "signature": function.signature,
        "made_of": list(function.made_of),
        "doc": function.doc,
    }
