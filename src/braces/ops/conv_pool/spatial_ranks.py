"""Families of operators along one, two and three spatial axes that share a kernel.

The docstring of the kernel is a template. `$axes` is replaced by the number of spatial axes,
`$rank` by the same as a digit, `$first` by the layout with channels first, `$last` by the other
layout, and `$sliding` by the text that a family shares.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from string import Template
from typing import Any, ParamSpec, TypeVar

from braces.define.completion import KernelOp
from braces.define.decorator import op
from braces.ops.conv_pool.data_layouts import CHANNELS_FIRST, CHANNELS_LAST

P = ParamSpec("P")
R = TypeVar("R")
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

    @functools.wraps(kernel)
    def run_kernel(*arrays: Any, **attrs: Any) -> Any:
        return kernel(*arrays, **attrs)

    own = inspect.signature(kernel)
    parameters = [
        p.replace(default=CHANNELS_FIRST[rank]) if p.name == "layout" else p
        for p in own.parameters.values()
    ]
    object.__setattr__(run_kernel, "__signature__", own.replace(parameters=parameters))
    doc = inspect.getdoc(kernel) or ""
    run_kernel.__doc__ = doc.replace("$sliding", sliding.replace("\n", "\n    "))
    return name_for_rank(rank)(run_kernel)


def name_for_rank(
    rank: int, name: str = "", **words: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function for a number of spatial axes: complete its name and its docstring.

    The example of the docstring is one for two spatial axes; other functions have none.

    Args:
        rank: The number of spatial axes.
        name: The name without the number; by default that of the function.
        words: Further words of the template, with their replacements.
    """
    layouts = {"first": CHANNELS_FIRST[rank], "last": CHANNELS_LAST[rank]}
    words |= {"axes": NUMBERS[rank], "rank": str(rank), **layouts}

    def complete(function: Callable[P, R]) -> Callable[P, R]:
        function.__name__ = function.__qualname__ = f"{name or function.__name__}{rank}d"
        template = inspect.getdoc(function) or ""
        if rank != 2:
            template = template.partition("\n\nExample:")[0]
        function.__doc__ = Template(template).substitute(words)
        return function

    return complete
