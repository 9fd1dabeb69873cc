"""Check that memory stays flat over many runs with changing batch sizes and trip counts.

    python scripts/soak.py [--runs 1000000] [--seed 0] [--mode compile] [--share 10]

One process runs a training step on changing batches, a loop of changing trips with its
gradient, and a loop that collects rows, with random sizes for each run. The resident memory
is printed after each share of the runs, and at the end its growth after the first
shares, in which executables are compiled and caches fill.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import braces as br

BATCHES, TRIPS, LONG = 24, 48, 3000
SETTLED = 0.3
"""The part of the runs after which memory is expected to be flat."""


def resident_mib() -> float:
    """The resident memory of this process."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in text.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def _training(exe: br.Executor) -> Callable[[np.random.Generator], Any]:
    with br.Program() as prog:
        x, y = br.data("x", ["b", 4]), br.data("y", ["b", 1])
        loss = br.mean(br.square(br.fc(x, 1) - y))
        br.optimizer.sgd(0.01).minimize(loss)
    scope = br.Scope()
    exe.init(prog, scope)

    def run(rng: np.random.Generator) -> Any:
        b = int(rng.integers(1, BATCHES + 1))
        feed = {"x": np.ones((b, 4), "float32"), "y": np.ones((b, 1), "float32")}
        return exe.run(prog, scope, feed=feed, fetch=loss)

    return run


def _loop(exe: br.Executor, rows: bool) -> Callable[[np.random.Generator], Any]:
    with br.Program() as prog:
        n, x = br.data("n", [], dtype="int32"), br.data("x", [3])
        loop = br.create_while()
        with loop.block() as body:
            i = body.add_memory(init=br.constant(0, dtype="int32"))
            s = body.add_memory(init=x)
            body.set_condition(i < n)
            s.update(br.tanh(s * 1.01))
            i.update(i + 1)
            if rows:
                body.add_output(s.pre(1))
        out = br.sum(loop(), axis=0) if rows else loop.final(s)
        fetch = [loop() if rows else out, *br.gradients([out], [x])]
    scope = br.Scope()

    def run(rng: np.random.Generator) -> Any:
        long = exe.mode == "compile" and rng.random() < 0.001
        trips = int(rng.integers(0, LONG if long else TRIPS if exe.mode == "compile" else 4))
        feed = {"n": np.int32(trips), "x": np.full(3, 0.5, "float32")}
        return exe.run(prog, scope, feed=feed, fetch=fetch)

    return run


def soak(runs: int, seed: int, mode: str, shares: int) -> list[float]:
    """The resident memory in MiB after each share of the runs."""
    exe, rng = br.Executor(mode), np.random.default_rng(seed)
    kinds = [_training(exe), _loop(exe, rows=False), _loop(exe, rows=True)]
    found, start = list[float](), time.perf_counter()
    for share in range(shares):
        for i in range(share * runs // shares, (share + 1) * runs // shares):
            kinds[i % len(kinds)](rng)
        gc.collect()
        found.append(resident_mib())
        done, seconds = (share + 1) * runs // shares, time.perf_counter() - start
        print(f"{done:>9} runs  {seconds:7.1f} s  {found[-1]:8.1f} MiB", flush=True)
    return found


def growth(found: list[float]) -> float:
    """The growth of memory after the first shares, in MiB."""
    return found[-1] - found[int(SETTLED * len(found))]


def main(arguments: list[str]) -> int:
    """Run, and print the growth of memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=["compile", "interpret"], default="compile")
    parser.add_argument("--share", type=int, default=10, help="how often memory is looked at")
    parser.add_argument("--most", type=float, default=16.0, help="growth in MiB that fails")
    given = parser.parse_args(arguments)
    grown = growth(soak(given.runs, given.seed, given.mode, given.share))
    print(f"seed {given.seed}: {grown:+.1f} MiB after {SETTLED:.0%} of {given.runs} runs")
    return int(grown > given.most)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
