"""The collectives of a training step: a table by models and layouts.

    JAX_NUM_CPU_DEVICES=8 python scripts/collectives.py [model ...]

The table has the number of each kind of collective in the code, and the bytes of their results
on one device; collectives in loops count once. `free` is the same without sharding constraints
by size names: only feeds, variables of the scope and updates have shardings.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from unittest.mock import patch

import numpy as np

import braces as br
from braces.lower.sharding.sharding import Placement
from tests.support.sharded_models import (
    COLLECTIVES,
    MODELS,
    batch,
    classifier,
    code_of,
    layouts,
    train,
)

SHAPE = re.compile(r"\b(pred|[a-z]+(\d+))\[([\d,]*)\]")
CALL = re.compile(rf"= (.*?) ({'|'.join(COLLECTIVES)})(?:-start)?\(")


def bytes_in(types: str) -> int:
    """The bytes of all arrays of a type in the text of XLA."""
    return sum(
        int(bits or 8) // 8 * math.prod(int(size) for size in sizes.split(",") if size)
        for _, bits, sizes in SHAPE.findall(types)
    )


def moved(text: str) -> dict[str, tuple[int, int]]:
    """The number and the bytes of each kind of collective."""
    found = dict[str, tuple[int, int]]()
    for types, name in CALL.findall(text):
        count, size = found.get(name, (0, 0))
        found[name] = count + 1, size + bytes_in(types)
    return found


def measured(model: str, kind: str, pinned: bool) -> str:
    """The collectives of a step of a model."""
    program, loss = classifier(model)
    exe = br.Executor(layout=layouts(program)[kind])
    pin = Placement.pinned if pinned else lambda _, __, value: value
    with patch.object(Placement, "pinned", pin):
        train(program, loss, exe, batch(program, np.random.default_rng(0)), steps=1)
    found = moved(code_of(exe, program).as_text())
    told = [f"{found[n][0]} {n}" for n in COLLECTIVES if n in found]
    total = sum(size for _, size in found.values())
    return f"{', '.join(told)}; {total / 2**10:,.1f} KiB"


def rows(models: list[str]) -> Iterator[str]:
    """The table, line by line."""
    yield "| model | layout | collectives, bytes | free |"
    yield "|---|---|---|---|"
    for model in models:
        for kind in ("data", "fsdp", "tensor", "both"):
            each = (measured(model, kind, pinned) for pinned in (True, False))
            yield f"| {model} | {kind} | {' | '.join(each)} |"


if __name__ == "__main__":
    for line in rows(sys.argv[1:] or [*MODELS]):
        print(line, flush=True)
