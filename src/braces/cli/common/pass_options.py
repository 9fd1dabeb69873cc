"""Passes on command lines: which run, and what they did to the programs of a file."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from braces.cli.common.program_files import Content
from braces.cli.common.terminal import Style
from braces.dims import Size
from braces.errors import BracesError, FileFormatError, ProgramError, suggest
from braces.passes.analysis.cost import Cost
from braces.passes.analysis.report import Explanation, explain
from braces.passes.core.pipeline import Pass, Passes
from braces.passes.registry import DEFAULT, MAKERS, PASSES, WORDS

_LISTED = ", ".join((*PASSES, *(f"{name}:{words}" for name, words in WORDS.items())))


def add_passes(parser: ArgumentParser) -> None:
    """Declare the options that say which passes are looked at."""
    parser.add_argument(
        "--after",
        action="append",
        type=_pass,
        metavar="PASS",
        help="the programs in the text form, after a pass; after several where it is said "
        f"again: {_LISTED}",
    )
    parser.add_argument(
        "--passes",
        action="store_true",
        help="what each pass does to each loop, or why not, with operations and bytes before "
        "and after: those that a compiled run has, or those of --after",
    )
    add_without(parser, "; with --passes")
    parser.add_argument(
        "--size",
        action="append",
        type=size,
        metavar="NAME=N",
        help="a number in place of a symbol, as batch=32 or loop_0.trips=10; with --passes",
    )


def add_without(parser: ArgumentParser, more: str = "") -> None:
    """Declare the option that leaves passes out."""
    names = ", ".join(one.name for one in DEFAULT)
    parser.add_argument(
        "--without",
        action="append",
        type=_of_default,
        metavar="PASS",
        help=f"leave out a pass of compiled runs: {names}{more}",
    )


def _pass(text: str) -> Pass:
    """A pass by its name, or by its name and the words that it needs: `segments:16`."""
    name, _, words = text.partition(":")
    if text in PASSES:
        return PASSES[text]
    if name not in MAKERS:
        raise ArgumentTypeError(f"there is no pass {text!r}; there are {_LISTED}")
    way_out = f"write {name}:{WORDS[name]}"
    if not words:
        raise ArgumentTypeError(f"{name} needs words; {way_out}")
    given = [int(word) if word.isdecimal() else word for word in words.split(",")]
    try:
        return MAKERS[name](*given)
    except BracesError as error:
        raise ArgumentTypeError(f"{text!r} is no pass: {error.what} {way_out}") from None


def _of_default(text: str) -> str:
    names = [one.name for one in DEFAULT]
    if text not in names:
        raise ArgumentTypeError(f"compiled runs have no pass {text!r}. {suggest(text, names)}")
    return text


def size(text: str) -> tuple[str, int]:
    """A size that an option says, as `batch=32`."""
    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no size; write batch=32")
    return name, int(number)


def check_passes(options: Namespace) -> None:
    """Hold against each other what the options say of passes.

    Raises:
        ProgramError: Something is said of an explanation, and none is wanted; or text is.
    """
    if not options.passes and (options.without or options.size):
        raise ProgramError("--without and --size are for --passes.", fix="Add --passes.")
    if options.passes and (options.text or options.unfold):
        raise ProgramError(
            "--passes explains, --text shows programs.", fix="Leave one out; see --after."
        )


# ---- explanations ----------------------------------------------------------------------------


def explained(content: Content, options: Namespace) -> dict[str, Explanation]:
    """What passes do to each program of a file, for what it gives.

    Raises:
        FileFormatError: It has none.
        UnknownNameError: A pass that is left out is not among them, or no size is called so.
    """
    if not content.programs:
        raise FileFormatError("The file has arrays, and no programs.")
    chosen = Passes(options.after or DEFAULT).without(*(options.without or ()))
    return {
        name: explain(
            program, list(content.gives[name].values()), chosen, dict(options.size or ())
        )
        for name, program in content.programs.items()
    }


def explanation_lines(found: Mapping[str, Explanation], style: Style) -> Iterator[str]:
    """Explanations for people; what stands at the margin is bold, what is said of it dim."""
    for name, one in found.items():
        if len(found) > 1:
            yield f"# {name}"
        for line in str(one).splitlines():
            indent = len(line) - len(line.lstrip())
            yield style.bold(line) if not indent else style.dim(line) if indent > 2 else line


def plain(found: Explanation) -> list[dict[str, Any]]:
    """An explanation for programs to read: a list of passes."""
    return [
        {
            "name": step.name,
            "doc": step.doc,
            **_costs(step),
            "peak_bytes": {"before": _peak(step.peak_before), "after": _peak(step.peak_after)},
            "blocks": [
                {
                    "path": one.path,
                    "removed": list(one.removed),
                    "added": list(one.added),
                    "changed": list(one.changed),
                }
                for one in step.blocks
            ],
            "constructs": [
                {
                    "path": one.path,
                    "type": one.type,
                    "same": one.same,
                    **_costs(one),
                    "notes": [{"where": said.where, "what": said.what} for said in one.notes],
                }
                for one in step.constructs
            ],
            "notes": [{"where": said.where, "what": said.what} for said in step.notes],
        }
        for step in found.steps
    ]


def _costs(one: Any) -> dict[str, Any]:
    return {"before": plain_cost(one.cost_before), "after": plain_cost(one.cost_after)}


def plain_cost(cost: Cost | None) -> dict[str, int | str] | None:
    """A cost for programs to read: numbers, or the text of what depends on symbols."""
    if cost is None:
        return None
    return {
        "operations": _number(cost.operations),
        "bytes_read": _number(cost.bytes_read),
        "bytes_written": _number(cost.bytes_written),
        "text": str(cost),
    }


def _peak(size: Size | None) -> int | str | None:
    return None if size is None else _number(size)


def _number(size: Size) -> int | str:
    return size if isinstance(size, int) else str(size)
