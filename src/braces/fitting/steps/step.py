"""A step of a training, and the options of the training."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from braces.errors import ProgramError
from braces.fitting.steps.data_sets import Mark
from braces.storage.checkpoint_arguments import optional_count


class TrainingStep:
    """A step of a training, after its run.

    Attributes:
        number: The number of the step over all epochs, from 1.
        epoch: The number of its epoch, from 1.
        in_epoch: The number of the step in its epoch, from 1.
        last: Whether the step is the last of its epoch.
    """

    __slots__ = ("_results", "_shape_up", "epoch", "in_epoch", "last", "number")

    def __init__(
        self, number: int, mark: Mark, results: list[Any], shape_up: Callable[[list[Any]], Any]
    ) -> None:
        self.number = number
        self.epoch = mark.epoch + 1
        self.in_epoch = mark.batch + 1
        self.last = mark.last
        self._results, self._shape_up = results, shape_up

    @property
    def values(self) -> Any:
        """The fetches of the step: an array, a list or a dict, as `exe.run` returns them."""
        return self._shape_up(self._results)

    @property
    def results(self) -> list[Any]:
        """The fetches as a list, in their order."""
        return self._results

    def __repr__(self) -> str:
        last = ", last" if self.last else ""
        return f"<step {self.number}: epoch {self.epoch}, step {self.in_epoch}{last}>"


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of a training; see `training`."""

    epochs: int = 1
    folder: str | os.PathLike[str] | None = None
    save_every: int | None = None
    keep: int | None = 3
    seed: int = 0
    fresh: bool = False
    steps: int | None = None
    ahead: int = 2
    check_nan: bool = False
    check_inf: bool = False
    pad_to: Mapping[str, int] | None = None

    @property
    def checks(self) -> dict[str, Any]:
        """The checks of values, as arguments of `Executor.run`."""
        return {"check_nan": self.check_nan, "check_inf": self.check_inf}

    def __post_init__(self) -> None:
        for name in ("epochs", "save_every", "steps"):
            optional_count(getattr(self, name), name)
        if self.epochs is None or type(self.ahead) is not int or self.ahead < 0:  # pyright: ignore[reportUnnecessaryComparison]
            raise ProgramError(
                f"invalid epochs={self.epochs!r:.40} or ahead={self.ahead!r:.40}.",
                fix="Use epochs of at least 1, and ahead of at least 0.",
            )
        if self.folder is None and self.save_every is not None:
            raise ProgramError(
                "`save_every` is set without a folder.", fix='Pass folder="job" as well.'
            )
