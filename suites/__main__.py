"""`python -m suites NAME`: run a suite, go on with a run, or write its page."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from suites import page
from suites.case import Group, Verdict
from suites.runner import RESULTS, Record, chosen, records, run, verdict


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cases of a suite; the status is 1 if one differs or fails."""
    options = _parser().parse_args(arguments)
    module = f"suites.{options.suite.replace('-', '_')}"
    suite = importlib.import_module(module)
    groups = _selected(suite.GROUPS, options)
    path = Path(options.results) / f"{options.suite}.jsonl"
    known = records(path)
    cases = chosen(groups, known, options.again)
    print(f"{len(cases)} cases of {options.suite} to run; records in {path}", flush=True)
    run(module, groups, cases, path, options.workers, _show)
    everything = records(path)
    print(page.summary(list(groups), everything))
    if options.write:
        _write(options.suite, suite, everything)
    wrong = {Verdict.DIFFERS, Verdict.FAILED}
    here = {(group, case) for group, cases in groups.items() for case in cases.names()}
    return int(any(verdict(r) in wrong for case, r in everything.items() if case in here))


def _show(record: Record) -> None:
    kind = verdict(record)
    reasons = [f"{what}: {reason}" for what, _, reason in record["checks"] if reason]
    line = f"{kind:9} {record['seconds']:7.1f} s  {record['group']}  {record['name']}"
    print("\n           ".join([line, *reasons]), flush=True)


def _write(name: str, suite: object, found: Mapping[tuple[str, str], Record]) -> None:
    text = page.page(
        suite.TITLE,
        f"make suite-{name}",
        suite.PACKAGES,
        suite.GROUPS,
        found,  # type: ignore
    )
    page.write(page.FOLDER / f"{name}.md", text)
    page.write_index()


def _selected(groups: Mapping[str, Group], options: argparse.Namespace) -> dict[str, Group]:
    """The groups with the cases that the options choose."""
    unknown = set(options.group) - set(groups)
    if unknown:
        print(f"unknown group {min(unknown)!r}; expected {', '.join(groups)}", file=sys.stderr)
        raise SystemExit(2)
    at, count = map(int, options.shard.split("/"))

    def names(group: Group) -> list[str]:
        matching = [name for name in group.names() if options.match in name]
        return matching[at::count]

    return {
        name: replace(group, names=lambda group=group: names(group))
        for name, group in groups.items()
        if not options.group or name in options.group
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m suites", description=__doc__)
    add = parser.add_argument
    add("suite", choices=("jax", "torch", "onnx-files", "paddle"))
    add("--group", action="append", default=[], help="a group; may be repeated")
    add("--match", default="", help="only cases with this text in their names")
    add("--shard", default="0/1", metavar="I/N", help="every N-th case of a group, from case I")
    add("--workers", type=int, default=2, help="processes")
    add(
        "--again",
        choices=("missing", "failures", "all"),
        default="missing",
        help="the cases to run: those without a record (the default), also failures, or all",
    )
    add("--results", default=str(RESULTS), help="the folder of records")
    add("--write", action="store_true", help="write docs/tables/suites/SUITE.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
