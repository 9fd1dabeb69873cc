"""Options that select passes, and explanations of their effect on the programs of a file."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from braces.cli.common.command import declare
from braces.cli.common.program_files import Content
from braces.cli.common.terminal import Style
from braces.dims import Size
from braces.errors import BracesError, FileFormatError, ProgramError, suggest
from braces.passes.analysis.cost import Cost
from braces.passes.analysis.explanation import Explanation
from braces.passes.analysis.report import explain
from braces.passes.core.pipeline import Note, Pass, Passes
from braces.passes.registry import DEFAULT, MAKERS, PASSES, WORDS

_LISTED = ", ".join((*PASSES, *(f"{name}:{words}" for name, words in WORDS.items())))


_USAGE = f"""\
--after PASS ...  print the programs in the text form after a pass; repeat it for several
                  passes: {_LISTED}
--passes          the changes of each pass and its missed optimizations, with operations and
                  bytes before and after: the passes of compiled runs, or those of --after
--all             with --passes: also passes without effect, and constructs that stay the same
"""


def add_passes(parser: ArgumentParser) -> None:
    """Declare the options that select passes to show."""
    declare(parser, _USAGE, after=_pass)
    add_without(parser, "; with --passes")
    usage = "--size NAME=N ...  the value of a symbol, such as batch=32 or loop_0.trips=10"
    declare(parser, f"{usage}; with --passes", size=size)


def add_without(parser: ArgumentParser, more: str = "") -> None:
    """Declare the option that disables passes."""
    names = ", ".join(each.name for each in DEFAULT)
    usage = f"--without PASS ...  leave out a pass of compiled runs: {names}{more}"
    declare(parser, usage, without=_default_pass)


def _pass(text: str) -> Pass:
    """Parse a pass: its name, or its name and arguments, as `segments:16`."""
    name, _, words = text.partition(":")
    if text in PASSES:
        return PASSES[text]
    if name not in MAKERS:
        raise ArgumentTypeError(f"unknown pass {text!r}; expected one of {_LISTED}")
    way_out = f"write {name}:{WORDS[name]}"
    if not words:
        raise ArgumentTypeError(f"{name} requires arguments; {way_out}")
    arguments = [int(word) if word.isdecimal() else word for word in words.split(",")]
    try:
        return MAKERS[name](*arguments)
    except BracesError as error:
        raise ArgumentTypeError(f"invalid pass {text!r}: {error.what} {way_out}") from None


def _default_pass(text: str) -> str:
    names = [each.name for each in DEFAULT]
    if text not in names:
        raise ArgumentTypeError(
            f"unknown pass of compiled runs {text!r}. {suggest(text, names)}"
        )
    return text


def size(text: str) -> tuple[str, int]:
    """Parse a size, as `batch=32`."""
    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise ArgumentTypeError(f"invalid size {text!r}; expected NAME=N, such as batch=32")
    return name, int(number)


def check_passes(options: Namespace) -> None:
    """Check that the pass options are consistent.

    Raises:
        ProgramError: If options of `--passes` are given without it, or together with text
            output.
    """
    if not options.passes and (options.without or options.size or options.all):
        raise ProgramError("--without, --size and --all need --passes.", fix="Add --passes.")
    if options.passes and (options.text or options.unfold):
        raise ProgramError(
            "--passes cannot be combined with --text or --unfold.",
            fix="Remove one of them; --after prints a program after a pass.",
        )


# ---- explanations ----------------------------------------------------------------------------


def explain_programs(content: Content, options: Namespace) -> dict[str, Explanation]:
    """Explain the effect of passes on each program of a file, for its default fetches.

    Raises:
        FileFormatError: If the file has no programs.
        UnknownNameError: If an excluded pass is not among the passes, or a size does not exist.
    """
    if not content.programs:
        raise FileFormatError("the file has arrays, and no programs.")
    passes = Passes(options.after or DEFAULT).without(*(options.without or ()))
    return {
        name: explain(
            program,
            list(content.gives[name].values()),
            passes,
            dict(options.size or ()),
            options.all,
        )
        for name, program in content.programs.items()
    }


def explanation_lines(explanations: Mapping[str, Explanation], style: Style) -> Iterator[str]:
    """Yield explanations for people: unindented lines bold, deeply indented ones dim."""
    for name, explanation in explanations.items():
        if len(explanations) > 1:
            yield f"# {name}"
        for line in str(explanation).splitlines():
            indent = len(line) - len(line.lstrip())
            yield style.bold(line) if not indent else style.dim(line) if indent > 2 else line


def plain(explanation: Explanation) -> list[dict[str, Any]]:
    """Return an explanation as JSON-compatible data: a list of all passes, complete."""
    return [
        {
            "name": step.name,
            "doc": step.doc,
            **_cost_data(step),
            "peak_bytes": {
                "before": _peak_data(step.peak_before),
                "after": _peak_data(step.peak_after),
            },
            "blocks": [
                {
                    "path": part.path,
                    "removed": list(part.removed),
                    "added": list(part.added),
                    "changed": list(part.changed),
                }
                for part in step.blocks
            ],
            "constructs": [
                {
                    "path": part.path,
                    "type": part.type,
                    "same": part.same,
                    **_cost_data(part),
                    "notes": [*map(_note_data, part.notes)],
                }
                for part in step.constructs
            ],
            "notes": [*map(_note_data, step.notes)],
        }
        for step in explanation.steps
    ]


def _note_data(note: Note) -> dict[str, Any]:
    source = note.source and {"file": note.source.file, "line": note.source.line}
    return {"where": note.where, "what": note.what, "kind": note.kind, "source": source}


def _cost_data(part: Any) -> dict[str, Any]:
    return {"before": plain_cost(part.cost_before), "after": plain_cost(part.cost_after)}


def plain_cost(cost: Cost | None) -> dict[str, int | str] | None:
    """Return a cost as JSON-compatible data: numbers, or text if it depends on symbols."""
    if cost is None:
        return None
    return {
        "operations": _size_data(cost.operations),
        "bytes_read": _size_data(cost.bytes_read),
        "bytes_written": _size_data(cost.bytes_written),
        "text": str(cost),
    }


def _peak_data(size: Size | None) -> int | str | None:
    return None if size is None else _size_data(size)


def _size_data(size: Size) -> int | str:
    return size if isinstance(size, int) else str(size)
