"""Printer of sizes, with limits on length, nesting and powers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from braces.errors import ShapeError

LONGEST_TEXT = 2000
"""Maximum number of characters of a size."""
DEEPEST_NESTING = 16
"""Maximum nesting depth of functions."""
HIGHEST_POWER = 64
"""Maximum number of factors of a term."""
LARGEST_NUMBER = (1 << 63) - 1

_WAY_OUT = "Declare a named dimension of a fed array for this size."


def format_terms(terms: Sequence[tuple[Sequence[object], int]]) -> str:
    """Format a sum of products.

    Raises:
        ShapeError: If the text is too long, or a term is too large.
    """
    text = " + ".join(_term_text(monomial, factor) for monomial, factor in terms)
    if len(text) > LONGEST_TEXT:
        raise _too_long(f"{len(text)} characters", f": `{text:.60}…`")
    return text.replace("+ -", "- ")


def format_monomial(monomial: Sequence[object]) -> str:
    """Format the factors of a product."""
    return "*".join(map(str, monomial))


def _term_text(monomial: Sequence[object], factor: int) -> str:
    if abs(factor) > LARGEST_NUMBER or len(monomial) > HIGHEST_POWER:
        raise ShapeError(
            f"term {factor}*{format_monomial(monomial[:4]):.80}… of a size is too large.",
            fix=f"Use coefficients of at most 63 bits, and at most {HIGHEST_POWER} factors.",
        )
    powers = [f"{a}^{n}" if n > 1 else str(a) for a, n in Counter(monomial).items()]
    sign = {1: "", -1: "-"}.get(factor, f"{factor}*")
    return sign + "*".join(powers) if powers else str(factor)


def check_count(count: int) -> None:
    """Refuse a sum with too many terms before it is formatted.

    Raises:
        ShapeError: If the text would be too long even with the shortest terms.
    """
    if 4 * count - 3 > LONGEST_TEXT:
        raise _too_long(f"{count} terms")


def check_depth(depth: int, text: str) -> int:
    """Return `depth` if functions may nest this deep.

    Raises:
        ShapeError: If the depth exceeds the limit.
    """
    if depth > DEEPEST_NESTING:
        raise ShapeError(
            f"a size has more than {DEEPEST_NESTING} nested functions: `{text:.80}…`.",
            fix=_WAY_OUT,
        )
    return depth


def _too_long(how_long: str, shown: str = "") -> ShapeError:
    return ShapeError(
        f"a size has {how_long}; the limit is {LONGEST_TEXT} characters{shown}.",
        fix=_WAY_OUT,
    )
