"""The text of sizes, and how long, deep and high they may be: what is longer is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from braces.errors import ShapeError

LONGEST_TEXT = 2000
"""Characters of a size."""
DEEPEST_NESTING = 16
"""Functions within each other."""
HIGHEST_POWER = 64
"""Factors of a term."""
LARGEST_NUMBER = (1 << 63) - 1

_WAY_OUT = "Give such a size a name of its own, as a dimension of fed data."


def text_of(terms: Sequence[tuple[Sequence[object], int]]) -> str:
    """The text of a sum of products.

    Raises:
        ShapeError: It is too long, or a term too large.
    """
    text = " + ".join(_term_text(monomial, factor) for monomial, factor in terms)
    if len(text) > LONGEST_TEXT:
        raise _too_long(f"{len(text)} characters", f": `{text:.60}…`")
    return text.replace("+ -", "- ")


def joined(monomial: Sequence[object]) -> str:
    """The factors of a product."""
    return "*".join(map(str, monomial))


def _term_text(monomial: Sequence[object], factor: int) -> str:
    if abs(factor) > LARGEST_NUMBER or len(monomial) > HIGHEST_POWER:
        raise ShapeError(
            f"A size has the term {factor}*{joined(monomial[:4]):.80}…, which is too large.",
            fix=f"A factor has 63 bits, and a term {HIGHEST_POWER} sizes.",
        )
    powers = [f"{a}^{n}" if n > 1 else str(a) for a, n in Counter(monomial).items()]
    sign = {1: "", -1: "-"}.get(factor, f"{factor}*")
    return sign + "*".join(powers) if powers else str(factor)


def check_count(count: int) -> None:
    """Refuse so many terms before their text is made.

    Raises:
        ShapeError: Their text is too long, however short each is.
    """
    if 4 * count - 3 > LONGEST_TEXT:
        raise _too_long(f"{count} terms")


def check_depth(depth: int, text: str) -> int:
    """`depth`, if functions may lie in each other so deep.

    Raises:
        ShapeError: They may not.
    """
    if depth > DEEPEST_NESTING:
        raise ShapeError(
            f"A size nests more than {DEEPEST_NESTING} functions: `{text:.80}…`.", fix=_WAY_OUT
        )
    return depth


def _too_long(how_long: str, shown: str = "") -> ShapeError:
    return ShapeError(
        f"A size has {how_long}, and {LONGEST_TEXT} characters are the most{shown}.",
        fix=_WAY_OUT,
    )
