"""Einstein's summation: a product of tensors, written with a letter for each axis.

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

from braces.builder.append import apply, one
from braces.builder.var import Var, tensor_type
from braces.define.axes.axis_map import DOTS, Attrs, AxisMap, Types, mapped, shape_of
from braces.define.decorator import Tensor, op
from braces.dims import Size
from braces.dtypes import TensorType
from braces.errors import ProgramError, ShapeError
from braces.lazy import jnp
from braces.ops.common.rules import Backward, numeric, promoted
from braces.ops.elementwise.arithmetic import in_dtype
from braces.ops.linalg.matmul import LETTERS, in_shape

Sizes: TypeAlias = "dict[str, Size]"


def lettered(types: Types, attrs: Attrs) -> AxisMap:
    """As the equation says."""
    xs, equation = types.get("xs", ()), str(attrs["equation"])
    operands, out = read(equation, [len(shape_of(x)) for x in xs])
    named = {letter: letter if letter in equation else DOTS + letter for letter in LETTERS}
    inputs = tuple(tuple(named[letter] for letter in letters) for letters in operands)
    return mapped(types, {"xs": inputs}, {"out": (tuple(named[letter] for letter in out),)})


@op(
    axes=lettered,
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
    """Einstein's summation: multiply, then sum over the letters that the result does not have.

        "ij,jk->ik": out[i, k] = sum_j xs[0][i, j] * xs[1][j, k]

    Without an arrow, the result has the letters that occur once, in alphabetical order. A
    letter twice in one operand takes its diagonal. `...` stands for any axes, which broadcast.

    Inputs:
        xs: number[...], one for each operand of the equation.

    Attributes:
        equation: A letter for each axis of each operand, and for the result after `->`.

    Outputs:
        out: The promoted dtype, the axes that the equation says.

    Raises:
        ProgramError: The equation cannot be read.
        ShapeError: A letter has two sizes, or an operand another number of axes.
        DTypeError: All are bools.
    """
    terms, out = read(equation, [x.ndim for x in xs])
    return by_runs(terms, out, promoted(*xs))


@einsum.gradient
def einsum_gradient(g: Backward) -> dict[str, tuple[Var | None, ...]]:
    """For each operand, an einsum of the cotangent with the others."""
    xs, equation = g.inputs["xs"], str(g.attrs["equation"])
    types = [tensor_type(x) for x in xs]
    operands, out = read(equation, [t.rank for t in types])
    if not plain(operands, types):
        return {"xs": derived(g, equation)}
    return {
        "xs": tuple(
            gradient_of(g, i, operands, out) if x.name in g.wanted else None
            for i, x in enumerate(xs)
        )
    }


# ---- reading equations -----------------------------------------------------------------------


def read(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """A letter for each axis of each operand, and of the result; `...` becomes letters.

    Example:
        >>> read("ij,jk", [2, 2])
        (['ij', 'jk'], 'ik')
        >>> read("...i,i->...", [3, 1])
        (['abi', 'i'], 'ab')
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ProgramError(
            f"`{equation}` is for {len(terms)} operands, not {len(ranks)}.",
            fix="Separate the operands by commas: 'ij,jk->ik'.",
        )
    for term in (*terms, right):
        check_term(equation, term)
    free = [letter for letter in LETTERS if letter not in equation]
    extra = [rank - letters_in(t) for t, rank in zip(terms, ranks, strict=True) if "..." in t]
    dots = "".join(free[: max(extra, default=0)])
    operands = [spell(equation, t, dots, r) for t, r in zip(terms, ranks, strict=True)]
    out = right.replace("...", dots) if arrow else implicit(operands, dots)
    check_result(equation, out, operands)
    return operands, out


def check_term(equation: str, term: str) -> None:
    """A `ProgramError` for anything but letters and one ellipsis."""
    rest = term.replace("...", "", 1)
    if not all(letter in LETTERS for letter in rest):
        raise ProgramError(
            f"`{equation}` is not an equation of einsum.",
            fix="Use letters, commas, `...` and one arrow: 'ij,jk->ik'.",
        )


def letters_in(term: str) -> int:
    """How many letters a term has."""
    return len(term.replace("...", ""))


def spell(equation: str, term: str, dots: str, rank: int) -> str:
    """A term with a letter for each axis of its operand."""
    extra = rank - letters_in(term)
    if extra < 0 or (extra and "..." not in term):
        raise ShapeError(f"`{term}` of `{equation}` does not fit an operand with {rank} axes.")
    return term.replace("...", dots[len(dots) - extra :])


def implicit(operands: Sequence[str], dots: str) -> str:
    """The letters of the result where no arrow says them."""
    every = "".join(operands)
    once = sorted({c for c in every if every.count(c) == 1 and c not in dots})
    return dots + "".join(once)


def check_result(equation: str, out: str, operands: Sequence[str]) -> None:
    """A `ProgramError` where the result has a letter twice, or one of no operand."""
    known = set("".join(operands))
    if len(set(out)) != len(out) or not known.issuperset(out):
        raise ProgramError(
            f"The result of `{equation}` has a letter twice, or one that no operand has."
        )


# ---- computing -------------------------------------------------------------------------------


def by_runs(terms: Sequence[str], out: str, xs: Sequence[Tensor]) -> Tensor:
    """The summation, in which letters that always stand side by side are one axis.

    `abc,abd->cd` is then a product of two matrices as they lie in memory. XLA would transpose
    what is summed over two axes, which takes up to half as long again.
    """
    shapes = [x.shape for x in xs]
    sizes: dict[str, int] = {}
    for letter, size in pairs(terms, shapes):
        sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    alone = {letter for letter, size in pairs(terms, shapes) if size != sizes[letter]}
    joined = set() if _APART.get() else joining([*terms, out], alone)
    given = [x.reshape(flat(t, x.shape, joined)) for t, x in zip(terms, xs, strict=True)]
    *spelled, end = ("".join(c for c in term if c not in joined) for term in (*terms, out))
    made = jnp.einsum(f"{','.join(spelled)}->{end}", *given)
    return made.reshape([sizes[letter] for letter in out])


_APART = ContextVar("axes_apart", default=False)


@contextmanager
def axes_apart() -> Generator[None]:
    """Let no axes become one: where several devices compute together, one may be cut."""
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def pairs(terms: Sequence[str], shapes: Sequence[Sequence[int]]) -> Iterator[tuple[str, int]]:
    """Each letter with each of its sizes."""
    for term, shape in zip(terms, shapes, strict=True):
        yield from zip(term, shape, strict=True)


def joining(terms: Sequence[str], alone: Set[str]) -> set[str]:
    """The letters that always follow one other letter, which nothing else follows.

    Example:
        >>> sorted(joining(["abcd", "xabd", "cxd"], set()))
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


def flat(term: str, shape: Sequence[int], joined: Set[str]) -> list[int]:
    """A shape in which letters that are joined are one axis with those before them."""
    sizes: list[int] = []
    for letter, size in zip(term, shape, strict=True):
        if letter in joined:
            sizes[-1] *= size
        else:
            sizes.append(size)
    return sizes


# ---- the gradient ----------------------------------------------------------------------------


def plain(operands: Sequence[str], types: Sequence[TensorType]) -> bool:
    """Whether each letter has one size and no operand has a letter twice."""
    sizes: Sizes = {}
    for letters, type_ in zip(operands, types, strict=True):
        for letter, size in zip(letters, type_.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                return False
    return all(len(set(letters)) == len(letters) for letters in operands)


def gradient_of(g: Backward, at: int, operands: Sequence[str], out: str) -> Var:
    """The cotangent of one operand; letters that only it has are repeated."""
    x, mine = g.inputs["xs"][at], operands[at]
    every = enumerate(zip(operands, g.inputs["xs"], strict=True))
    others = [pair for i, pair in every if i != at]
    known = set(out).union(*(letters for letters, _ in others))
    kept = "".join(letter for letter in mine if letter in known)
    grad = g.out_grad
    if others or kept != out:
        equation = ",".join([out, *(letters for letters, _ in others)]) + f"->{kept}"
        grad = one("einsum", grad, *(var for _, var in others), equation=equation)
    if kept != mine:
        shape = tuple(s if c in known else 1 for c, s in zip(mine, x.shape, strict=True))
        grad = one("broadcast_to", in_shape(grad, shape), shape=x.shape)
    return in_dtype(grad, x)


def derived(g: Backward, equation: str) -> tuple[Var | None, ...]:
    """The gradient by the kernel, for diagonals and broadcasting."""
    xs = tuple(in_dtype(x, g["out"]) for x in g.inputs["xs"])
    inputs = {"xs": xs, "out_grad": (g.out_grad,)}
    grads = apply("einsum.vjp", inputs, {"equation": equation}, wanted=("xs_grad",))["xs_grad"]
    return tuple(in_dtype(grad, x) for grad, x in zip(grads, g.inputs["xs"], strict=True))
