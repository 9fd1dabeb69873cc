"""Groups of cases, and the checks of one case."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from braces.errors import BracesError


class Verdict(StrEnum):
    """The outcome of a check."""

    EQUAL = "equal"
    REFUSED = "refused"
    """A `BracesError` states a reason."""
    DIFFERS = "differs"
    """A result without an error, and not the original's: always a defect."""
    FAILED = "failed"
    """Another exception, or the end of the process: always a defect."""
    TIMEOUT = "timeout"
    EXCLUDED = "excluded"
    """The original itself fails, or cannot be exported."""


class Check(NamedTuple):
    """One comparison of a case.

    Attributes:
        what: The subject: `interpreted`, `compiled`, `gradient`, `file` or another column.
        verdict: The outcome.
        reason: The error or the difference; empty for equal results.
    """

    what: str
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class Group:
    """Cases of one subject: a row of the table.

    Attributes:
        goal: The least share of cases that are equal in all checks, from 0 to 1.
        names: Lists the cases.
        run: Runs one case and yields its checks. They may raise `Excluded`.
        seconds: The time limit of one case; the process is killed after it.
        needs: A condition that the page states, such as a path that the user gives.
    """

    goal: float
    names: Callable[[], Iterable[str]]
    run: Callable[[str], Iterable[Check]]
    seconds: float = 120.0
    needs: str = ""


class Excluded(Exception):
    """The original of a case fails by itself, so there is nothing to compare."""


def attempt(what: str, compare: Callable[[], str]) -> Check:
    """Run a comparison that returns a difference, or an empty text for equal results."""
    try:
        difference = compare()
    except Excluded as error:
        return Check(what, Verdict.EXCLUDED, brief(str(error)))
    except BracesError as error:
        return Check(what, Verdict.REFUSED, brief(reason(error)))
    except Exception as error:
        return Check(what, Verdict.FAILED, failure(error))
    return Check(what, Verdict.DIFFERS if difference else Verdict.EQUAL, brief(difference))


def reason(refusal: BracesError) -> str:
    """The reason of a refusal in one line; for imports all reasons, without places."""
    if "cannot be imported" not in refusal.what or not refusal.given:
        return refusal.what
    lines = refusal.given.splitlines()
    return " ".join(line.strip() for line in lines if not line.startswith(" " * 12))


def failure(error: Exception) -> str:
    """The type, message and innermost place of an unexpected exception."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return brief(f"{type(error).__name__}: {error}"[:260] + place)


def brief(text: str, most: int = 300) -> str:
    """The first line of a message, without the folders of this machine."""
    line = next(iter(text.strip().splitlines()), "")
    return re.sub(r"(?<![\w.])/[\w.+/-]*/(?=[\w.+-]+)", "", line)[:most]
