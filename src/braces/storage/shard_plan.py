"""The shards that one of several processes saves, and the coordination of a save."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from braces.errors import ClusterError
from braces.runtime.devices.process_agreement import (
    check_equal_values,
    describe_processes,
    gather,
    process_count,
    process_index,
)
from braces.scope import Scope
from braces.storage.parameters import stored_values
from braces.storage.sharded_checkpoint import Shard, local_shards, shard_path, write_shards

_LONGEST = 1000


@dataclass(frozen=True)
class ShardPlan:
    """The shards that one of several processes saves.

    Attributes:
        step: The step.
        save: The id of this save, the same in all processes.
        process: The index of this process.
        shapes: The global shapes of all variables.
        parts: The shards that this process writes.
    """

    step: int
    save: str
    process: int
    shapes: Mapping[str, Sequence[int]]
    parts: Mapping[str, Sequence[Shard]]

    @staticmethod
    def of(scope: Scope, step: int, *, copy: bool) -> ShardPlan:
        """Return the shards of a scope that this process saves.

        Args:
            scope: The scope.
            step: The step.
            copy: Whether another run comes before it is written.

        Raises:
            ClusterError: If the processes save different steps, or scopes with different
                variables.
        """
        raws = stored_values(scope)
        shapes = {name: list(raw.shape) for name, raw in sorted(raws.items())}
        first = process_index() == 0
        parts = {name: local_shards(raw, first=first, copy=copy) for name, raw in raws.items()}
        digest = hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]
        summary = f"step {step} of {len(shapes)} variables with hash {digest}"
        summaries = gather("checkpoint to save", f"{summary} {secrets.token_hex(8)}")
        check_equal_values(
            "checkpoint to save",
            {process: text.rpartition(" ")[0] for process, text in summaries.items()},
            "Save the same scope at the same step in every process.",
        )
        save = summaries[0].rpartition(" ")[2]
        return ShardPlan(step, save, process_index(), shapes, parts)

    def write(self, checkpoint: Path) -> dict[str, Any]:
        """Write these shards, wait for the other processes, and return the record of all.

        Raises:
            OSError: If the folder is missing, full, or not writable.
            ClusterError: If another process cannot write, or is missing.
        """
        path = shard_path(checkpoint, self.save, self.process, process_count())
        with self.all_hear("parts") as sizes_:
            sizes_.append(write_shards(path, self.shapes, self.parts))
        return {"save": self.save, "sizes": sizes_}

    @contextmanager
    def all_hear(self, what: str) -> Generator[list[int]]:
        """Synchronize the processes at the end of a block; an error is raised in all of them.

        Yields:
            A list; numbers that the block appends are replaced by those of all processes.
        """
        numbers: list[int] = []
        try:
            yield numbers
        except Exception as error:
            gather(f"{what} {self.save}", f"!{type(error).__name__}: {error}"[:_LONGEST])
            raise
        reports = gather(f"{what} {self.save}", " ".join(map(str, numbers)))
        failures = {process: text[1:] for process, text in reports.items() if text[:1] == "!"}
        if failures:
            raise ClusterError(
                f"{describe_processes(list(failures))} failed to write the checkpoint of step "
                f"{self.step}.",
                given=next(iter(failures.values())),
            )
        numbers[:] = [
            int(number) for _, text in sorted(reports.items()) for number in text.split()
        ]
