"""Many random programs, held against a plain NumPy reading of their text.

    python scripts/random_programs.py [--count 20000] [--seed 0]

Each program is run interpreted, and its value compared with the reading's. A share is also
differentiated in both modes and held against differences of the reading and forward mode;
another share to second order. Prints a line every hundred programs, and each failure with its
seed; exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "random_programs"))


def check(seed: int, arguments: argparse.Namespace) -> str:
    """Check the program of a seed; what was checked."""
    from agree import check_gradients, check_values

    draw = random.Random(seed)
    size, share = draw.randint(1, arguments.size), draw.random()
    check_values(seed, size)
    if share < arguments.second:
        check_gradients(seed, min(size, 2), second=True, compiled=False)
        return "second"
    if share < arguments.second + arguments.gradients:
        return "gradient" if check_gradients(seed, min(size, 3)) else "jump"
    return "value"


def main() -> int:
    """Run; the number of failures decides the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--size", type=int, default=6, help="most statements of a main block")
    parser.add_argument("--gradients", type=float, default=0.02, help="share, both modes")
    parser.add_argument("--second", type=float, default=0.01, help="share, second order")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    arguments = parser.parse_args()
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
        if number % 100 == 0 or seconds > arguments.seconds:
            print(
                f"{number} programs, {seconds:.0f} s, {done}, {len(failed)} failed", flush=True
            )
        if seconds > arguments.seconds:
            break
    print("failed seeds:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
