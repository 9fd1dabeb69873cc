"""Sizes of axes, known or symbolic.

A size is an `int` or a `Dim`: a polynomial with integer coefficients over atoms, where an atom
is a name or one of four functions of sizes. Equal polynomials are equal `Dim`s.

    size  := int | dim
    dim   := term (("+" | "-") term)*
    term  := factor ("*" factor)*
    factor:= int | name ("^" int)? | function "(" dim "," dim ")" | "(" dim ")"
    name  := letter (letter | digit | "_" | "." | "$")* | "?" digits

`?0`, `?1`, … are *unnamed* dimensions, written `None` by users: they unify with whatever an
operator needs them to be (`Unifier`). Two different names never unify. Every symbolic dimension
may be zero.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from braces.errors import FileFormatError, ShapeError

Atom: TypeAlias = "str | Call"
Size: TypeAlias = "int | Dim"
Shape: TypeAlias = "tuple[Size, ...]"
Monomial: TypeAlias = "tuple[Atom, ...]"

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": max,
    "min": min,
}
LONGEST_TEXT = 400
DEEPEST_NESTING = 16


class Call:
    """A function of two sizes that no polynomial expresses, as `floordiv(b, 2)`."""

    __slots__ = ("arguments", "name", "text")

    def __init__(self, name: str, *arguments: Size) -> None:
        self.name = name
        self.arguments = arguments
        self.text = f"{name}({', '.join(map(str, arguments))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


class Dim:
    """A symbolic size: an immutable polynomial, compared by its canonical form.

    Example:
        >>> b = Dim.named("b")
        >>> print(2 * b + 1, b * b, (2 * b) // 2, b // 2)
        2*b + 1 b^2 b floordiv(b, 2)
        >>> 2 * b - b == b
        True
    """

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        ordered = sorted(terms.items(), key=lambda item: (-len(item[0]), _text(item[0])))
        self.terms = tuple((monomial, factor) for monomial, factor in ordered if factor)
        self._hash = hash(self.terms)

    @staticmethod
    def named(name: str) -> Dim:
        """The dimension with this name."""
        return Dim({(name,): 1})

    @property
    def name(self) -> str | None:
        """The name, where this is nothing but a named dimension."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom = self.terms[0][0][0]
            return atom if isinstance(atom, str) else None
        return None

    @property
    def unnamed(self) -> bool:
        """Whether this is one unnamed dimension."""
        return (self.name or "").startswith("?")

    def names(self) -> set[str]:
        """All names in this expression."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found.update(*(a.names() for a in atom.arguments if isinstance(a, Dim)))
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        text = " + ".join(_term_text(monomial, factor) for monomial, factor in self.terms)
        return text.replace("+ -", "- ")

    def __repr__(self) -> str:
        return str(self)

    def __add__(self, other: Size) -> Size:
        terms = dict(self.terms)
        for monomial, factor in _terms(other):
            terms[monomial] = terms.get(monomial, 0) + factor
        return _simplest(terms)

    def __mul__(self, other: Size) -> Size:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                product = tuple(sorted(left + right, key=str))
                terms[product] = terms.get(product, 0) + a * b
        return _simplest(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + (-1 * other)

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __floordiv__(self, other: Size) -> Size:
        exact = divide_exactly(self, other)
        return call("floordiv", self, other) if exact is None else exact

    def __mod__(self, other: Size) -> Size:
        return 0 if divide_exactly(self, other) is not None else call("mod", self, other)

    def _refuse(self) -> ShapeError:
        return ShapeError(
            f"The size of dimension `{self}` is known only when the program runs.",
            fix="Compute with it symbolically (+, -, *, //), or read it from a fed array.",
        )

    def __int__(self) -> int:
        raise self._refuse()

    def __index__(self) -> int:
        raise self._refuse()

    def __bool__(self) -> bool:
        raise self._refuse()


def _text(monomial: Monomial) -> str:
    return "*".join(map(str, monomial))


def _term_text(monomial: Monomial, factor: int) -> str:
    powers = [
        f"{a}^{n}" if (n := monomial.count(a)) > 1 else str(a) for a in dict.fromkeys(monomial)
    ]
    sign = {1: "", -1: "-"}.get(factor, f"{factor}*")
    return sign + "*".join(powers) if powers else str(factor)


def _terms(size: Size) -> tuple[tuple[Monomial, int], ...]:
    return size.terms if isinstance(size, Dim) else ((((), size),) if size else ())


def _simplest(terms: Mapping[Monomial, int]) -> Size:
    left = {monomial: factor for monomial, factor in terms.items() if factor}
    if not left:
        return 0
    if set(left) == {()}:
        return left[()]
    return Dim(left)


def divide_exactly(size: Size, divisor: Size) -> Size | None:
    """`size / divisor` where that is a size again, else `None`."""
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor if divisor and size % divisor == 0 else None
    divisor_terms = _terms(divisor)
    if len(divisor_terms) != 1:
        return 1 if size == divisor and divisor_terms else None
    (atoms, factor), quotient = divisor_terms[0], dict[Monomial, int]()
    for monomial, coefficient in _terms(size):
        rest = list(monomial)
        if coefficient % factor or any(rest.count(a) < atoms.count(a) for a in atoms):
            return None
        for atom in atoms:
            rest.remove(atom)
        quotient[tuple(rest)] = coefficient // factor
    return _simplest(quotient)


def call(name: str, left: Size, right: Size) -> Size:
    """`floordiv`, `mod`, `max` or `min` of two sizes, computed where both are known."""
    if isinstance(left, int) and isinstance(right, int):
        if name in ("floordiv", "mod") and right == 0:
            raise ShapeError(f"Cannot compute {name}({left}, {right}).")
        return FUNCTIONS[name](left, right)
    if name in ("max", "min") and left == right:
        return left
    return Dim({(Call(name, left, right),): 1})


def product(sizes: Shape) -> Size:
    """The product of sizes; 1 for none."""
    return functools.reduce(lambda a, b: a * b, sizes, 1)


def substitute(size: Size, values: Mapping[str, Size]) -> Size:
    """`size` with names replaced by sizes."""
    if isinstance(size, int):
        return size
    total: Size = 0
    for monomial, factor in size.terms:
        term: Size = factor
        for atom in monomial:
            term = term * _substitute_atom(atom, values)
        total = total + term
    return total


def _substitute_atom(atom: Atom, values: Mapping[str, Size]) -> Size:
    if isinstance(atom, str):
        return values[atom] if atom in values else Dim.named(atom)
    return call(atom.name, *(substitute(one, values) for one in atom.arguments))


# ---- text ------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][\w.$]*|\?\d+)|([-+*^(),]))")


def parse_size(text: str) -> Size:
    """Read a size; the inverse of `str`.

    Raises:
        FileFormatError: The text is not a size, or is longer than any real one.

    Example:
        >>> parse_size("2*b + 1") == 2 * Dim.named("b") + 1
        True
    """
    if len(text) > LONGEST_TEXT:
        raise FileFormatError("A dimension is written with too many characters.")
    reader = _Reader(text)
    size = reader.sum(0)
    if reader.peek() is not None:
        raise reader.error()
    return size


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.tokens, at = text, list[str](), 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.error()
            self.tokens.append(match.group(match.lastindex or 0))
            at = match.end()
        self.at = 0

    def error(self) -> FileFormatError:
        return FileFormatError(f"`{self.text}` is not a dimension.", fix="Write as `2*b + 1`.")

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if token is None or (wanted is not None and token != wanted):
            raise self.error()
        self.at += 1
        return token

    def sum(self, depth: int) -> Size:
        if depth > DEEPEST_NESTING:
            raise self.error()
        negative = self.peek() == "-" and self.take() == "-"
        total = self.product(depth) * (-1 if negative else 1)
        while self.peek() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            total = total + self.product(depth) * sign
        return total

    def product(self, depth: int) -> Size:
        total = self.power(depth)
        while self.peek() == "*":
            self.take()
            total = total * self.power(depth)
        return total

    def power(self, depth: int) -> Size:
        base = self.factor(depth)
        if self.peek() != "^":
            return base
        self.take()
        exponent = self.take()
        if not exponent.isdigit() or int(exponent) > DEEPEST_NESTING:
            raise self.error()
        return product((base,) * int(exponent))

    def factor(self, depth: int) -> Size:
        token = self.take()
        if token.isdigit():
            return int(token[:20])
        if token == "(":
            inside = self.sum(depth + 1)
            self.take(")")
            return inside
        if token in "-+*^),":
            raise self.error()
        if self.peek() == "(" and token in FUNCTIONS:
            return self.call(token, depth)
        return Dim.named(token)

    def call(self, name: str, depth: int) -> Size:
        self.take("(")
        left = self.sum(depth + 1)
        self.take(",")
        right = self.sum(depth + 1)
        self.take(")")
        return call(name, left, right)


# ---- unification -----------------------------------------------------------------------------


class Unifier:
    """What the unnamed dimensions of a program turned out to be.

    Example:
        >>> unifier = Unifier()
        >>> a, b = unifier.fresh(), Dim.named("b")
        >>> unifier.unify(a, b), unifier.resolve(2 * a)
        (b, 2*b)
    """

    def __init__(self) -> None:
        self.known: dict[str, Size] = {}
        self.count = 0

    def fresh(self) -> Dim:
        """A new unnamed dimension."""
        self.count += 1
        return Dim.named(f"?{self.count - 1}")

    def resolve(self, size: Size) -> Size:
        """`size` with all that is known put in."""
        if (
            isinstance(size, int)
            or not self.known
            or not any(n in self.known for n in size.names())
        ):
            return size
        return self.resolve(substitute(size, self.known))

    def unify(self, left: Size, right: Size) -> Size | None:
        """The one size that both are, or `None` where they differ."""
        left, right = self.resolve(left), self.resolve(right)
        if left == right:
            return left
        for unnamed, other in ((right, left), (left, right)):
            if isinstance(unnamed, Dim) and unnamed.unnamed:
                if isinstance(other, Dim) and str(unnamed) in other.names():
                    return None
                self.known[str(unnamed)] = other
                return other
        return None
