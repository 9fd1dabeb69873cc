"""Many random programs, rewritten by random rules that leave values as they are.

    python scripts/random_rewrites.py [--count 5000] [--seed 0]

The values of each rewritten program, read back from its text, are compared with a plain NumPy
interpretation of the text of the original. Prints a line every hundred programs, and each
failure with its seed; exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> int:
    """Run the command line."""
    from tests.random_programs.rewrites import check_rewritten

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    failed, matches, start = list[int](), 0, time.monotonic()
    for number in range(1, arguments.count + 1):
        seed = arguments.seed + number - 1
        try:
            with np.errstate(all="ignore"):
                matches += check_rewritten(seed)
        except Exception:
            failed.append(seed)
            print(f"seed {seed} failed:", *traceback.format_exc().splitlines()[-6:], sep="\n  ")
        if number % 100 == 0 or number == arguments.count:
            seconds = time.monotonic() - start
            print(f"{number} programs, {matches} matches, {seconds:.0f} s", flush=True)
    print("failed seeds:", failed or "none")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
