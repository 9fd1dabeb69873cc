"""What one of several processes saves, and what they tell each other of it."""

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
    check_alike,
    gather,
    process_count,
    process_index,
    said_processes,
)
from braces.scope import Scope
from braces.storage.parameters import stored_values
from braces.storage.sharded_checkpoint import Part, parts_here, path_of, write_parts

_LONGEST = 1000


@dataclass(frozen=True)
class Share:
    """What one of several processes saves.

    Attributes:
        step: The step.
        save: The number of this save, the same in all processes.
        process: Which process this is.
        shapes: The whole shapes of all variables.
        parts: What this process writes of them.
    """

    step: int
    save: str
    process: int
    shapes: Mapping[str, Sequence[int]]
    parts: Mapping[str, Sequence[Part]]

    @staticmethod
    def of(scope: Scope, step: int, *, copy: bool) -> Share:
        """What this process saves of a scope.

        Args:
            scope: The scope.
            step: The step.
            copy: Whether a next run comes before it is written.

        Raises:
            ClusterError: The processes save other steps, or scopes with other variables.
        """
        raws = stored_values(scope)
        shapes = {name: list(raw.shape) for name, raw in sorted(raws.items())}
        first = process_index() == 0
        parts = {name: parts_here(raw, first=first, copy=copy) for name, raw in raws.items()}
        digest = hashlib.sha256(json.dumps(shapes).encode()).hexdigest()[:16]
        said = f"step {step} of {len(shapes)} variables with hash {digest}"
        brought = gather("checkpoint to save", f"{said} {secrets.token_hex(8)}")
        check_alike(
            "checkpoint to save",
            {process: text.rpartition(" ")[0] for process, text in brought.items()},
            "Let every process save the same scope at the same step.",
        )
        save = brought[0].rpartition(" ")[2]
        return Share(step, save, process_index(), shapes, parts)

    def write(self, checkpoint: Path) -> dict[str, Any]:
        """Write this share, and wait for the others; what the checkpoint says of all.

        Raises:
            OSError: The folder is missing, full, or must not be written to.
            ClusterError: Another process could not write, or did not come.
        """
        path = path_of(checkpoint, self.save, self.process, process_count())
        with self.all_hear("parts") as said:
            said.append(write_parts(path, self.shapes, self.parts))
        return {"save": self.save, "sizes": said}

    @contextmanager
    def all_hear(self, what: str) -> Generator[list[int]]:
        """Wait for the others at the end of a block, whose errors all processes raise.

        Yields:
            A list; the numbers that blocks append to it are those of all processes then.
        """
        said: list[int] = []
        try:
            yield said
        except Exception as error:
            gather(f"{what} {self.save}", f"!{type(error).__name__}: {error}"[:_LONGEST])
            raise
        brought = gather(f"{what} {self.save}", " ".join(map(str, said)))
        failed = {process: text[1:] for process, text in brought.items() if text[:1] == "!"}
        if failed:
            raise ClusterError(
                f"{said_processes(list(failed))} could not write the checkpoint of step "
                f"{self.step}.",
                given=next(iter(failed.values())),
            )
        said[:] = [
            int(number) for _, text in sorted(brought.items()) for number in text.split()
        ]
