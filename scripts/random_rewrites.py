"""Many random programs, rewritten by random rules and changed by random edits.

    python scripts/random_rewrites.py [--count 5000] [--seed 0] [--only KIND]

Each seed gives four programs:

    rules         rules that leave values as they are; the rewritten program, read back from
                  its text, is compared with a plain NumPy interpretation of the original's text
    steps         rules for a training step, also such that change values; compared with the
                  forward program that was rewritten first and differentiated then
    edits         edits that leave values as they are, also in transactions; compared as `rules`
    edited steps  the same edits of a training step; compared with the original step

Prints a line every hundred seeds, and each failure with its seed; exit status 1 if there was
one.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

KINDS = ("rules", "steps", "edits", "edited steps")


def checks() -> dict[str, Callable[[int], int]]:
    """Return the checks by name; each returns a number of matches or edits."""
    from tests.random_programs.surgery.edits import check_edited, check_edited_step
    from tests.random_programs.surgery.rewrites import check_rewritten
    from tests.random_programs.surgery.steps import check_step

    return {
        "rules": check_rewritten,
        "steps": check_step,
        "edits": lambda seed: check_edited(seed).total(),
        "edited steps": lambda seed: check_edited_step(seed).total(),
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=KINDS, help="one kind of programs")
    arguments = parser.parse_args()
    kinds = {kind: f for kind, f in checks().items() if arguments.only in (None, kind)}
    failed, counts, start = list[tuple[str, int]](), Counter[str](), time.monotonic()
    for number in range(1, arguments.count + 1):
        seed = arguments.seed + number - 1
        for kind, check in kinds.items():
            try:
                with np.errstate(all="ignore"):
                    counts[kind] += check(seed)
            except Exception:
                failed.append((kind, seed))
                lines = traceback.format_exc().splitlines()[-6:]
                print(f"{kind}, seed {seed} failed:", *lines, sep="\n  ")
        if number % 100 == 0 or number == arguments.count:
            numbers = ", ".join(f"{kind}: {count}" for kind, count in counts.items())
            seconds = time.monotonic() - start
            print(
                f"{number} seeds, matches and edits of {numbers}, {seconds:.0f} s", flush=True
            )
    print("failed:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
