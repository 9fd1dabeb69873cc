"""The page of a suite: a table of its groups, and its failures with reasons."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from itertools import takewhile
from pathlib import Path

from suites.case import Group, Verdict
from suites.runner import ROOT, Case, Record, verdict

FOLDER = ROOT / "docs" / "tables" / "suites"
NAMES_SHOWN = 6
RUN = "Last run:"


def page(
    title: str,
    command: str,
    packages: Iterable[str],
    groups: Mapping[str, Group],
    found: Mapping[Case, Record],
) -> str:
    """The text of the page."""
    return "\n".join(
        [
            f"# {title}",
            "",
            f"`{command}` runs these cases and writes this page. {_versions(packages)}",
            "A case is equal if all its checks are: the values interpreted and compiled, "
            "gradients where the original has them, and the values after saving and loading. "
            "A refused case raises a `BracesError` with a reason. Excluded cases fail in the "
            "original library, or cannot be exported from it.",
            "",
            *_table(groups, found),
            "",
            *_failures(groups, found),
        ]
    )


def _versions(packages: Iterable[str]) -> str:
    texts = []
    for name in packages:
        try:
            texts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{RUN} {date.today().isoformat()}, with {', '.join(texts)}."


def _table(groups: Mapping[str, Group], found: Mapping[Case, Record]) -> list[str]:
    kinds = (Verdict.REFUSED, Verdict.DIFFERS, Verdict.FAILED, Verdict.TIMEOUT)
    lines = [
        f"| group | cases | equal | share | goal | {' | '.join(kinds)} | excluded | not run |",
        f"|---|--:|--:|--:|--:|{'--:|' * len(kinds)}--:|--:|",
    ]
    for name, group in groups.items():
        count = Counter(verdict(record) for (of, _), record in found.items() if of == name)
        total = count.total() - count[Verdict.EXCLUDED]
        share = f"{100 * count[Verdict.EQUAL] / total:.1f} %" if total else "–"
        others = " | ".join(str(count[kind]) for kind in kinds)
        missing = sum((name, case) not in found for case in group.names())
        lines.append(
            f"| {name} | {total} | {count[Verdict.EQUAL]} | {share} | {100 * group.goal:g} % "
            f"| {others} | {count[Verdict.EXCLUDED]} | {missing} |"
        )
    lines += [f"\n{name}: {group.needs}" for name, group in groups.items() if group.needs]
    return lines


def _failures(groups: Mapping[str, Group], found: Mapping[Case, Record]) -> list[str]:
    lines = []
    for group in groups:
        reasons = _reasons(record for (of, _), record in found.items() if of == group)
        if reasons:
            lines += [
                f"## {group}",
                "",
                "| verdict | checks | reason | cases |",
                "|---|---|---|---|",
            ]
            lines += [_row(kind, reason, cases) for (kind, reason), cases in reasons]
            lines.append("")
    return lines


Cases = dict[str, list[str]]


def _reasons(chosen: Iterable[Record]) -> list[tuple[tuple[str, str], Cases]]:
    """The checks that are not equal by verdict and reason, the most frequent first."""
    found: defaultdict[tuple[str, str], Cases] = defaultdict(dict)
    for record in chosen:
        for what, kind, reason in record["checks"]:
            if kind not in (Verdict.EQUAL, Verdict.EXCLUDED):
                found[kind, reason].setdefault(record["name"], []).append(what)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _row(kind: str, reason: str, cases: Cases) -> str:
    names = [f"`{name}`" for name in cases]
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    checks = list(dict.fromkeys(what for found in cases.values() for what in found))
    text = reason.replace("|", "\\|").replace("<", "&lt;")
    shown = ", ".join(names[:NAMES_SHOWN]) + more
    return f"| {kind} | {', '.join(checks)} | {text} | {shown} |"


def write(path: Path, text: str) -> None:
    """Write a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip() + "\n", "utf-8")


INDEX = "index.md"
INDEX_HEAD = """# Suites of other projects

`make suite-jax`, `make suite-torch`, `make suite-onnx-files` and `make suite-paddle` import
test suites and models of other projects into Braces and compare the results with the originals.
Each command writes a page with the reasons of all failures, and this summary.
"""


def index(pages: Mapping[str, str]) -> str:
    """The summary of the pages of suites, by file name."""
    parts = (_part(name, text.splitlines()) for name, text in sorted(pages.items()))
    return "\n".join([INDEX_HEAD, *parts])


def _part(name: str, lines: Sequence[str]) -> str:
    """The title, versions and table of a page."""
    head = takewhile(lambda line: not line.startswith("## "), lines)
    table = [line for line in head if line.startswith("|")]
    versions = next(line[line.index(RUN) :] for line in lines if RUN in line)
    return "\n".join([f"## [{lines[0][2:]}]({name})", "", versions, "", *table, ""])


def write_index(folder: Path = FOLDER) -> None:
    """Write the summary of the pages in a folder."""
    paths = (path for path in folder.glob("*.md") if path.name != INDEX)
    write(folder / INDEX, index({path.name: path.read_text("utf-8") for path in paths}))


def summary(groups: Sequence[str], found: Mapping[Case, Record]) -> str:
    """One line for each group, for the terminal."""
    lines = []
    for group in groups:
        count = Counter(verdict(record) for (of, _), record in found.items() if of == group)
        if count:
            lines.append(
                f"{group}: " + ", ".join(f"{n} {kind}" for kind, n in sorted(count.items()))
            )
    return "\n".join(lines)
