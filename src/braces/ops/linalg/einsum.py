"""Einstein summation: a product of tensors, written with a letter for each axis.

equation := operand ("," operand)* ("->" operand)?
operand  := letter* ("..." letter*)?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import TypeAlias

from braces.builder.append import apply, emit
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import DOTS, Attrs, AxisMap, Types, make_axis_map, shape_of
from braces.define.decorator import Tensor, op
from braces.dims import Size
from braces.dtypes import TensorType
from braces.errors import ProgramError, ShapeError
from braces.lazy import jnp
from braces.ops.common.rules import Backward, numeric, promote_arrays
from braces.ops.elementwise.arithmetic import cast_like
from braces.ops.linalg.matmul import LETTERS, reshape_to

Sizes: TypeAlias = "dict[str, Size]"


def einsum_axes(types: Types, attrs: Attrs) -> AxisMap:
    """Axis map of `einsum`: the letters of the equation."""
    xs, equation = types.get("xs", ()), str(attrs["equation"])
    operands, out = parse_equation(equation, [len(shape_of(x)) for x in xs])
    names = {letter: letter if letter in equation else DOTS + letter for letter in LETTERS}
    inputs = tuple(tuple(names[letter] for letter in letters) for letters in operands)
    return make_axis_map(
        types, {"xs": inputs}, {"out": (tuple(names[letter] for letter in out),)}
    )


@op(
    axes=einsum_axes,
    dtypes=numeric,
    costly=True,
    product=True,
    function=False,
    examples=(
        "xs=f32[2,3] xs=f32[3,4] equation=ij,jk->ik",
        "xs=f32[b,t,3] xs=f32[b,3,t] equation=bij,bjk",
        "xs=f64[2,b] xs=f64[b] xs=f64[3] equation=ib,b,k->ki",
        "xs=f32[2,3] equation=ij->",
        "xs=f64[2,3,3] equation=kii->ik",
        "xs=f32[b,2,3] xs=f32[3,4] equation=...j,jk->...k",
        "xs=f64[2,1,3] xs=f64[5,3] equation=...i,...i->...",
        "xs=f32[0,2] xs=f32[2,3] equation=ij,jk->ik",
    ),
)
def einsum(*xs: Tensor, equation: str) -> Tensor:
    """Einstein summation: multiply, then sum over the letters absent from the result.

        "ij,jk->ik": out[i, k] = sum_j xs[0][i, j] * xs[1][j, k]

    Without an arrow, the result has the letters that occur once, in alphabetical order. A
    letter that is repeated in one operand takes its diagonal. `...` stands for any number of
    axes, which broadcast.

    Inputs:
        xs: number[...], one for each operand of the equation.

    Attributes:
        equation: A letter for each axis of each operand, and for the result after `->`.

    Outputs:
        out: The promoted dtype, the axes of the equation.

    Raises:
        ProgramError: If the equation is invalid.
        ShapeError: If a letter has two sizes, or the rank of an operand is wrong.
        DTypeError: If all operands are bool.
    """
    terms, out = parse_equation(equation, [x.ndim for x in xs])
    return einsum_with_merged_axes(terms, out, promote_arrays(*xs))


@einsum.gradient
def einsum_gradient(g: Backward) -> dict[str, tuple[Var | None, ...]]:
    """For each operand, an einsum of the cotangent with the other operands."""
    xs, equation = g.inputs["xs"], str(g.attrs["equation"])
    types = [tensor_type(x) for x in xs]
    operands, out = parse_equation(equation, [t.rank for t in types])
    if not is_plain(operands, types):
        return {"xs": vjp_gradient(g, equation)}
    return {
        "xs": tuple(
            gradient_of(g, i, operands, out) if x.name in g.wanted else None
            for i, x in enumerate(xs)
        )
    }


# ---- parsing equations -----------------------------------------------------------------------


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Parse an equation: a letter for each axis of operands and result, also for `...`.

    Example:
        >>> parse_equation("ij,jk", [2, 2])
        (['ij', 'jk'], 'ik')
        >>> parse_equation("...i,i->...", [3, 1])
        (['abi', 'i'], 'ab')
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ProgramError(
            f"einsum: expected {len(terms)} operands for `{equation}`, got {len(ranks)}.",
            fix="Separate the operands by commas: 'ij,jk->ik'.",
        )
    for term in (*terms, right):
        check_term(equation, term)
    free = [letter for letter in LETTERS if letter not in equation]
    extra = [rank - letters_in(t) for t, rank in zip(terms, ranks, strict=True) if "..." in t]
    dots = "".join(free[: max(extra, default=0)])
    operands = [expand_term(equation, t, dots, r) for t, r in zip(terms, ranks, strict=True)]
    out = right.replace("...", dots) if arrow else implicit_result(operands, dots)
    check_result(equation, out, operands)
    return operands, out


def check_term(equation: str, term: str) -> None:
    """Raise a `ProgramError` for anything but letters and one ellipsis."""
    letters = term.replace("...", "", 1)
    if not all(letter in LETTERS for letter in letters):
        raise ProgramError(
            f"einsum: invalid equation `{equation}`.",
            fix="Use letters, commas, `...` and one arrow: 'ij,jk->ik'.",
        )


def letters_in(term: str) -> int:
    """Return the number of letters of a term."""
    return len(term.replace("...", ""))


def expand_term(equation: str, term: str, dots: str, rank: int) -> str:
    """Expand the ellipsis of a term to a letter for each axis."""
    extra = rank - letters_in(term)
    if extra < 0 or (extra and "..." not in term):
        raise ShapeError(
            f"einsum: `{term}` of `{equation}` does not match an operand of rank {rank}."
        )
    return term.replace("...", dots[len(dots) - extra :])


def implicit_result(operands: Sequence[str], dots: str) -> str:
    """Return the letters of the result of an equation without an arrow."""
    letters = "".join(operands)
    once = sorted({c for c in letters if letters.count(c) == 1 and c not in dots})
    return dots + "".join(once)


def check_result(equation: str, out: str, operands: Sequence[str]) -> None:
    """Raise a `ProgramError` if the result repeats a letter, or has one of no operand."""
    operand_letters = set("".join(operands))
    if len(set(out)) != len(out) or not operand_letters.issuperset(out):
        raise ProgramError(
            f"einsum: the output of `{equation}` has a duplicate or unknown letter."
        )


# ---- computing -------------------------------------------------------------------------------


def einsum_with_merged_axes(terms: Sequence[str], out: str, xs: Sequence[Tensor]) -> Tensor:
    """Compute the einsum after merging adjacent axes that always occur together.

    `abc,abd->cd` then is a product of two matrices in their memory layout. For a sum over two
    axes XLA would transpose operands, which takes longer (docs/decisions, 0038).
    """
    shapes = [x.shape for x in xs]
    sizes: dict[str, int] = {}
    for letter, size in letter_sizes(terms, shapes):
        sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    broadcast = {
        letter for letter, size in letter_sizes(terms, shapes) if size != sizes[letter]
    }
    merged = set() if _APART.get() else mergeable_letters([*terms, out], broadcast)
    operands = [
        x.reshape(merge_axes(t, x.shape, merged)) for t, x in zip(terms, xs, strict=True)
    ]
    *new_terms, new_out = (
        "".join(c for c in term if c not in merged) for term in (*terms, out)
    )
    result = jnp.einsum(f"{','.join(new_terms)}->{new_out}", *operands)
    return result.reshape([sizes[letter] for letter in out])


_APART = ContextVar("axes_apart", default=False)


@contextmanager
def keep_axes_separate() -> Generator[None]:
    """Context manager: do not merge axes, because an axis may be sharded over devices."""
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def letter_sizes(
    terms: Sequence[str], shapes: Sequence[Sequence[int]]
) -> Iterator[tuple[str, int]]:
    """Iterate over the letters of all terms, with their sizes."""
    for term, shape in zip(terms, shapes, strict=True):
        yield from zip(term, shape, strict=True)


def mergeable_letters(terms: Sequence[str], alone: Set[str]) -> set[str]:
    """Return the letters to merge: each follows one letter, which nothing else follows.

    Example:
        >>> sorted(mergeable_letters(["abcd", "xabd", "cxd"], set()))
        ['b']
    """
    after, before = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for term in terms:
        for left, right in pairwise(f" {term} "):
            after[left].add(right)
            before[right].add(left)
    follows = {left: max(rights) for left, rights in after.items() if len(rights) == 1}
    fixed = {" ", *alone}
    return {
        right
        for left, right in follows.items()
        if before[right] == {left} and fixed.isdisjoint((left, right))
    }


def merge_axes(term: str, shape: Sequence[int], joined: Set[str]) -> list[int]:
    """Merge axes of a shape: those of joined letters with the axis before."""
    sizes: list[int] = []
    for letter, size in zip(term, shape, strict=True):
        if letter in joined:
            sizes[-1] *= size
        else:
            sizes.append(size)
    return sizes


# ---- the gradient ----------------------------------------------------------------------------


def is_plain(operands: Sequence[str], types: Sequence[TensorType]) -> bool:
    """Return whether the equation has no broadcasting and no diagonals."""
    sizes: Sizes = {}
    for letters, type_ in zip(operands, types, strict=True):
        for letter, size in zip(letters, type_.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return False
    return all(len(set(letters)) == len(letters) for letters in operands)


def gradient_of(g: Backward, at: int, operands: Sequence[str], out: str) -> Var:
    """Return the cotangent of one operand; broadcast along letters that only it has."""
    x, own_letters = g.inputs["xs"][at], operands[at]
    numbered_operands = enumerate(zip(operands, g.inputs["xs"], strict=True))
    others = [pair for i, pair in numbered_operands if i != at]
    other_letters = set(out).union(*(letters for letters, _ in others))
    common = "".join(letter for letter in own_letters if letter in other_letters)
    grad = g.out_grad
    if others or common != out:
        equation = ",".join([out, *(letters for letters, _ in others)]) + f"->{common}"
        grad = emit("einsum", grad, *(var for _, var in others), equation=equation)
    if common != own_letters:
        shape = tuple(
            s if c in other_letters else 1 for c, s in zip(own_letters, x.shape, strict=True)
        )
        grad = emit("broadcast_to", reshape_to(grad, shape), shape=x.shape)
    return cast_like(grad, x)


def vjp_gradient(g: Backward, equation: str) -> tuple[Var | None, ...]:
    """Return the gradient by the VJP of the kernel, for diagonals and broadcasting."""
    xs = tuple(cast_like(x, g["out"]) for x in g.inputs["xs"])
    inputs = {"xs": xs, "out_grad": (g.out_grad,)}
    grads = apply("einsum.vjp", inputs, {"equation": equation}, wanted=("xs_grad",))["xs_grad"]
    return tuple(cast_like(grad, x) for grad, x in zip(grads, g.inputs["xs"], strict=True))
