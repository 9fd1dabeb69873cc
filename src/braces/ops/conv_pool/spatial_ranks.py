"""Operators along one, two and three spatial axes, as `conv2d`, which have one kernel.

Its text says `$axes` for what they slide along, `$first` for the layout with channels first,
and `$last` for the other one; and `$sliding` where families share what stands there.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from string import Template
from typing import Any

from braces.define.completion import KernelOp
from braces.define.decorator import op
from braces.ops.conv_pool.data_layouts import LAYOUTS

NUMBERS = {1: "one spatial axis", 2: "two spatial axes", 3: "three spatial axes"}


def for_ranks(
    kernel: Callable[..., Any],
    *,
    infer: Callable[..., Any],
    examples: Mapping[int, tuple[str, ...]],
    sliding: str = "",
    **options: Any,
) -> tuple[KernelOp, KernelOp, KernelOp]:
    """The operators of a kernel that works along any number of spatial axes.

    Args:
        kernel: With the attribute `layout`, whose default becomes that of the operator.
        infer: Inference, which takes the number of all axes before what it else takes.
        examples: By the number of spatial axes.
        sliding: What stands for `$sliding` in the text, line by line.
        options: What else `@op` takes.
    """

    def of(rank: int) -> KernelOp:
        inferring = functools.partial(infer, rank + 2)
        define = op(infer=inferring, examples=examples[rank], **options)
        return define(of_rank(kernel, rank, sliding))

    return of(1), of(2), of(3)


def of_rank(kernel: Callable[..., Any], rank: int, sliding: str = "") -> Callable[..., Any]:
    """A kernel as that of so many spatial axes: its name, its text, and its layout."""
    first, last = (one for one in LAYOUTS if len(one) == rank + 2)

    @functools.wraps(kernel)
    def computed(*arrays: Any, **attrs: Any) -> Any:
        return kernel(*arrays, **attrs)

    words = {"axes": NUMBERS[rank], "first": first, "last": last}
    computed.__name__ = f"{kernel.__name__}{rank}d"
    text = inspect.getdoc(kernel) or ""
    whole = text.replace("$sliding", sliding.replace("\n", "\n    "))
    computed.__doc__ = Template(whole).substitute(words)
    own = inspect.signature(kernel)
    parameters = [
        p.replace(default=first) if p.name == "layout" else p for p in own.parameters.values()
    ]
    object.__setattr__(computed, "__signature__", own.replace(parameters=parameters))
    return computed
