"""A model as users hold it: programs and their variables, ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, final

from braces.errors import UnknownNameError, suggest
from braces.hints import Hinted
from braces.program import Program
from braces.runtime.executor import Executor
from braces.scope import Scope

PREDICT, TRAIN, STARTUP = "predict", "train", "startup"
SEED, TIMEOUT = "seed", "timeout_s"


@dataclass(frozen=True)
class NamedProgram:
    """A program of a model, and how it is called.

    Attributes:
        program: The program.
        feeds: What it is fed, in the order that the writer chose.
        fetches: What it gives: a name, and the variable that has it.
        as_dict: Whether a run gives a dict even of one fetch: the writer gave them as a dict.
    """

    program: Program
    feeds: tuple[str, ...]
    fetches: Mapping[str, str]
    as_dict: bool = False

    def signature(self) -> dict[str, Any]:
        """How it is called, as the file's record has it."""
        marked = {"dict": True} if self.as_dict else {}
        return {"feeds": list(self.feeds), "fetches": dict(self.fetches), **marked}


@final
class Model(Hinted):
    """Programs and their parameters, ready to run.

    Attributes:
        scope: The variables; training changes them.
        executor: What runs the programs.
        programs: The programs by name: `predict`, and where there is one, `train` with its
            `startup`.
    """

    def __init__(
        self, entries: Mapping[str, NamedProgram], scope: Scope, executor: Executor
    ) -> None:
        self.scope = scope
        self.executor = executor
        self.programs = {name: entry.program for name, entry in entries.items()}
        self._entries = dict(entries)
        self._moving = Lock()
        if TRAIN in entries:
            self.programs[STARTUP] = entries[TRAIN].program.startup

    @property
    def feeds(self) -> tuple[str, ...]:
        """What `run` is fed, by name."""
        return self.entry(PREDICT).feeds

    @property
    def fetches(self) -> tuple[str, ...]:
        """What `run` gives, by name."""
        return tuple(self.entry(PREDICT).fetches)

    def program(self, name: str = PREDICT) -> Program:
        """The program of this name.

        Raises:
            UnknownNameError: There is none.
        """
        if name not in self.programs:
            raise UnknownNameError(
                f"The model has no program `{name}`.", fix=suggest(name, self.programs)
            )
        return self.programs[name]

    def run(
        self,
        feed: Mapping[str, Any] | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        /,
        **feeds: Any,
    ) -> Any:
        """Predict: `model.run(x=xs)`.

        A model that draws random numbers draws anew in each run. With a seed,
        `model.run(x=xs, seed=7)`, it draws what that seed gives, whatever ran before.

        Args:
            feed: Feeds by name, for names that are no Python words.
            seed: As `seed=`, for models with a feed of that name: `model.run({"seed": s}, 7)`.
            timeout_s: How long the run may take, as in `Executor.run`; written
                `model.run(x=xs, timeout_s=10.0)`, or third where a feed has that name.
            feeds: Feeds by name.

        Returns:
            A dict of arrays by name; an array where there is one fetch that was not saved in a
            dict.

        Raises:
            FeedError: A feed is missing, unknown, or of another type.
            ProgramError: The seed is not an integer of 32 bits, or `timeout_s` no time.
            RunError: The run failed, or took longer than `timeout_s`.
        """
        return self.run_program(PREDICT, feed, seed, timeout_s, **feeds)

    def run_program(
        self,
        name: str,
        feed: Mapping[str, Any] | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        /,
        **feeds: Any,
    ) -> Any:
        """Run one of the programs as `run` does: `model.run_program("train", x=xs, y=ys)`.

        What the program updates is in `scope` afterwards. Threads may run one model: runs that
        update something wait for each other.
        """
        entry = self.entry(name)
        if seed is None and SEED in feeds and SEED not in entry.program.infos:
            seed = feeds.pop(SEED)
        if timeout_s is None and TIMEOUT in feeds and TIMEOUT not in entry.program.infos:
            timeout_s = feeds.pop(TIMEOUT)
        given = feeds if feed is None else {**feed, **feeds} if feeds else feed
        with self._moving if entry.program.updates else nullcontext():
            results = self.executor.run(
                entry.program,
                self.scope,
                given,
                dict(entry.fetches),
                seed=seed,
                timeout_s=timeout_s,
            )
        alone = len(results) == 1 and not entry.as_dict
        return next(iter(results.values())) if alone else results

    def entry(self, name: str = PREDICT) -> NamedProgram:
        """The program of this name, and how it is called.

        Raises:
            UnknownNameError: There is none.
        """
        return self._entries.get(name) or NamedProgram(self.program(name), (), {})

    def __repr__(self) -> str:
        calls = (
            f"{name}({', '.join(entry.feeds)}) -> {', '.join(entry.fetches)}"
            for name, entry in self._entries.items()
        )
        return f"<Model: {'; '.join(calls)}; {len(self.scope.names())} variables>"
