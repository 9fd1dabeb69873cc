"""Sizes and their arithmetic: polynomials over names and functions of sizes.

Every operation simplifies its result, by rules that hold for all values of the dimensions. So
equal sizes have equal forms and stay short: halving seven times is one division by 128.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Number
from typing import Any, TypeAlias

from braces.dims.bounds import (
    NOT_NEGATIVE,
    Bounds,
    call_bounds,
    floor_divide,
    product_bounds,
    sum_bounds,
)
from braces.dims.min_max_terms import Complements, find_complements
from braces.dims.printer import (
    LARGEST_NUMBER,
    check_count,
    check_depth,
    format_monomial,
    format_terms,
)
from braces.dims.quotient import Divisible, divide_terms
from braces.errors import ShapeError

Atom: TypeAlias = "str | Call"
Size: TypeAlias = "int | Dim"
Shape: TypeAlias = "tuple[Size, ...]"
Monomial: TypeAlias = "tuple[Atom, ...]"

SIZE_FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}
_NAME = re.compile(r"[A-Za-z_][\w.$]*|\?\d+")


class Call:
    """A non-polynomial function of two sizes, such as `floordiv(b, 2)`."""

    __slots__ = ("arguments", "bounds", "depth", "name", "text")

    def __init__(self, name: str, left: Size, right: Size) -> None:
        self.name = name
        self.arguments = (left, right)
        self.text = f"{name}({left}, {right})"
        self.depth = check_depth(1 + max(_depth(left), _depth(right)), self.text)
        self.bounds = call_bounds(name, _bounds(left), _bounds(right))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


class Dim(Divisible):
    """A symbolic size: an immutable polynomial, compared by its canonical form.

    Example:
        >>> b = Dim.named("b")
        >>> print(2 * b + 1, b * b, (2 * b) // 2, b // 2)
        2*b + 1 b^2 b floordiv(b, 2)
        >>> 2 * b - b == b
        True
    """

    __slots__ = ("_hash", "bounds", "terms", "text")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        check_count(len(terms))
        ordered = sorted(
            terms.items(), key=lambda item: (-len(item[0]), format_monomial(item[0]))
        )
        self.terms = tuple((monomial, factor) for monomial, factor in ordered if factor)
        self.text = format_terms(self.terms)
        self.bounds = _sum_bounds(self.terms)
        self._hash = hash(self.terms)

    @staticmethod
    def named(name: str) -> Dim:
        """Return the dimension with this name.

        Raises:
            ShapeError: If the name is not valid for a dimension.
        """
        if not _NAME.fullmatch(name):
            raise ShapeError(f"invalid dimension name {name!r:.80}.", fix="Use an identifier.")
        return of_atom(name)

    @property
    def name(self) -> str | None:
        """The name if this is a single dimension, else `None`."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom = self.terms[0][0][0]
            return atom if isinstance(atom, str) else None
        return None

    @property
    def unnamed(self) -> bool:
        """True if this is a single unnamed dimension."""
        return (self.name or "").startswith("?")

    def names(self) -> set[str]:
        """Return all names in this expression."""
        all_names: set[str] = set()
        for monomial, _ in self.terms:
            for atom in set(monomial):
                if isinstance(atom, str):
                    all_names.add(atom)
                else:
                    all_names.update(*(a.names() for a in atom.arguments if isinstance(a, Dim)))
        return all_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return str(self)

    def __add__(self, other: Any) -> Size:
        if not isinstance(other, _NUMBERS):
            return NotImplemented  # a variable handles the operation
        return sum_of((self, other))

    def __mul__(self, other: Any) -> Size:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        total = Terms()
        for left, a in self.terms:
            for right, b in terms_of(other):
                total.count(tuple(sorted(left + right, key=str)), a * b)
        return total.size()

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Any) -> Size:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return self + (-1 * other)

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __floordiv__(self, other: Any) -> Size:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return call("floordiv", self, other)

    def __mod__(self, other: Any) -> Size:
        if not isinstance(other, _NUMBERS):
            return NotImplemented
        return call("mod", self, other)

    def _refuse(self) -> ShapeError:
        return ShapeError(
            f"the size of dimension `{self}` is known only when the program runs.",
            fix="Compute with it symbolically (+, -, *, //), or read it from a fed array.",
        )

    def __int__(self) -> int:
        raise self._refuse()

    def __index__(self) -> int:
        raise self._refuse()

    def __bool__(self) -> bool:
        raise self._refuse()


_NUMBERS: Any = (int, Dim, Number)
"""Operand types of arithmetic with sizes: numbers of Python and NumPy, and sizes."""


class Terms:
    """Mutable sum: monomials and their coefficients."""

    def __init__(self) -> None:
        self.found: dict[Monomial, int] = {}

    def count(self, monomial: Monomial, factor: int) -> None:
        """Add a monomial with a coefficient."""
        self.found[monomial] = self.found.get(monomial, 0) + factor

    def add(self, size: Size, times: int) -> None:
        """Add a multiple of a size."""
        for monomial, factor in terms_of(size):
            self.count(monomial, times * factor)

    def size(self) -> Size:
        """Return the simplified sum; a number if no symbolic term remains."""
        nonzero = {monomial: factor for monomial, factor in self.found.items() if factor}
        if not nonzero:
            return 0
        if nonzero.keys() == {()}:
            return nonzero[()]
        check_count(len(nonzero))
        complements = find_complements(nonzero)
        return Dim(nonzero) if complements is None else self._merged(complements)

    def _merged(self, complements: Complements) -> Size:
        """Return the sum after replacing complementary terms by their total."""
        for monomial in complements.terms:
            self.count(monomial, -complements.factor)
        self.add(
            product((complements.total, *map(of_atom, complements.shared))), complements.factor
        )
        return self.size()


def terms_of(size: Size) -> tuple[tuple[Monomial, int], ...]:
    """Return the terms of a size: the atoms of each, and its coefficient."""
    return size.terms if isinstance(size, Dim) else ((((), size),) if size else ())


def never_negative(size: Size) -> bool:
    """Return whether a size is provably at least 0 for all values of its dimensions.

    Example:
        >>> b = Dim.named("b")
        >>> [never_negative(size) for size in ((b - 1) // 2 + 1, b - 1, b - b // 4 * 4)]
        [True, False, True]
    """
    return _bounds(size)[0] >= 0


def _bounds(size: Size) -> Bounds:
    return size.bounds if isinstance(size, Dim) else (size, size)


def _sum_bounds(terms: tuple[tuple[Monomial, int], ...]) -> Bounds:
    direct = sum_bounds((factor, product_bounds(map(_atom_bounds, m))) for m, factor in terms)
    unrounded = _unrounded_bounds(terms)
    return (
        direct
        if unrounded is None
        else (max(direct[0], unrounded[0]), min(direct[1], unrounded[1]))
    )


def _unrounded_bounds(terms: tuple[tuple[Monomial, int], ...]) -> Bounds | None:
    """Return bounds from `k * floordiv(x, k) = x - rest`, where the rest is in [0, k - 1].

    So `t - 4 * floordiv(t, 4)` is between 0 and 3. `None` if there are no such quotients.
    """
    exact, rests = Terms(), list[tuple[int, Bounds]]()
    for monomial, factor in terms:
        match monomial:
            case (Call(name="floordiv", arguments=(inner, int(by))),) if factor % by == 0:
                exact.add(inner, factor // by)
                rests.append((-factor // by, (0, by - 1)))
            case _:
                exact.count(monomial, factor)
    return sum_bounds([(1, _bounds(exact.size())), *rests]) if rests else None


def _atom_bounds(atom: Atom) -> Bounds:
    return atom.bounds if isinstance(atom, Call) else NOT_NEGATIVE


def _depth(size: Size) -> int:
    atoms = (atom for monomial, _ in terms_of(size) for atom in monomial)
    return max((atom.depth for atom in atoms if isinstance(atom, Call)), default=0)


def calls_in(size: Size) -> Iterator[Call]:
    """Iterate over the outermost functions of sizes in a size."""
    atoms = (atom for monomial, _ in terms_of(size) for atom in monomial)
    return (atom for atom in atoms if isinstance(atom, Call))


def of_atom(atom: Atom) -> Dim:
    """Return the size of one atom."""
    return Dim({(atom,): 1})


# ---- functions -------------------------------------------------------------------------------


def divide_exactly(size: Size, divisor: Size) -> Size | None:
    """Return `size / divisor` if the division is exact, else `None`.

    Example:
        >>> a, b = Dim.named("a"), Dim.named("b")
        >>> divide_exactly(a * b + 2 * b, a + 2), divide_exactly(a * b + 1, a)
        (b, None)
    """
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor if divisor and size % divisor == 0 else None
    terms = divide_terms(dict(terms_of(size)), terms_of(divisor))
    if terms is None:
        return None
    quotient = Terms()
    quotient.found = terms
    return quotient.size()


def call(name: str, left: Size, right: Size) -> Size:
    """Compute and simplify `floordiv`, `mod`, `max` or `min` of two sizes.

    Raises:
        ShapeError: If the divisor is zero, or the text of the result is too long.

    Example:
        >>> b = Dim.named("b")
        >>> call("floordiv", (b - 1) // 2 + 1, 2), call("max", (b - 1) // 2 + 1, 0)
        (floordiv(b + 1, 4), floordiv(b + 1, 2))
    """
    if right == 0 and name in ("floordiv", "mod"):
        raise ShapeError(f"division by zero in {name}({left}, {right}).")
    if isinstance(left, int) and isinstance(right, int):
        return SIZE_FUNCTIONS[name](left, right)
    return _SIMPLE[name](left, right)


def _atom(name: str, left: Size, right: Size) -> Size:
    return of_atom(Call(name, left, right))


def _floordiv(size: Size, divisor: Size) -> Size:
    exact = divide_exactly(size, divisor)
    if exact is not None:
        return exact
    if not isinstance(divisor, int):
        return _atom("floordiv", size, divisor)
    if divisor < 0:
        return _floordiv(-size, -divisor)
    quotient, rest = _split(size, divisor)
    return quotient + _floordiv_rest(rest, divisor)


def _split(size: Size, divisor: int) -> tuple[Size, Size]:
    """Return `quotient` and `rest` such that the size is divisor * quotient + rest."""
    quotient, rest = Terms(), Terms()
    for monomial, factor in terms_of(size):
        if not monomial or factor % divisor == 0:
            quotient.count(monomial, factor // divisor)
            factor %= divisor
        rest.count(monomial, factor)
    return quotient.size(), rest.size()


def _floordiv_rest(rest: Size, divisor: int) -> Size:
    """Divide a rest that has no exactly divisible term."""
    low, high = (floor_divide(bound, divisor) for bound in _bounds(rest))
    if low == high and isinstance(low, int):
        return low
    common = math.gcd(divisor, *(factor for monomial, factor in terms_of(rest) if monomial))
    if common > 1:
        rest, divisor = _scaled_down(rest, common), divisor // common
    merged = _merged(rest, divisor)
    return _atom("floordiv", rest, divisor) if merged is None else merged


def _scaled_down(rest: Size, common: int) -> Size:
    quotient = Terms()
    for monomial, factor in terms_of(rest):
        quotient.count(monomial, factor // common)
    return quotient.size()


def _one_call(size: Size) -> tuple[Call, int, int] | None:
    """Return `inner`, `factor` and `offset` if the size is factor * inner + offset."""
    match terms_of(size):
        case (((Call() as inner,), factor),):
            return inner, factor, 0
        case (((Call() as inner,), factor), ((), offset)):
            return inner, factor, offset
        case _:
            return None


def _merged(rest: Size, divisor: int) -> Size | None:
    """Push a division into the argument: of a quotient, or of an extreme with a number."""
    match _one_call(rest):
        case (Call(name="floordiv", arguments=(inner, int(by))), 1, more) if by > 0:
            if by * divisor <= LARGEST_NUMBER:
                return _floordiv(inner + by * more, by * divisor)
        case (Call(name="max" | "min" as name, arguments=(inner, int(limit))), factor, more):
            if factor > 0:
                moved = _floordiv(factor * inner + more, divisor)
                return call(name, moved, (factor * limit + more) // divisor)
        case _:
            pass
    return None


def _mod(size: Size, divisor: Size) -> Size:
    if divide_exactly(size, divisor) is not None:
        return 0
    if not isinstance(divisor, int) or divisor < 0:
        return _atom("mod", size, divisor)
    rest = _split(size, divisor)[1]
    low, high = _bounds(rest)
    return rest if low >= 0 and high < divisor else _atom("mod", rest, divisor)


def _maximum(left: Size, right: Size) -> Size:
    return _extreme("max", 1, left, right)


def _minimum(left: Size, right: Size) -> Size:
    return _extreme("min", -1, left, right)


def _extreme(name: str, sign: int, left: Size, right: Size) -> Size:
    """Simplify `max` (sign 1) or `min` (sign -1); a number becomes the second argument."""
    if isinstance(left, int) or (isinstance(right, Dim) and str(right) < str(left)):
        left, right = right, left
    difference = sign * (left - right)
    if never_negative(difference):
        return left
    if never_negative(-difference):
        return right
    match _one_call(left):
        case (Call(name=inside, arguments=(inner, int(limit))), 1, more) if (
            inside == name and isinstance(right, int)
        ):
            return call(name, inner + more, SIZE_FUNCTIONS[name](limit + more, right))
        case (Call(name="max", arguments=(inner, int(limit))), 1, more) if (
            name == "min" and isinstance(right, int)
        ):
            return call("max", call("min", inner + more, right), limit + more)
        case (Call(name="min", arguments=(inner, int(limit))), 1, more) if (
            more and name == "max" and isinstance(right, int)
        ):
            return call("max", call("min", inner + more, limit + more), right)
        case _:
            return _atom(name, left, right)


_SIMPLE: dict[str, Callable[[Size, Size], Size]] = {
    "floordiv": _floordiv,
    "mod": _mod,
    "max": _maximum,
    "min": _minimum,
}


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes; 1 for none."""
    numbers, symbols = 1, list[Dim]()
    for size in sizes:
        if isinstance(size, int):
            numbers *= size
        else:
            symbols.append(size)
    return functools.reduce(lambda a, b: b * a, symbols, numbers)


def sum_of(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes; 0 for none."""
    total = Terms()
    for size in sizes:
        total.add(size, 1)
    return total.size()
