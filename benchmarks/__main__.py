"""`python -m benchmarks [NAMES]`: measure and print."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks import folder
from benchmarks.case import Row, measured, typical
from benchmarks.report import machine, markdown, print_table
from benchmarks.suite import BENCHMARKS, BY_NAME_ONLY, missing


def main(arguments: list[str] | None = None) -> int:
    """Measure the benchmarks that are named, or all of them."""
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
    for name in options.names or [name for name in BENCHMARKS if name not in BY_NAME_ONLY]:
        benchmark = BENCHMARKS[name]
        cases = benchmark.cases(options.tiny)
        rows = [row for case in cases for row in measured(case, options.seconds)]
        if options.tiny:  # goals are for full sizes
            rows = [replace(row, goal=None, typical=None) for row in rows]
        rows += typical(rows)
        print_table(f"{name}: {benchmark.TITLE}", rows)
        tables.append((name, rows))
        if options.report:
            folder.write(options.report, name, benchmark.TITLE, rows, about)
    if options.markdown:
        _write(options.markdown, markdown(tables, about))
    return 0


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
