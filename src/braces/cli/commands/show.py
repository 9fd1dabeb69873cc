"""`braces show FILE`: the contents of a file, the effect of passes, and explanations of passes.

The text form is for people here. In a long program, plain blocks are folded unless `--unfold`
is given, so that a transformer of twelve layers is a list of twelve lines. `str(prog)` and the
output of other commands are complete.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any, cast

from braces.builder.builder import Builder
from braces.cli.common.command import YES, Command, declare
from braces.cli.common.pass_options import (
    add_passes,
    check_passes,
    explain_programs,
    explanation_lines,
    plain,
)
from braces.cli.common.prepared_run import feeds_for, load_stored_scope, prepare_run
from braces.cli.common.program_files import Content, read_file
from braces.cli.common.program_selection import count_ops, select_program, shown_name
from braces.cli.common.program_tree import describe, program_lines, sizes
from braces.cli.common.terminal import Style
from braces.errors import FileFormatError
from braces.ir.text.printer import print_program
from braces.notebook import OPEN_UP_TO
from braces.passes.analysis.explanation import Explanation
from braces.passes.core.pipeline import Pass, collect_notes, with_fetches
from braces.program import Program
from braces.report import columns, count_text, in_bytes
from braces.storage.model import PREDICT, metadata_lines

_MOST_ROWS = 200
_SHORT = 10
"""Plain blocks of at most this many operators are not folded in a long program."""
_FORMS = """\
--json      print JSON
--text      print the programs in the text form
--html OUT  write a page of a program, with histograms of the values in the file
"""
_USAGE = f"""\
--program NAME         with --html: the program of a model (default: {PREDICT})
--feed NAME=VALUE ...  with --html: the feeds of a run, for histograms of gradients
--fetch NAME ...       with --html: the target of gradients
--unfold               print the complete text form, which can be parsed; otherwise, in a
                       program of more than {OPEN_UP_TO} operators, a plain block of more than
                       {_SHORT} is one line
"""


def _arguments(parser: ArgumentParser) -> None:
    declare(parser, "file FILE  a model or program; - is standard input")
    add_passes(parser)
    form = parser.add_mutually_exclusive_group()
    declare(form, _FORMS)
    declare(parser, _USAGE)
    parser.set_defaults(params=None, seed=None, without=None)


def _run(options: Namespace) -> int:
    content = read_file(options.file)
    check_passes(options)
    if options.passes:
        return _explain(explain_programs(content, options), options.json)
    if options.after is not None:
        content = _apply_passes(content, options.after)
    if options.html:
        _write_page(options, content)
    elif options.json:
        print(json.dumps(_content_data(options.file, content), indent=2))
    elif options.text or options.unfold or options.after is not None:
        print("\n".join(_texts(content, options.unfold)), end="")
    else:
        print("\n".join(_lines(options.file, content, Style(sys.stdout))))
    return YES


def _write_page(options: Namespace, content: Content) -> None:
    """Write the page of a program; with feeds, it shows gradients of the first fetch."""
    program = select_program(content, options.program).program
    if not options.feed:
        program.to_html(options.html, scope=load_stored_scope(options.file, content))
        return
    ready = prepare_run(options.file, options)
    loss = next(iter(ready.fetches.values()))
    feed = feeds_for(ready, options)
    program.to_html(options.html, scope=ready.scope, feed=feed, loss=loss)


def _explain(explanations: Mapping[str, Explanation], as_json: bool) -> int:
    if as_json:
        print(
            json.dumps(
                {name: plain(explanation) for name, explanation in explanations.items()},
                indent=2,
            )
        )
    else:
        print("\n".join(explanation_lines(explanations, Style(sys.stdout))))
    return YES


def _apply_passes(content: Content, passes: Iterable[Pass]) -> Content:
    """Return the contents of a file with passes applied to its programs."""
    if not content.programs:
        raise FileFormatError("the file has arrays, and no programs.")
    with collect_notes() as notes:
        results = {
            name: _transform(program, content.gives[name], passes)
            for name, program in content.programs.items()
        }
    for note in notes:
        if note.kind != "analysis":
            print(f"{note.where or 'block 0'}: {note.what}", file=sys.stderr)
    return replace(
        content,
        programs={name: program for name, (program, _) in results.items()},
        gives={name: gives for name, (_, gives) in results.items()},
    )


def _transform(
    program: Builder, gives: Mapping[str, str], passes: Iterable[Pass]
) -> tuple[Builder, dict[str, str]]:
    """Apply passes to a program; also return its fetches, with the derivatives they add."""
    before = with_fetches(program.definition, gives.values())
    after = reduce(
        lambda current, apply: apply(current), passes, cast("Builder", Program(before))
    )
    more = after.results[len(before.main.results) :]
    fetches = dict(zip(gives, after.results, strict=False))
    return after, fetches | dict(zip(more, more, strict=True))


def _content_data(file: str, content: Content) -> dict[str, Any]:
    """Return everything as JSON-compatible data."""
    return {
        "file": file,
        "kind": content.kind,
        "bytes": content.size_bytes,
        "metadata": content.metadata,
        "programs": _trees(content),
        "arrays": [
            {"name": name, "type": str(type_), **sizes(type_)}
            for name, type_ in content.arrays.items()
        ],
    }


def _trees(content: Content) -> dict[str, dict[str, Any]]:
    return {
        name: describe(program, content.gives[name])
        for name, program in content.programs.items()
    }


def _texts(content: Content, unfold: bool) -> Iterator[str]:
    """Yield the programs in the text form; several are separated by comments."""
    for name, program in content.programs.items():
        is_complete = unfold or count_ops(program) <= OPEN_UP_TO
        text = print_program(program.definition, None if is_complete else _SHORT)
        yield f"# {name}\n{text}" if len(content.programs) > 1 else text


def _lines(file: str, content: Content, style: Style) -> Iterator[str]:
    yield f"{style.bold(shown_name(file))}  {content.kind}, {in_bytes(content.size_bytes)}"
    yield from (f"  {line}" for line in metadata_lines(content.metadata))
    trees = _trees(content)
    for name, tree in trees.items():
        yield ""
        yield from program_lines(name, tree, style)
    yield from _table(_rows(content, trees), style)


def _rows(
    content: Content, trees: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the persistable variables by name: of the file's arrays, else of its programs."""
    rows: dict[str, dict[str, Any]] = {}
    for tree in trees.values():
        for row in tree["parameters"]:
            rows.setdefault(row["name"], row)
    if content.arrays:
        rows = {
            name: {"kind": rows.get(name, {}).get("kind", "array"), "type": str(t), **sizes(t)}
            for name, t in content.arrays.items()
        }
    return dict(sorted(rows.items(), key=lambda item: item[1]["kind"]))


def _table(rows: Mapping[str, Mapping[str, Any]], style: Style) -> Iterator[str]:
    if not rows:
        return
    total = sum(row.get("numbers", 0) for row in rows.values())
    total_bytes = sum(row.get("bytes", 0) for row in rows.values())
    title = style.bold(count_text(len(rows), "variable"))
    yield ""
    yield f"{title}  {total:,} numbers, {in_bytes(total_bytes)}"
    cells = [
        [
            name,
            row["kind"],
            row["type"],
            f"{row.get('numbers', '?'):,}",
            in_bytes(row.get("bytes", 0)),
        ]
        for name, row in list(rows.items())[:_MOST_ROWS]
    ]
    yield from (f"  {line}" for line in columns(cells, right=(3, 4)))
    if len(rows) > _MOST_ROWS:
        yield f"  … and {len(rows) - _MOST_ROWS} more; --json has all"


COMMAND = Command(
    "show",
    "show the contents of a file: blocks, operators, parameters",
    "braces show demo/digits.model",
    _arguments,
    _run,
)
