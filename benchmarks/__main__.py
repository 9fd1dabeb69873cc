"""`python -m benchmarks [NAMES]`: measure and print."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import folder
from benchmarks.case import Row, measured, typical
from benchmarks.library import LibraryError
from benchmarks.report import machine, markdown, print_table
from benchmarks.suite import BENCHMARKS, BY_NAME_ONLY, missing


def main(arguments: list[str] | None = None) -> int:
    """Measure the named benchmarks, or all of them."""
    options = _parser().parse_args(arguments)
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        print(
            f"There is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}.",
            file=sys.stderr,
        )
        return 2
    about = [*machine(), *(f"Not installed, so left out: {name}." for name in missing())]
    print("\n".join(about), end="\n\n", flush=True)
    tables: list[tuple[str, list[Row]]] = []
    failed: list[str] = []
    for name in options.names or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]:
        title, rows = BENCHMARKS[name].TITLE, _rows(name, options, failed)
        print_table(f"{name}: {title}", rows)
        tables.append((name, rows))
        if options.report:
            folder.write(options.report, name, title, rows, [*about, *failed])
    if options.markdown:
        _write(options.markdown, markdown(tables, [*about, *failed]))
    return 1 if failed else 0


def _rows(name: str, options: argparse.Namespace, failed: list[str]) -> list[Row]:
    """The measurements of a benchmark; a case that crashes another library is skipped."""
    rows: list[Row] = []
    for case in BENCHMARKS[name].cases(options.tiny):
        print(f"{name}: {case.label}", file=sys.stderr, flush=True)
        try:
            rows += measured(case, options.seconds)
        except LibraryError as error:
            print(error, file=sys.stderr, flush=True)
            failed.append(f"Left out, since a library failed: {name}, {case.label}.")
    if options.tiny:  # goals are for full sizes
        rows = [replace(row, goal=None, typical=None) for row in rows]
    return rows + typical(rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="about how long a case takes"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes: see whether it works")
    parser.add_argument(
        "--markdown", nargs="?", const="-", metavar="FILE", help="also as Markdown, to a file"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        help="also as a Markdown file and a picture for each, as soon as it is measured",
    )
    return parser


def _write(target: str, text: str) -> None:
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
