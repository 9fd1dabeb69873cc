"""ONNX's backend test suite in full, and the table of failing cases.

python scripts/conformance.py                   run every case; write docs/tables/conformance.md
python scripts/conformance.py --shard 0/4       a quarter of them; print the differences
python scripts/conformance.py --mode compile    compiled instead of interpreted
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

import onnx

from onnx_cases import CONTROL, DECODING, PAGE, Kind, cases, outcome, reason_of

HEAD = """# ONNX conformance

Results of the backend test suite that comes with onnx {version}. `make conformance` imports
every case with `br.from_onnx`, runs it with the interpreter, compares the results with the
suite's, and writes this page. Cases of control flow, recurrent networks and sequences also
run compiled; `python scripts/conformance.py --mode compile` compiles all cases. For models
with random operators only dtypes and shapes are compared.

{passed:,} of {total:,} cases pass ({percent:.1f} %):

| subject | cases | interpreted | compiled |
|---|--:|--:|--:|
{measures}
A case belongs to a subject if its model has such an operator at any depth. All cases are
numeric except {texts} with strings and {pictures} that decode images. Programs have neither
strings nor image files; both are preprocessed before a model. The following cases do not pass:

| cases | reason | names |
|--:|---|---|
"""
Found = dict[str, "str | None"]
"""The failure of each case by name, or `None`."""


def _run(named: tuple[str, str]) -> tuple[str, str | None]:
    name, mode = named
    return name, outcome(cases()[name], mode)


def results(chosen: Iterable[str], mode: str, workers: int) -> Found:
    """The failure of each case by name, or `None`."""
    with ProcessPoolExecutor(workers) as pool:
        return dict(pool.map(_run, ((name, mode) for name in chosen), chunksize=16))


def controlled(kinds: Mapping[str, Kind]) -> dict[str, list[str]]:
    """The cases that are also run compiled, by subject."""
    return {
        what: [name for name, kind in kinds.items() if not kind.operators.isdisjoint(types)]
        for what, types in CONTROL.items()
    }


def measures(found: Found, compiled: Found, kinds: Mapping[str, Kind]) -> str:
    """The number of passing cases of each kind."""
    rows = [(what, names, compiled) for what, names in controlled(kinds).items()]
    rows.append(("all numeric cases", [n for n in found if kinds[n].numeric], None))
    rows.append(("all", list(found), None))
    return "".join(
        f"| {what} | {len(names):,} | {_share(names, found)} |"
        f" {_share(names, among) if among is not None else ''} |\n"
        for what, names, among in rows
    )


def _share(names: Sequence[str], found: Found) -> str:
    passed = sum(found[name] is None for name in names)
    return f"{passed:,} ({100 * passed / max(len(names), 1):.1f} %)"


def table(found: Found, compiled: Found, kinds: Mapping[str, Kind]) -> str:
    """The page."""
    grouped = defaultdict[str, list[str]](list)
    for name, wrong in found.items():
        if wrong is not None:
            grouped[reason_of(wrong)].append(name.removeprefix("test_"))
    failed = sum(map(len, grouped.values()))
    passed, total = len(found) - failed, len(found)
    rows = [
        f"| {len(names)} | {why} | {', '.join(f'`{name}`' for name in sorted(names))} |\n"
        for why, names in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    words = [kind for kind in kinds.values() if not kind.numeric]
    pictures = sum(DECODING in kind.operators for kind in words)
    head = HEAD.format(
        version=onnx.__version__,
        passed=passed,
        total=total,
        percent=100 * passed / total,
        measures=measures(found, compiled, kinds),
        texts=len(words) - pictures,
        pictures=pictures,
    )
    return head + "".join(rows)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--mode", default="interpret", choices=("interpret", "compile"))
    parser.add_argument("--match", default="", help="only cases with this in their name")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    first, step = map(int, given.shard.split("/"))
    chosen = sorted(name for name in cases() if given.match in name)[first::step]
    found = results(chosen, given.mode, given.workers)
    if (given.shard, given.match, given.mode) == ("0/1", "", "interpret"):
        kinds = {name: Kind.of(cases()[name]) for name in chosen}
        again = sorted({name for names in controlled(kinds).values() for name in names})
        compiled = results(again, "compile", given.workers)
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(table(found, compiled, kinds), encoding="utf-8")
    for name, wrong in found.items():
        if wrong is not None:
            print(f"{name}: {reason_of(wrong)}")
    print(f"{sum(wrong is None for wrong in found.values())} of {len(found)} pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
