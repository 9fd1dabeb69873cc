"""Exceptions of Braces, as one tree.

    BracesError
    ├── ShapeError             (ValueError)     shapes that do not fit
    ├── DTypeError             (TypeError)      dtypes that do not fit
    ├── UnknownNameError       (KeyError)       no such variable, operator, feed or fetch
    ├── DuplicateNameError     (ValueError)     a name bound twice
    ├── ProgramError           (ValueError)     a program that is not well formed
    │   └── VerifyError                         ... found by the verifier; carries a code
    ├── GradientError          (ValueError)     a gradient that does not exist
    ├── SymbolicValueError     (TypeError)      a symbolic variable used as a value
    ├── OpDefinitionError      (TypeError)      an operator that is not well defined
    ├── ScopeClosedError       (RuntimeError)   a dead scope, or a handle that outlived it
    ├── FeedError              (ValueError)     feeds that a program did not declare so
    ├── UninitializedError     (RuntimeError)   a run before `Executor.init`
    ├── RunError               (RuntimeError)   a run that failed; its scope is as before
    │   ├── IndexRangeError    (IndexError)     an index out of range
    │   ├── TripLimitError                      a loop that exceeded `max_trips`
    │   ├── NoMatchError                        a switch without a matching case
    │   ├── NaNError           (ArithmeticError) a NaN, with `check_nan`
    │   └── InfinityError      (ArithmeticError) an infinity, with `check_inf`
    ├── ClusterError           (RuntimeError)   processes of a job that are missing or differ
    ├── DeviceError            (ValueError)     a device that does not exist
    ├── LayoutError            (ValueError)     a layout that does not fit mesh or program
    ├── RemoteError            (RuntimeError)   a worker that is unreachable, refuses, or died
    └── FileFormatError        (ValueError)     a file that cannot be read
        └── ParseError         (SyntaxError)    ... in the text form; carries line and column
    BracesWarning              (UserWarning)    the category of warnings

Each error states the problem, its location, the offending input and a fix.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "BracesError", "BracesWarning", "ClusterError", "DTypeError", "DeviceError",
    "DuplicateNameError", "FeedError", "FileFormatError", "GradientError", "IndexRangeError",
    "InfinityError", "LayoutError", "MissingPackageError", "NaNError", "NoMatchError",
    "OpDefinitionError", "ParseError", "ProgramError", "RemoteError", "RunError",
    "ScopeClosedError", "ShapeError", "SymbolicValueError", "TripLimitError",
    "UninitializedError", "UnknownNameError", "VerifyError",
]  # fmt: skip

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of control characters of terminals: cursor, direction of text, ends of lines."""
_RECORDED, _LONGEST = ("what", "at", "given", "fix", "code"), 20_000
"""Fields of a record of an error, and the largest number of their characters."""


def visible(text: str) -> str:
    r"""Return a text with escapes in place of control characters of terminals.

    All text of files is escaped before it is shown to people; `BracesError` escapes its
    message.

    Example:
        >>> print(visible("a\x1b[31mb\u202ec\n"))
        a\x1b[31mb\u202ec\n
    """
    if text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def visible_lines(text: str) -> str:
    """Return `visible` of each line."""
    return "\n".join(map(visible, text.split("\n")))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


class BracesError(Exception):
    """The base class of all errors that Braces raises on purpose.

    Args:
        what: One sentence that states the problem.
        at: The location: block, operator, and the user's own file and line.
        given: The offending input: names with their types or values.
        fix: The suggested fix.
    """

    def __init__(
        self,
        what: str,
        *,
        at: str | None = None,
        given: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.at = at
        self.given = given
        self.fix = fix

    def advise(self, advice: str) -> None:
        """Append advice to the suggested fix."""
        self.fix = f"{self.fix or ''} {advice}".strip()

    def __str__(self) -> str:
        lines = [self.what]
        if self.at:
            lines.append(f"  at: {self.at}")
        if self.given:
            lines.append(f"  given: {self.given}")
        if self.fix:
            lines.append(f"  {self.fix}")
        return visible_lines("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to all attributes; the constructor of a subclass may have other arguments."""
        return _restored, (type(self), self.what, dict(vars(self)))

    def located(self, at: str) -> BracesError:
        """Return this error with its location filled in, if it had none."""
        if self.at is None:
            self.at = at
        return self


def _restored(kind: type[BracesError], what: str, state: dict[str, Any]) -> BracesError:
    """Return an error from its pickled or copied state."""
    error = kind.__new__(kind)
    BracesError.__init__(error, what)
    vars(error).update(state)
    return error


def as_record(error: Exception) -> dict[str, str]:
    """Return an error as a record; one that is not of Braces becomes a `RemoteError`."""
    if not isinstance(error, BracesError):
        error = RemoteError(f"the worker failed: {type(error).__name__}: {error}")
    texts = ((name, getattr(error, name, None)) for name in _RECORDED)
    parts = {name: text[:_LONGEST] for name, text in texts if isinstance(text, str)}
    return {"error": type(error).__name__, **parts}


def as_error(record: Mapping[str, Any], otherwise: type[BracesError]) -> BracesError:
    """Return the error of a record, with the same class and text.

    Args:
        record: A record that `as_record` returned.
        otherwise: The class if this module has none of that name.
    """
    kind, texts = record.get("error"), ((name, record.get(name)) for name in _RECORDED)
    parts = {name: text for name, text in texts if isinstance(text, str)}
    what = parts.pop("what", "") or "the worker failed."
    known = globals()[kind] if kind in __all__ and kind != "BracesWarning" else otherwise
    return _restored(known, what, parts)


class BracesWarning(UserWarning):
    """The category of the warnings of Braces, for `warnings.filterwarnings`."""


class ShapeError(BracesError, ValueError):
    """Shapes that do not fit."""


class DTypeError(BracesError, TypeError):
    """Dtypes that do not fit."""


class UnknownNameError(BracesError, KeyError):
    """No such variable, operator, feed or fetch."""


class DuplicateNameError(BracesError, ValueError):
    """A name bound twice in one block or scope."""


class ProgramError(BracesError, ValueError):
    """A program that is not well formed."""


class VerifyError(ProgramError):
    """A program that the verifier refuses.

    Attributes:
        code: The stable code of the violated rule, as `B101`.
    """

    def __init__(self, code: str, what: str, **details: str | None) -> None:
        super().__init__(f"[{code}] {what}", **details)
        self.code = code


class GradientError(BracesError, ValueError):
    """A gradient that does not exist, or an invalid request for one."""


class SymbolicValueError(BracesError, TypeError):
    """A symbolic variable used where a value is needed."""


class OpDefinitionError(BracesError, TypeError):
    """An operator whose definition is incomplete."""


class ScopeClosedError(BracesError, RuntimeError):
    """A scope that is closed, or a handle that outlived its scope."""


class FeedError(BracesError, ValueError):
    """A feed that is missing, unknown, or not as declared."""


class UninitializedError(BracesError, RuntimeError):
    """A program that runs before its persistable variables have values."""


class RunError(BracesError, RuntimeError):
    """A run that failed; the scope is as it was before the run."""


class IndexRangeError(RunError, IndexError):
    """An index out of range."""


class TripLimitError(RunError):
    """A loop that ran longer than its `max_trips`."""


class NoMatchError(RunError):
    """A switch where no case matched and no default was given."""


class NaNError(RunError, ArithmeticError):
    """A NaN, found with `check_nan`."""


class InfinityError(RunError, ArithmeticError):
    """An infinity from finite values, found with `check_inf`."""


class ClusterError(BracesError, RuntimeError):
    """Processes of one job that do not find each other, or have different values."""


class DeviceError(BracesError, ValueError):
    """A device that this machine does not have."""


class LayoutError(BracesError, ValueError):
    """A layout that does not fit its mesh, or a program."""


class MissingPackageError(BracesError, ImportError):
    """An optional package that is not installed; the message has the command to install it."""


class RemoteError(BracesError, RuntimeError):
    """A worker that is unreachable, refuses, or died."""


class FileFormatError(BracesError, ValueError):
    """A file that cannot be read."""


class ParseError(FileFormatError, SyntaxError):
    """A text that is not a program; the message marks the position with a caret."""


def short_text(value: object) -> str:
    """Return the representation of a value on one line of at most 80 characters.

    Example:
        >>> short_text("a" * 100)[-3:], short_text([1, 2])
        ('aa…', '[1, 2]')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def array_fix(error: Exception, otherwise: str) -> str:
    """Return the fix if NumPy cannot convert an object, such as a tensor of another library.

    Example:
        >>> array_fix(RuntimeError("Can't call numpy() on Tensor that requires grad."), "")
        'Give tensor.detach().cpu().numpy().'
    """
    tensor = "tensor" in str(error).lower()
    return "Give tensor.detach().cpu().numpy()." if tensor else otherwise


MAX_LISTED = 16
"""The number of names listed if none is close; a longer list would not help."""
_MEANINGS = (
    "average avg mean", "axis dim", "b bias", "cat concat concatenate", "clamp clip",
    "conv convolution", "dense fc linear", "deviation std", "div divide", "label target",
    "logit score", "max maximum", "min minimum", "minus sub subtract", "mul multiply times",
    "neg negative", "norm normalization normalize", "param parameter", "pow power",
    "prod product", "silu swish", "var variance", "w weight",
)  # fmt: skip
_CASES = re.compile(r"(?<=[a-z])(?=[A-Z])")
_SEPARATED = re.compile(r"[^\W_]+|[\W_]+")
_MEANING: dict[str, str] = {word: line for line in _MEANINGS for word in line.split()}
"""Synonyms, by word."""


def suggest(name: str, names: Iterable[str]) -> str:
    """Return a fix that names close matches of `name` in `names`, or lists a few names.

    Example:
        >>> suggest("Los", ["loss", "lr"])
        'Did you mean `loss`?'
        >>> suggest("hidden", ["loss", "lr"])
        'Available: `loss`, `lr`.'
    """
    known = sorted(set(names))
    near = did_you_mean(name, known)
    if near:
        return near
    if len(known) > MAX_LISTED:
        return f"{len(known)} names are available; none is similar."
    listed = ", ".join(f"`{candidate}`" for candidate in known)
    return f"Available: {listed}." if known else "None are available."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question with close names, or an empty text if there are none."""
    near = ", ".join(f"`{candidate}`" for candidate in close_names(name, names))
    return f"Did you mean {near}?" if near else ""


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """Return at most three names that are close to another one in meaning or spelling.

    Names have the same meaning if they differ in case, separators, plurals, synonyms or a
    prefix. They have similar spelling if at most a third of the letters differs, apart from
    common words.

    Example:
        >>> close_names("fc1_weight", ["fc1.w", "fc2.w", "loss"])
        ['fc1.w']
        >>> close_names("mode", ["mean", "where", "median"])
        []
    """
    known = sorted(set(names))
    means = _meaning(name)
    same = [
        candidate
        for candidate in known
        if _meaning(candidate) == means or _is_last_part(name, candidate)
    ]
    lower = {candidate.lower(): candidate for candidate in reversed(known)}
    near = difflib.get_close_matches(name.lower(), lower, n=8, cutoff=0.6)
    alike = [
        lower[candidate] for candidate in near if _are_spelled_alike(name.lower(), candidate)
    ]
    return list(dict.fromkeys([*same, *alike]))[:3]


def _meaning(name: str) -> tuple[str, ...]:
    """Return the words of a name, each replaced by its meaning."""
    words: list[str] = re.findall(r"[^\W\d_]+|\d+", _CASES.sub("_", name).lower())
    singular = (word.removesuffix("s") if len(word) > 3 else word for word in words)
    return tuple(_MEANING.get(word, word) for word in singular) or (name,)


def _is_last_part(name: str, other: str) -> bool:
    return other.endswith((f"/{name}", f".{name}"))


def _are_spelled_alike(name: str, other: str) -> bool:
    """Return whether few letters differ, apart from common words of the names.

    With two letters or fewer, one name must be a prefix or suffix of the other.
    """
    name, other = _without_common_words(name, other)
    longer, shorter = sorted((name, other), key=len, reverse=True)
    if len(longer) < 3:
        return bool(shorter) and (longer.startswith(shorter) or longer.endswith(shorter))
    return _edit_distance(name, other) <= min(len(longer) // 3, 3)


def _without_common_words(name: str, other: str) -> tuple[str, str]:
    """Return two names without their common first and last words."""
    left, right = (_SEPARATED.findall(text) for text in (name, other))
    for at in (0, -1):
        while left and right and left[at] == right[at]:
            del left[at], right[at]
    return "".join(left), "".join(right)


def _edit_distance(left: str, right: str) -> int:
    """Return the number of letters added, removed, replaced, or swapped with the next."""
    before, row = list[int](), list(range(len(right) + 1))
    for i, a in enumerate(left):
        earlier, before, row = before, row, [i + 1]
        for j, b in enumerate(right):
            cost = min(before[j] + (a != b), before[j + 1] + 1, row[j] + 1)
            if i and j and (a, left[i - 1]) == (right[j - 1], b):
                cost = min(cost, earlier[j - 1] + 1)
            row.append(cost)
    return row[-1]


def __dir__() -> list[str]:
    return sorted(__all__)
