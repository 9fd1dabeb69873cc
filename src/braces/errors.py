"""What can go wrong, as one tree of exceptions.

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
    │   └── NaNError           (ArithmeticError) a NaN, where one was looked for
    ├── ClusterError           (RuntimeError)   processes of a job that do not come or differ
    ├── DeviceError            (ValueError)     a device that is not there
    ├── LayoutError            (ValueError)     a layout that does not fit mesh or program
    ├── RemoteError            (RuntimeError)   a worker that is not reached, refuses, or died
    └── FileFormatError        (ValueError)     a file that cannot be read
        └── ParseError         (SyntaxError)    ... in the text form; carries line and column

Each error says what is wrong, where, what was given and the way out.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BracesError", "ClusterError", "DTypeError", "DeviceError", "DuplicateNameError",
    "FeedError", "FileFormatError", "GradientError", "IndexRangeError", "LayoutError",
    "MissingPackageError", "NaNError", "NoMatchError", "OpDefinitionError", "ParseError",
    "ProgramError", "RemoteError", "RunError", "ScopeClosedError", "ShapeError",
    "SymbolicValueError", "TripLimitError", "UninitializedError", "UnknownNameError",
    "VerifyError",
]  # fmt: skip

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that a terminal obeys: cursor, direction of text, ends of lines."""


def visible(text: str) -> str:
    r"""A text with escapes in place of what a terminal obeys instead of showing it.

    All text of files goes through this on its way to people; `BracesError` does it for what
    it says.

    Example:
        >>> print(visible("a\x1b[31mb\u202ec\n"))
        a\x1b[31mb\u202ec\n
    """
    if text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def visible_lines(text: str) -> str:
    """`visible`, but the text keeps its lines."""
    return "\n".join(map(visible, text.split("\n")))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


class BracesError(Exception):
    """The root of all errors that Braces raises on purpose.

    Args:
        what: One sentence that says what is wrong.
        at: Where: block, operator, and the user's own file and line.
        given: What was given: names with their types or values.
        fix: The way out.
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
        """All that it says; the arguments of its class may be others."""
        return _restored, (type(self), self.what, dict(vars(self)))

    def located(self, at: str) -> BracesError:
        """This error with its place filled in, where it had none."""
        if self.at is None:
            self.at = at
        return self


def _restored(kind: type[BracesError], what: str, state: dict[str, Any]) -> BracesError:
    """An error as it was before it was pickled or copied."""
    error = kind.__new__(kind)
    BracesError.__init__(error, what)
    vars(error).update(state)
    return error


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
        code: The stable code of the rule that is broken, as `B101`.
    """

    def __init__(self, code: str, what: str, **details: str | None) -> None:
        super().__init__(f"[{code}] {what}", **details)
        self.code = code


class GradientError(BracesError, ValueError):
    """A gradient that does not exist, or was asked for wrongly."""


class SymbolicValueError(BracesError, TypeError):
    """A symbolic variable used where a value is needed."""


class OpDefinitionError(BracesError, TypeError):
    """An operator whose definition is not complete."""


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
    """A NaN where one was looked for."""


class ClusterError(BracesError, RuntimeError):
    """Processes of one job that do not find each other, or do not have the same."""


class DeviceError(BracesError, ValueError):
    """A device that this machine does not have."""


class LayoutError(BracesError, ValueError):
    """A layout does not fit its mesh, or a program."""


class MissingPackageError(BracesError, ImportError):
    """An optional package that is not installed; the message says how to install it."""


class RemoteError(BracesError, RuntimeError):
    """A worker that cannot be reached, refuses, or died."""


class FileFormatError(BracesError, ValueError):
    """A file that cannot be read."""


class ParseError(FileFormatError, SyntaxError):
    """A text that is not a program; the message shows the place with a caret."""


def array_fix(error: Exception, otherwise: str) -> str:
    """The way out where NumPy makes no array of a thing: a tensor of another library says so.

    Example:
        >>> array_fix(RuntimeError("Can't call numpy() on Tensor that requires grad."), "")
        'Give tensor.detach().cpu().numpy().'
    """
    tensor = "tensor" in str(error).lower()
    return "Give tensor.detach().cpu().numpy()." if tensor else otherwise


MOST_LISTED = 16
"""So many names are listed where none is close; a longer list would help nobody."""
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
"""Words that mean the same."""


def suggest(name: str, names: Iterable[str]) -> str:
    """A way out that names those of `names` that are close to `name`, or lists a few names.

    Example:
        >>> suggest("Los", ["loss", "lr"])
        'Did you mean `loss`?'
        >>> suggest("hidden", ["loss", "lr"])
        'There is `loss`, `lr`.'
    """
    known = sorted(set(names))
    near = did_you_mean(name, known)
    if near:
        return near
    if len(known) > MOST_LISTED:
        return f"There are {len(known)} others, and none has a similar name."
    listed = ", ".join(f"`{one}`" for one in known)
    return f"There is {listed}." if known else "There are none."


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The question whether a close name is meant; empty where none of `names` is close."""
    near = ", ".join(f"`{one}`" for one in close_names(name, names))
    return f"Did you mean {near}?" if near else ""


def close_names(name: str, names: Iterable[str]) -> list[str]:
    """The names that are close to another one in meaning or spelling: three at most.

    Names mean the same that differ in case, separators, plurals and words of one meaning, or
    in a prefix. Names are spelled alike where a third of the letters differs, or less, of the
    words that they do not have in common.

    Example:
        >>> close_names("fc1_weight", ["fc1.w", "fc2.w", "loss"])
        ['fc1.w']
        >>> close_names("mode", ["mean", "where", "median"])
        []
    """
    known = sorted(set(names))
    means = _meaning(name)
    same = [one for one in known if _meaning(one) == means or _is_last_part(name, one)]
    lower = {one.lower(): one for one in reversed(known)}
    near = difflib.get_close_matches(name.lower(), lower, n=8, cutoff=0.6)
    alike = [lower[one] for one in near if _are_spelled_alike(name.lower(), one)]
    return list(dict.fromkeys([*same, *alike]))[:3]


def _meaning(name: str) -> tuple[str, ...]:
    """The words of a name, one for each meaning."""
    words: list[str] = re.findall(r"[^\W\d_]+|\d+", _CASES.sub("_", name).lower())
    singular = (word.removesuffix("s") if len(word) > 3 else word for word in words)
    return tuple(_MEANING.get(word, word) for word in singular) or (name,)


def _is_last_part(name: str, one: str) -> bool:
    return one.endswith((f"/{name}", f".{name}"))


def _are_spelled_alike(name: str, one: str) -> bool:
    """Whether few letters differ beside the words that names have in common.

    Of two letters or fewer, one name must begin or end the other.
    """
    name, one = _without_common_words(name, one)
    longer, shorter = sorted((name, one), key=len, reverse=True)
    if len(longer) < 3:
        return bool(shorter) and (longer.startswith(shorter) or longer.endswith(shorter))
    return _edit_distance(name, one) <= min(len(longer) // 3, 3)


def _without_common_words(name: str, one: str) -> tuple[str, str]:
    """Two names without the words with which both begin or end."""
    left, right = (_SEPARATED.findall(text) for text in (name, one))
    for at in (0, -1):
        while left and right and left[at] == right[at]:
            del left[at], right[at]
    return "".join(left), "".join(right)


def _edit_distance(left: str, right: str) -> int:
    """How many letters are added, removed, replaced, or swapped with the next one."""
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
