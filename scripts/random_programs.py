"""Many random programs, held against a plain NumPy reading of their text.

    python scripts/random_programs.py [--count 20000] [--seed 0]

Each program is run interpreted with two sets of feeds, and its values are compared with the
reading's. What else is checked is drawn by the seed:

    compiled    the same compiled
    gradient    gradients in both modes, differences of the reading, jvp
    interpreted gradients interpreted only, differences of the reading, jvp
    second      to second order, in both modes
    again       the gradient program saved, loaded, parsed and pruned, bit for bit

Where the reading exceeds the bound of a loop, or finds no case of a switch, both modes must
raise that error instead, and leave the scope as it was.

Prints a line every hundred programs, and each failure with its seed; exit status 1 if there was
one. XLA is told not to optimize: what is checked here is not XLA, and it compiles faster.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import time
import traceback
from pathlib import Path

from braces.lazy import jax

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "random_programs"))

SHARES = {"compiled": 0.05, "gradient": 0.05, "interpreted": 0.1, "second": 0.02, "again": 0.05}
QUICK = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
BOTH = ("interpret", "compile")


def check(seed: int, arguments: argparse.Namespace) -> str:
    """Check the program of a seed; what was checked."""
    from agree import check_gradients, check_values

    draw = random.Random(seed)
    size = draw.randint(1, arguments.size)
    (kind,) = draw.choices([*SHARES, "values"], [*SHARES.values(), 1 - sum(SHARES.values())])
    refused = check_values(seed, size, BOTH if kind == "compiled" else BOTH[:1])
    if kind in ("values", "compiled"):
        return f"{kind} refused" if refused else kind
    differed = check_gradients(
        seed,
        min(size, 2 if kind == "second" else 3),
        second=kind == "second",
        modes=BOTH if kind in ("gradient", "second") else BOTH[:1],
        again=kind == "again",
    )
    return kind if differed else f"{kind} near a jump"


def main() -> int:
    """Run; the number of failures decides the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--size", type=int, default=6, help="most statements of a main block")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    arguments = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", QUICK)
    done: dict[str, int] = {}
    start, failed = time.monotonic(), list[int]()
    for number, seed in enumerate(range(arguments.seed, arguments.seed + arguments.count), 1):
        try:
            kind = check(seed, arguments)
            done[kind] = done.get(kind, 0) + 1
        except Exception:
            failed.append(seed)
            print(f"seed {seed} failed:", *traceback.format_exc().splitlines()[-6:], sep="\n  ")
        seconds = time.monotonic() - start
        if number % 1000 == 0:
            jax.clear_caches()  # kernels of all shapes so far
        if number % 100 == 0 or seconds > arguments.seconds:
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            counts = ", ".join(f"{done[kind]} {kind}" for kind in sorted(done))
            print(f"{number} programs, {seconds:.0f} s, {megabytes} MB: {counts};",
                  f"{len(failed)} failed", flush=True)  # fmt: skip
        if seconds > arguments.seconds:
            break
    print("failed seeds:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
