"""Many random programs, compared with a plain NumPy interpretation of their text.

    python scripts/random_programs.py [--count 20000] [--seed 0] [--jobs 2]

Each program runs interpreted with two sets of feeds, and its values are compared with the
interpretation. The seed selects a further check:

    compiled    the same compiled
    gradient    gradients in both modes, finite differences, jvp
    interpreted interpreted gradients, finite differences, jvp along directions
                from feeds, and along some that depend on the result
    second      to second order, in both modes
    again       the gradient program after save, load, parse and prune, bit for bit
    laid out    values and derivatives on several devices, compared with one

If the interpretation exceeds the bound of a loop, or finds no case of a switch, both modes must
raise that error instead, and leave the scope unchanged.

Prints a line every hundred programs, and each failure with its seed; exit status 1 if there was
one. XLA's optimization is off, because these checks do not concern XLA, and for speed. The
processes share compiled code in a folder, which JAX_COMPILATION_CACHE_DIR may name.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from functools import partial
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SHARES = {"compiled": 0.05, "gradient": 0.05, "interpreted": 0.1, "second": 0.02, "again": 0.05,
          "laid out": 0.02}  # fmt: skip
QUICK = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_force_host_platform_device_count=4"
)
BOTH = ("interpret", "compile")
CACHE = "JAX_COMPILATION_CACHE_DIR"


def check(seed: int, most: int) -> str:
    """Check the program of a seed; return the name of the check."""
    from tests.random_programs.agree import check_gradients, check_laid_out, check_values

    draw = random.Random(seed)
    size = draw.randint(1, most)
    (kind,) = draw.choices([*SHARES, "values"], [*SHARES.values(), 1 - sum(SHARES.values())])
    if kind == "laid out":
        return f"{kind} refused" if check_laid_out(seed, min(size, 4)) else kind
    refused = check_values(seed, size, BOTH if kind == "compiled" else BOTH[:1])
    if kind in ("values", "compiled"):
        return f"{kind} refused" if refused else kind
    differed = check_gradients(
        seed,
        min(size, 2 if kind == "second" else 3),
        second=kind == "second",
        modes=BOTH if kind in ("gradient", "second") else BOTH[:1],
        again=kind == "again",
        own=kind == "interpreted",
    )
    return kind if differed else f"{kind} near a jump"


def checked(seed: int, size: int) -> tuple[int, str, list[str]]:
    """A seed, the name of the check, and the end of the traceback of a failure."""
    try:
        return seed, check(seed, size), []
    except Exception:
        return seed, "failed", traceback.format_exc().splitlines()[-6:]


def main() -> int:
    """Run the command line."""
    arguments = _parser().parse_args()
    os.environ.setdefault("XLA_FLAGS", QUICK)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault(CACHE, folder)
        return check_all(arguments)


def check_all(arguments: argparse.Namespace) -> int:
    """Check each seed in some process; the number of failures decides the exit status."""
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    done, failed, start = Counter[str](), list[int](), time.monotonic()
    # New processes now and then: each keeps the kernels of all shapes that it has met.
    with get_context("spawn").Pool(arguments.jobs, maxtasksperchild=100) as pool:
        found = pool.imap_unordered(partial(checked, size=arguments.size), seeds, chunksize=10)
        for number, (seed, kind, trace) in enumerate(found, 1):
            done[kind] += 1
            if trace:
                failed.append(seed)
                print(f"seed {seed} failed:", *trace, sep="\n  ", flush=True)
            seconds = time.monotonic() - start
            if number % 100 == 0 or seconds > arguments.seconds:
                counts = ", ".join(f"{done[kind]} {kind}" for kind in sorted(done))
                print(f"{number} programs, {seconds:.0f} s: {counts}", flush=True)
            if seconds > arguments.seconds:
                break
    print("failed seeds:", failed or "none")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--size", type=int, default=6, help="most statements of a main block")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    return parser


if __name__ == "__main__":
    sys.exit(main())
