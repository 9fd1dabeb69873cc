"""Conditions of breakpoints: comparisons of measures of a value, without Python's `eval`.

The grammar is:

condition  := conjunction ("or" conjunction)*
conjunction := negation ("and" negation)*
negation   := "not" negation | "(" condition ")" | comparison
comparison := term (("<" | "<=" | ">" | ">=" | "==" | "!=") term)*
term       := ["-"] number | name ["(" operator ")"]
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from braces.debugger.recorded.measures import NAN, Array, Measure, norm
from braces.errors import ProgramError, suggest

LONGEST, DEEPEST = 500, 50
"""Bounds of the characters and of the nesting of a condition."""


@dataclass(frozen=True)
class ObservedValue:
    """A value that an operator has bound, with its place in time.

    Attributes:
        measure: The measures of the value.
        array: The value; `None` for a list.
        iterations: The owner of each block around, with the iteration, the outermost first.
    """

    measure: Measure
    array: Array | None = None
    iterations: Sequence[tuple[str, int]] = ()


Term: TypeAlias = "Callable[[ObservedValue], float]"
Test: TypeAlias = "Callable[[ObservedValue], bool]"

_NAMES: dict[str, Term] = {
    "nan": lambda moment: moment.measure.nans,
    "inf": lambda moment: moment.measure.infs,
    "min": lambda moment: moment.measure.min,
    "max": lambda moment: moment.measure.max,
    "mean": lambda moment: moment.measure.mean,
    "std": lambda moment: moment.measure.std,
    "size": lambda moment: moment.measure.size,
    "norm": lambda moment: NAN if moment.array is None else norm(moment.array),
    "value": lambda moment: _single(moment),
    "iteration": lambda moment: moment.iterations[-1][1] if moment.iterations else NAN,
}
NAMES = tuple(_NAMES)
"""The names of a condition."""
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d][\w./\[\]]*)|(?P<sign><=|>=|==|!=|[<>()-]))"
)


def _single(moment: ObservedValue) -> float:
    """Return the only number of a value; NaN if there are several."""
    if moment.measure.size != 1:
        return NAN
    return float("nan") if moment.measure.nans else moment.measure.mean


def parse_condition(text: str) -> Test:
    """Return the condition of a breakpoint as a function; an empty one always holds.

    A name alone holds if its number is not zero. `iteration` is that of the innermost block;
    `iteration(loop_0)` is that of a named owner around.

    Raises:
        ProgramError: If the text is not a condition.

    Example:
        >>> test = parse_condition("nan or max > 10 and iteration(loop_0) == 3")
        >>> test(ObservedValue(Measure(0.0, 11.0, 1.0, 1.0, 0, 0, 4), None, [("loop_0", 3)]))
        True
    """
    if not text.strip():
        return lambda moment: True
    if len(text) > LONGEST:
        raise _invalid(text, f"it has more than {LONGEST} characters")
    return _ConditionParser(text).parse()


@dataclass
class _ConditionParser:
    text: str
    tokens: list[tuple[str, str]] = field(init=False)
    depth: int = 0

    def __post_init__(self) -> None:
        self.tokens, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                raise _invalid(self.text, f"unexpected {self.text[at:].strip()[:20]!r}")
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self.tokens.reverse()

    def parse(self) -> Test:
        test = self.either()
        if self.tokens:
            raise self.unexpected("the end")
        return test

    def peek(self) -> str:
        return self.tokens[-1][1] if self.tokens else ""

    def take(self, *wanted: str) -> bool:
        if self.peek() in wanted and self.tokens:
            self.tokens.pop()
            return True
        return False

    def unexpected(self, wanted: str) -> ProgramError:
        token = repr(self.peek()) if self.tokens else "the end"
        return _invalid(self.text, f"expected {wanted}, got {token}")

    def either(self) -> Test:
        tests = [self.both()]
        while self.take("or"):
            tests.append(self.both())
        return tests[0] if len(tests) == 1 else lambda moment: any(t(moment) for t in tests)

    def both(self) -> Test:
        tests = [self.negation()]
        while self.take("and"):
            tests.append(self.negation())
        return tests[0] if len(tests) == 1 else lambda moment: all(t(moment) for t in tests)

    def negation(self) -> Test:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _invalid(self.text, "it is nested too deeply")
        test = self.unit()
        self.depth -= 1
        return test

    def unit(self) -> Test:
        if self.take("not"):
            inner = self.negation()
            return lambda moment: not inner(moment)
        if self.take("("):
            test = self.either()
            if not self.take(")"):
                raise self.unexpected("')'")
            return test
        return self.comparison()

    def comparison(self) -> Test:
        terms, signs = [self.term()], list[Callable[[Any, Any], bool]]()
        while self.peek() in _COMPARISONS:
            signs.append(_COMPARISONS[self.tokens.pop()[1]])
            terms.append(self.term())
        if not signs:
            return lambda moment: bool(terms[0](moment))

        def holds(moment: ObservedValue) -> bool:
            numbers = [term(moment) for term in terms]
            pairs = zip(signs, numbers, numbers[1:], strict=False)
            return all(sign(left, right) for sign, left, right in pairs)

        return holds

    def term(self) -> Term:
        if self.take("-"):
            inner = self.term()
            return lambda moment: -inner(moment)
        kind, text = self.tokens.pop() if self.tokens else ("", "")
        if kind == "number":
            number = float(text)
            return lambda moment: number
        if kind != "name" or text in ("and", "or", "not"):
            if kind:
                self.tokens.append((kind, text))
            raise self.unexpected("a number or a name")
        if text == "iteration" and self.take("("):
            return self.iteration_of()
        if text not in _NAMES:
            raise ProgramError(
                f"unknown name `{text:.60}` in the condition {self.text!r:.200}.",
                given=f"names: {', '.join(NAMES)}",
                fix=suggest(text, NAMES),
            )
        return _NAMES[text]

    def iteration_of(self) -> Term:
        kind, owner = self.tokens.pop() if self.tokens else ("", "")
        if kind != "name" or not self.take(")"):
            raise _invalid(self.text, "expected the name of an operator with blocks and ')'")
        return lambda moment: dict(moment.iterations).get(owner, NAN)


def _invalid(text: str, reason: str) -> ProgramError:
    return ProgramError(
        f"invalid condition {text!r:.200}: {reason}.",
        fix="Write comparisons such as `nan`, `max > 10` or `iteration == 3 and norm < 1e-3`.",
    )
