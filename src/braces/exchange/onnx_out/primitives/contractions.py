"""Primitives that multiply and add up: products of matrices."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from braces.exchange.onnx_out import widths
from braces.exchange.onnx_out.equation import Equation, Rule


def contraction(e: Equation, x: str, y: str) -> str:
    """Sums of products: a product of matrices where it is one, else as einsum says them."""
    (of_x, of_y), (batch_x, batch_y) = e.params["dimension_numbers"]
    x, y = (widths.moved(e.g, one, e.type(i).dtype, e.dtype) for i, one in enumerate((x, y)))
    rank_x, rank_y = e.type(0).rank, e.type(1).rank
    free_x = [i for i in range(rank_x) if i not in (*of_x, *batch_x)]
    free_y = [i for i in range(rank_y) if i not in (*of_y, *batch_y)]
    if len(of_x) == len(free_x) == len(free_y) == 1:
        left = _ordered(e, x, [*batch_x, *free_x, *of_x])
        right = _ordered(e, y, [*batch_y, *of_y, *free_y])
        return e.same("MatMul", left, right)
    return _einsum(e, x, y)


def _ordered(e: Equation, x: str, axes: list[int]) -> str:
    return x if axes == sorted(axes) else e.g.op("Transpose", x, perm=axes)


def _einsum(e: Equation, x: str, y: str) -> str:
    (of_x, of_y), (batch_x, batch_y) = e.params["dimension_numbers"]
    fresh = map(chr, count(ord("a")))
    pairs = list(zip((*batch_x, *of_x), (*batch_y, *of_y), strict=True))
    names = [next(fresh) for _ in pairs]
    letters_x = dict(zip((i for i, _ in pairs), names, strict=True))
    letters_y = dict(zip((j for _, j in pairs), names, strict=True))
    terms = [
        [letters[i] if i in letters else next(fresh) for i in range(e.type(at).rank)]
        for at, letters in enumerate((letters_x, letters_y))
    ]
    rest = [name for term in terms for name in term if name not in names]
    result = "".join([*names[: len(batch_x)], *rest])
    equation = f"{','.join(map(''.join, terms))}->{result}"
    return e.same("Einsum", x, y, equation=equation)


CONTRACTIONS: Mapping[str, Rule] = {"dot_general": contraction}
