"""Public functions beside those made from operators, as `braces ops` tells them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from braces.cli.common.terminal import Style
from braces.define.decorator import OPS
from braces.frontend import layers
from braces.frontend.core.functions import UNLISTED

PLACES = ("", "layers", "random", "optimizer", "init", "errors")
"""Where a name is looked for, in this order: `br` itself, then its modules."""
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
"""The operators that a layer appends, where they are not one of its own name."""


@dataclass(frozen=True)
class Function:
    """A public function or class.

    Attributes:
        name: As users write it: `br.layers.conv2d`.
        signature: Its parameters.
        doc: Its documentation.
        made_of: The operators that it appends, where it is a layer.
    """

    name: str
    signature: str
    doc: str
    made_of: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """`layer`, or `function`."""
        return "layer" if self.made_of else "function"


def find_function(name: str) -> Function | None:
    """What users call by this name, with or without `br.` and its module."""
    path = name.removeprefix("br.")
    for place in PLACES:
        whole = f"{place}.{path}" if place else path
        found = _public(whole)
        if callable(found):
            return _described(whole, found)
    return None


def _public(path: str) -> Any:
    found: Any = sys.modules["braces"]
    for part in path.split("."):
        found = getattr(found, part) if part in dir(found) else None
        if found is None:
            return None
    return found


def _described(path: str, found: Any) -> Function:
    last = path.rpartition(".")[2]
    layer = last in layers.__all__ and vars(layers)[last] is found
    own = (last,) if last in OPS.definitions else ()  # what is a block is told as a function
    made_of = MADE_OF.get(last, own) if layer else ()
    try:
        signature = str(inspect.signature(found, eval_str=False))
    except ValueError:
        signature = "(...)"
    return Function(f"br.{path}", signature, inspect.getdoc(found) or "", made_of)


def spelling_of(op_type: str) -> str | None:
    """What users call by the name of an operator, where there is such a function in `br`."""
    named = op_type in {*dir(sys.modules["braces"]), *UNLISTED}
    return f"br.{op_type}" if named else None


def described(function: Function, style: Style) -> Iterator[str]:
    """All of a function, line by line."""
    yield style.bold(function.name + function.signature)
    yield ""
    yield function.doc
    if function.made_of:
        names = " and ".join(f"`{one}`" for one in function.made_of)
        yield ""
        yield style.dim(f"A layer: it makes its parameters and appends {names}.")
        for one in function.made_of:
            yield f"  {one}: {OPS.get(one).doc.partition(chr(10))[0]}"


def plain(function: Function) -> dict[str, Any]:
    """A function, for programs to read."""
    return {
        "name": function.name,
        "kind": function.kind,
        "signature": function.signature,
        "made_of": list(function.made_of),
        "doc": function.doc,
    }
