"""ONNX's own backend suite, all of it, and the table of what is not read.

python scripts/conformance.py                   run every case; write docs/conformance.md
python scripts/conformance.py --shard 0/4       a quarter of them; print what differs
python scripts/conformance.py --mode compile    compiled, and not operator by operator
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

import onnx
from onnx_cases import PAGE, cases, outcome, reason_of

HEAD = """# ONNX's backend suite

`make conformance` reads every case of the suite that comes with onnx {version}, runs it
operator by operator, compares with the values that the suite has, and writes this page.
`python scripts/conformance.py --mode compile` compiles each of them. Of models that draw random
numbers, dtypes and shapes are compared.

{passed:,} of {total:,} cases pass ({percent:.1f} %). These do not:

| cases | why | which |
|--:|---|---|
"""


def _run(named: tuple[str, str]) -> tuple[str, str | None]:
    name, mode = named
    return name, outcome(cases()[name], mode)


def results(chosen: Iterable[str], mode: str, workers: int) -> dict[str, str | None]:
    """What is wrong with each case, by name; `None` where nothing is."""
    with ProcessPoolExecutor(workers) as pool:
        return dict(pool.map(_run, ((name, mode) for name in chosen), chunksize=16))


def table(found: dict[str, str | None]) -> str:
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
    head = HEAD.format(
        version=onnx.__version__, passed=passed, total=total, percent=100 * passed / total
    )
    return head + "".join(rows)


def main() -> int:
    """Run what the arguments say."""
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
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(table(found), encoding="utf-8")
    for name, wrong in found.items():
        if wrong is not None:
            print(f"{name}: {reason_of(wrong)}")
    print(f"{sum(wrong is None for wrong in found.values())} of {len(found)} pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
