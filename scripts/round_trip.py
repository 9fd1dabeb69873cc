"""The programs of the battery with their gradients, through ONNX and back, and their page.

python scripts/round_trip.py                 all of them; write docs/tables/round_trip.md
python scripts/round_trip.py --match while   only those with this word in their names
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime

import braces as br

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from braces.testing.gradients import build_derivatives, feed_with_directions  # noqa: E402 - as above
from tests.control.battery.programs import CASES  # noqa: E402 - the path comes first
from tests.support.onnx_round_trip import block_names, run_model  # noqa: E402 - as above

PAGE = ROOT / "docs/tables/round_trip.md"
HEAD = """# ONNX round trip

`make roundtrip` writes this page. It exports each program of the battery, with its gradients
and tangents, as an ONNX model, which must pass ONNX's checker with `full_check`. The model
runs in ONNX Runtime {runtime}. Then `br.from_onnx` imports it, and the result runs
interpreted and compiled. The battery (`tests/control/battery/`) has loops, branches,
row-wise branches, recurrent steps and plain blocks, nested in one another.

{passed} of {total} programs give the same values. The last three columns are the largest
difference to the original program, relative to the largest number of a result, or absolute if
that number is below 1. All values are float64.

The column `blocks` has the number of plain blocks of the program, of functions of the model,
and of plain blocks after the import. A plain block becomes a function, and each call of the
function becomes a plain block with the name of the call. Blocks with the same operators share
a function. A block in the condition of a `While` is also called before the loop, so it is
imported twice.

| program | nodes | blocks | ONNX Runtime | imported, interpreted | compiled |
|---|--:|---|--:|--:|--:|
"""
SAME = 1e-9
"""What differs less is the same value, computed in another order."""


class Trip(NamedTuple):
    """The results of one program.

    Attributes:
        nodes: The number of nodes of the model, including nested graphs and functions.
        blocks: The numbers of plain blocks of the program, of functions of the model, and of
            plain blocks after import.
        apart: The differences of results: in ONNX Runtime, and imported again, in both modes.
    """

    nodes: int
    blocks: tuple[int, int, int]
    apart: tuple[float, ...]

    @property
    def same(self) -> bool:
        """Return whether all values are equal."""
        return max(self.apart) <= SAME


def apart(wanted: Iterable[Any], found: Iterable[Any]) -> float:
    """The largest difference of results."""
    most = 0.0
    for want, got in zip(wanted, found, strict=True):
        if (want.shape, want.dtype) != (got.shape, got.dtype):
            return float("inf")
        if want.size:
            scale = max(1.0, float(np.abs(want).max()))
            most = max(most, float(np.abs(want - got).max()) / scale)
    return most


def nodes_of(graph: Any) -> int:
    """The number of nodes of a graph, including nested graphs."""
    inner = (attribute.g for node in graph.node for attribute in node.attribute)
    return len(graph.node) + sum(map(nodes_of, inner))


def travel(name: str) -> tuple[str, Trip]:
    """Export one program of the battery to ONNX and import it again."""
    case = CASES[name]
    made = build_derivatives(case.build, case.feeds[0], case.shapes, order=1)
    feeds = [feed_with_directions(made, feed) for feed in case.feeds]
    fetch = list({var.name: var for var in made.fetches.values()}.values())
    interpreter = br.Executor(mode="interpret")
    wanted = [interpreter.run(made.program, br.Scope(), feed=f, fetch=fetch) for f in feeds]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        br.to_onnx(made.program, path, fetches=fetch, updates=True)
        elsewhere = [list(run_model(path, feed).values()) for feed in feeds]
        again, values = br.from_onnx(path)
        model = onnx.load(path)
    back = [_ran(again, values, feeds, executor) for executor in (interpreter, br.Executor())]
    count = sum(map(nodes_of, (model.graph, *model.functions)))
    before, after = (len(block_names(p)) for p in (br.prune(made.program, fetch), again))
    blocks = before, len(model.functions), after
    return name, Trip(
        count, blocks, tuple(_most(wanted, found) for found in (elsewhere, *back))
    )


def _ran(
    program: br.Program,
    values: Mapping[str, Any],
    feeds: Sequence[Mapping[str, Any]],
    executor: br.Executor,
) -> list[Any]:
    scope = br.Scope()
    scope.update(values)
    return [
        executor.run(
            program,
            scope,
            feed={name: feed[name] for name in program.feeds},
            fetch=list(program.fetches),
        )
        for feed in feeds
    ]


def _most(wanted: Sequence[Any], found: Sequence[Any]) -> float:
    return max(apart(*pair) for pair in zip(wanted, found, strict=True))


def table(found: Mapping[str, Trip]) -> str:
    """The page."""
    rows = [
        f"| `{name}` | {trip.nodes} | {', '.join(map(str, trip.blocks))} | "
        f"{' | '.join(f'{x:.0e}' for x in trip.apart)} |\n"
        for name, trip in found.items()
    ]
    head = HEAD.format(
        runtime=onnxruntime.__version__,
        passed=sum(trip.same for trip in found.values()),
        total=len(found),
    )
    return head + "".join(rows)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="only programs with this in their name")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    chosen = [name for name in CASES if given.match in name]
    with ProcessPoolExecutor(given.workers) as pool:
        found = dict(pool.map(travel, chosen))
    if not given.match:
        PAGE.write_text(table(found), encoding="utf-8")
    for name, trip in found.items():
        if given.match or not trip.same:
            print(f"{name}: {', '.join(f'{x:.0e}' for x in trip.apart)}")
    print(f"{sum(trip.same for trip in found.values())} of {len(found)} come back the same")
    return 0 if all(trip.same for trip in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
