"""The cost of `br.fit` beside the bare loop with the same fetches, for steps of several sizes.

python -m benchmarks.fit            rounds alternate; medians of the time of a step
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import braces as br

ROWS, BATCH, FEATURES = 6400, 64, 64
WIDTHS = (64, 256, 512, 1024)


def build(width: int) -> tuple[br.Program, dict[str, Any], br.Batches]:
    """Return a classifier of three layers, its metrics and its data."""
    with br.Program() as prog:
        x, y = br.data("x", ["n", FEATURES]), br.data("y", ["n"], dtype="int32")
        hidden = br.fc(br.fc(x, width, act="relu"), width, act="relu")
        logits = br.fc(hidden, 10)
        br.optimizer.adam(1e-3).minimize(br.mean(br.softmax_cross_entropy(logits, y)))
        metrics = {"accuracy": br.metrics.accuracy(logits, y)}
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    ys = rng.integers(0, 10, ROWS).astype(np.int32)
    return prog, metrics, br.batches({"x": xs, "y": ys}, BATCH)


def sides(width: int, epochs: int, folder: str) -> dict[str, Callable[[], float]]:
    """Return functions that run some epochs, and return the seconds of a step."""
    prog, metrics, data = build(width)
    exe = br.Executor()
    steps = epochs * ROWS // BATCH
    fetch = [*prog.fetches, metrics["accuracy"].value]
    scope = exe.init(prog)

    def bare() -> float:
        start = perf_counter()
        for epoch in range(epochs):
            total = 0.0
            for batch in data.epoch(epoch):
                loss, _ = exe.run(prog, scope, batch, fetch)
                total += float(loss)
            metrics["accuracy"].reset(scope)
        return (perf_counter() - start) / steps

    def fitted(**options: Any) -> float:
        start = perf_counter()
        br.fit(prog, data, epochs=epochs, metrics=metrics, exe=exe, scope=scope, **options)
        return (perf_counter() - start) / steps

    return {
        "bare": bare,
        "fit": lambda: fitted(quiet=True),
        "fit, no thread": lambda: fitted(quiet=True, ahead=0),
        "fit, bar": lambda: fitted(),
        "fit, folder": lambda: fitted(quiet=True, folder=folder, fresh=True),
    }


def measure(width: int, rounds: int, epochs: int) -> dict[str, float]:
    """Return the median time of a step of each side, in alternating rounds."""
    with tempfile.TemporaryDirectory() as folder:
        runs = sides(width, epochs, folder)
        times: dict[str, list[float]] = {name: [] for name in runs}
        for i in range(rounds + 1):
            for name, run in runs.items():
                seconds = run()
                if i:  # the first round compiles
                    times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print a table: milliseconds of a bare step, and the ratio of each side to it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    given = parser.parse_args()
    for width in given.widths:
        medians = measure(width, given.rounds, given.epochs)
        bare = medians.pop("bare")
        ratios = "  ".join(f"{name} {time / bare:.3f}" for name, time in medians.items())
        print(f"width {width}: bare {1e3 * bare:.3f} ms  {ratios}", file=sys.stdout, flush=True)


if __name__ == "__main__":
    main()
