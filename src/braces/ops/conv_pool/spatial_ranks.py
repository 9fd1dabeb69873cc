"""Families of operators along one, two and three spatial axes that share a kernel.

The docstring of the kernel is a template. `$axes` is replaced by the number of spatial axes,
`$first` by the layout with channels first, `$last` by the other layout, and `$sliding` by the
text that a family shares.
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


def define_for_ranks(
    kernel: Callable[..., Any],
    *,
    infer: Callable[..., Any],
    examples: Mapping[int, tuple[str, ...]],
    sliding: str = "",
    **options: Any,
) -> tuple[KernelOp, KernelOp, KernelOp]:
    """Define the operators of a kernel that works along any number of spatial axes.

    Args:
        kernel: The kernel, with the attribute `layout`; its default is set for each operator.
        infer: Shape inference; its first argument is the rank of the arrays.
        examples: Examples by the number of spatial axes.
        sliding: The replacement of `$sliding` in the docstring, line by line.
        options: Other arguments of `@op`.
    """

    def define_for(rank: int) -> KernelOp:
        infer_for_rank = functools.partial(infer, rank + 2)
        define = op(infer=infer_for_rank, examples=examples[rank], **options)
        return define(specialize_for_rank(kernel, rank, sliding))

    return define_for(1), define_for(2), define_for(3)


def specialize_for_rank(
    kernel: Callable[..., Any], rank: int, sliding: str = ""
) -> Callable[..., Any]:
    """Specialize a kernel for a number of spatial axes: name, docstring and layout."""
    first, last = (layout for layout in LAYOUTS if len(layout) == rank + 2)

    @functools.wraps(kernel)
    def run_kernel(*arrays: Any, **attrs: Any) -> Any:
        return kernel(*arrays, **attrs)

    words = {"axes": NUMBERS[rank], "first": first, "last": last}
    run_kernel.__name__ = f"{kernel.__name__}{rank}d"
    doc = inspect.getdoc(kernel) or ""
    template = doc.replace("$sliding", sliding.replace("\n", "\n    "))
    run_kernel.__doc__ = Template(template).substitute(words)
    own = inspect.signature(kernel)
    parameters = [
        p.replace(default=first) if p.name == "layout" else p for p in own.parameters.values()
    ]
    object.__setattr__(run_kernel, "__signature__", own.replace(parameters=parameters))
    return run_kernel
