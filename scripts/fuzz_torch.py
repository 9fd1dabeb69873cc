"""Damage exported programs of PyTorch, and import them: each is refused, or becomes a program.

    python scripts/fuzz_torch.py --count 50000 --seed 0      (needs torch)

The programs are small and have many kinds of nodes. PyTorch takes half a second to decompose
one, and refuses most damage itself. So one case in twenty damages an export, and the others
damage a decomposed one, which the reader of Braces gets directly.

An exception other than `BracesError` is a finding, and so is a case that runs long.
`--first N --count 1` repeats a case. The exit status is 1 if there are findings, else 0.
"""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from functools import partial
from random import Random
from typing import Any

import braces as br
import fuzz_files as f
import torch_mutations as m
from braces.exchange.torch.decompose import decompose
from braces.exchange.torch.importer import read_decomposed

READERS: Mapping[str, Callable[[Any], tuple[br.Program, Any]]] = {
    "export": br.from_torch,
    "graph": read_decomposed,
}
"""By kind of case: the function that reads a damaged export."""


def load(kind: str, exported: object) -> None:
    """Import a damaged program; check the result if it is imported."""
    with redirect_stderr(io.StringIO()):  # where PyTorch writes the code of a graph that fails
        program = READERS[kind](exported)[0]
    br.verify(program, all=True)
    text = str(program)
    assert str(br.Program.from_bytes(program.to_bytes())) == text


def run_case(number: int, seed: int, limit_s: float, outcome: f.Outcome) -> None:
    """Damage one program and import it."""
    rng = Random(f"{seed}/{number}")
    kind = "graph" if rng.random() < 0.95 else "export"
    damaged, how = m.mutated(rng, rng.choice(SEEDS[kind]))
    f.observe(number, kind, how, partial(load, kind, damaged), limit_s, outcome)


def fuzz(first: int, count: int, seed: int, limit_s: float) -> f.Outcome:
    """Run cases."""
    outcome = f.Outcome()
    f.stop_late_cases()
    for number in range(first, first + count):
        run_case(number, seed, limit_s, outcome)
        if number % 1_000 == 999:
            f.tell(outcome, number + 1)
    return outcome


warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)  # PyTorch logs the graphs that it cannot decompose
EXPORTS = m.programs()
SEEDS = {"export": EXPORTS, "graph": [decompose(exported) for exported in EXPORTS]}
"""Valid programs by kind of case."""


def main() -> int:
    """Run the command line."""
    options = f.command_line(__doc__, count=500, limit_s=30.0).parse_args()
    outcome = fuzz(options.first, options.count, options.seed, options.limit)
    return f.report(outcome, options.first + options.count)


if __name__ == "__main__":
    sys.exit(main())
