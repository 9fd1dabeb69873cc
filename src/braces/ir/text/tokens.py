"""Lexer of the text form, with errors that show a place in the text with a caret."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from braces.errors import FileFormatError, ParseError, visible
from braces.ir import limits

T = TypeVar("T")

ELLIPSIS = "…"
"""Placeholder of omitted parts in folded texts."""

_SPACE = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*+")
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_@][\w.@/-]*+)"
    r"|(?P<number>-?(?:inf|[0-9]++(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]++)?))"
    r'|(?P<string>"(?:[^"\\\n]++|\\.)*+")'
    r"|(?P<mark>[()\[\]{},:=])"
)


def parse_error(text: str, at: int, what: str, fix: str | None = None) -> ParseError:
    """Return an error that shows the line of a place, and a caret below it."""
    start = text.rfind("\n", 0, at) + 1
    row, column = text.count("\n", 0, at) + 1, at - start + 1
    end = text.find("\n", at)
    line = text[start : end if end >= 0 else len(text)].rstrip()
    first = max(len(line) - len(line.lstrip()), column - 61)
    before = len(visible(line[first : column - 1]))
    error = ParseError(
        what,
        at=f"line {row}, column {column}",
        given=f"{visible(line[first : first + 80])}\n{' ' * (len('  given: ') + before)}^",
        fix=fix,
    )
    # Python shows a syntax error by these, not by its text.
    error.lineno, error.offset = row, len(visible(line[: column - 1])) + 1
    error.text, error.msg = visible(line), visible(f"{what} {fix}" if fix else what)
    return error


@dataclass(frozen=True, slots=True)
class Token:
    """A name, number, string or mark; `stray` for anything else, `end` behind the last one."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return f"`{self.text:.40}`" if self.kind != "end" else "the end"


class Tokens:
    """Token stream of a text, lexed on demand."""

    def __init__(self, text: str) -> None:
        if len(text) > limits.LARGEST_FILE:
            raise parse_error(
                text,
                0,
                f"the text has {len(text)} characters; expected at most {limits.LARGEST_FILE}.",
            )
        self.text = text
        self.last_end = 0
        self.ahead: list[Token] = []

    def error(self, what: str, token: Token, fix: str | None = None) -> ParseError:
        """Return an error at a token."""
        return parse_error(self.text, token.start, what, fix)

    def missing(self, what: str) -> ParseError:
        """Return an error at the next token, or behind the last one if the line ends there."""
        token = self.peek()
        broken = "\n" in self.text[self.last_end : token.start]
        at = self.last_end if broken or token.kind == "end" else token.start
        fix = None
        if token.text == ELLIPSIS:
            fix = "This text is folded; print all of it with `braces show --text --unfold`."
        return parse_error(self.text, at, f"expected {what} before {token}.", fix)

    def peek(self, distance: int = 0) -> Token:
        """Return the next token, or one further ahead."""
        while len(self.ahead) <= distance:
            self.ahead.append(self.lex(self.ahead[-1].end if self.ahead else self.last_end))
        return self.ahead[distance]

    def lex(self, at: int) -> Token:
        """Return the first token at or behind a place."""
        space = _SPACE.match(self.text, at)
        start = space.end() if space else at
        if start == len(self.text):
            return Token("end", "", start, start)
        match = _TOKEN.match(self.text, start)
        if match is None:
            return Token("stray", self.text[start], start, start + 1)
        return Token(match.lastgroup or "", match.group(), start, match.end())

    def next(self) -> Token:
        """Consume and return the next token."""
        token = self.peek()
        self.jump(token.end)
        return token

    def jump(self, at: int) -> None:
        """Continue at a place."""
        self.ahead = [token for token in self.ahead if token.start >= at]
        self.last_end = at

    def take(self, text: str) -> Token:
        """Consume the next token, which must be this one."""
        if self.peek().text != text:
            raise self.missing(f"`{text}`")
        return self.next()

    def took(self, text: str) -> bool:
        """Consume the next token if it is this one; return whether it was."""
        if self.peek().text != text:
            return False
        self.next()
        return True

    def end(self) -> None:
        """Check that no token follows."""
        if self.peek().kind != "end":
            raise self.missing("the end")

    def name(self, what: str = "a name") -> Token:
        """Consume the next token, which must be a name."""
        if self.peek().kind != "name":
            raise self.missing(what)
        token = self.next()
        self.checked(token, lambda: limits.readable_name(token.text))
        return token

    def match(self, pattern: re.Pattern[str]) -> tuple[re.Match[str] | None, Token]:
        """Match text that is no token, at the place of the next token."""
        token = self.peek()
        match = pattern.match(self.text, token.start)
        if match:
            self.jump(match.end())
        return match, token

    def checked(self, token: Token, read: Callable[[], T]) -> T:
        """Return the result of `read`; its errors are shown at `token`."""
        try:
            return read()
        except ParseError:
            raise
        except FileFormatError as error:
            raise self.error(error.what, token, error.fix) from None
        except (OverflowError, ValueError) as error:
            raise self.error(f"invalid value {token}: {error}", token) from None

    def several(self, close: str, read: Callable[[], object]) -> None:
        """Parse comma-separated items by `read`, up to a closing bracket."""
        while not self.took(close):
            read()
            if self.peek().text != close and not self.took(","):
                raise self.missing(f"`,` or `{close}`")
