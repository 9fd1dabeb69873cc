"""A loaded model: programs and their variables, ready to run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any, final

from braces.builder.program_argument import ProgramHolder
from braces.errors import FeedError, UnknownNameError, suggest, visible
from braces.hints.objects import Hinted
from braces.keywords import hint_keywords
from braces.notebook import escape_html
from braces.program import Program
from braces.runtime.executor import Executor
from braces.scope import Scope

PREDICT, TRAIN, STARTUP = "predict", "train", "startup"
SEED, TIMEOUT = "seed", "timeout_s"
_SHORTENED = 120
"""Characters of a value of metadata that are shown."""


@dataclass(frozen=True)
class NamedProgram:
    """A program of a model with its signature.

    Attributes:
        program: The program.
        feeds: Its feeds, in the order that the writer chose.
        fetches: Its fetches: a name, and the variable.
        as_dict: Whether a run returns a dict even for one fetch, because the fetches were saved
            as a dict.
    """

    program: Program
    feeds: tuple[str, ...]
    fetches: Mapping[str, str]
    as_dict: bool = False

    def signature(self) -> dict[str, Any]:
        """Return the signature as a record for the file."""
        marked = {"dict": True} if self.as_dict else {}
        return {"feeds": list(self.feeds), "fetches": dict(self.fetches), **marked}


@final
class Model(ProgramHolder, Hinted):
    """Programs and their parameters, ready to run.

    Attributes:
        scope: The variables; training updates them.
        executor: The executor of the programs.
        programs: The programs by name: `predict`, and if present `train` with its `startup`.
        metadata: The metadata of the file, such as names of classes: JSON data without effect
            on runs. It may be from strangers: treat it as text.

    Example:
        >>> import braces as br, tempfile
        >>> with br.Program() as prog:
        ...     y = br.data("x", ["n", 2]) * br.parameter("w", [2], init=3.0)
        >>> scope = br.Executor().init(prog)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = folder + "/m.model"
        ...     br.save_model(path, prog, scope, ["x"], [y], metadata={"license": "MIT"})
        ...     model = br.load_model(path)
        >>> model.feeds, model.metadata, model.run(x=[[1.0, 2.0]]).tolist()
        (('x',), {'license': 'MIT'}, [[3.0, 6.0]])
    """

    _internal = ("entry",)

    @hint_keywords
    def __init__(
        self,
        entries: Mapping[str, NamedProgram],
        scope: Scope,
        executor: Executor,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.scope = scope
        self.executor = executor
        self.programs = {name: entry.program for name, entry in entries.items()}
        self.metadata = dict(metadata or {})
        self._entries = dict(entries)
        self._moving = Lock()
        if TRAIN in entries:
            self.programs[STARTUP] = entries[TRAIN].program.startup

    @property
    def feeds(self) -> tuple[str, ...]:
        """The feeds of `run`, by name."""
        return self.entry(PREDICT).feeds

    @property
    def fetches(self) -> tuple[str, ...]:
        """The fetches of `run`, by name."""
        return tuple(self.entry(PREDICT).fetches)

    def program(self, name: str = PREDICT) -> Program:
        """Return the program of this name.

        Raises:
            UnknownNameError: If the program does not exist.
        """
        if name not in self.programs:
            raise UnknownNameError(
                f"unknown program `{name}` of the model.", fix=suggest(name, self.programs)
            )
        return self.programs[name]

    def fetched(self) -> dict[str, str]:
        """Return the fetches of `run`: their names, and the variables of the program."""
        return dict(self.entry(PREDICT).fetches)

    def run(
        self,
        feed: Mapping[str, Any] | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        /,
        **feeds: Any,
    ) -> Any:
        """Predict: `model.run(x=xs)`.

        A model with random operators draws new numbers in each run. With a seed,
        `model.run(x=xs, seed=7)`, the numbers depend on the seed alone.

        Args:
            feed: Feeds by name, for names that are not Python identifiers.
            seed: The same as `seed=`, for models with a feed of that name: `model.run({"seed":
                s}, 7)`.
            timeout_s: The time limit of the run, as in `Executor.run`; written `model.run(x=xs,
                timeout_s=10.0)`, or third if a feed has that name.
            feeds: Feeds by name.

        Returns:
            A dict of arrays by name; an array if there is one fetch that was not saved in a
            dict.

        Raises:
            FeedError: If a feed is missing, unknown, or of a different type.
            ProgramError: If the seed is not a 32-bit integer, or `timeout_s` is not a time.
            RunError: If the run failed, or exceeds `timeout_s`.
        """
        return self.run_program(PREDICT, feed, seed, timeout_s, **feeds)

    def __call__(self, *values: Any, **feeds: Any) -> Any:
        """Predict with feeds by position: `model(xs)` for `model.run(x=xs)`.

        Args:
            values: Feeds in the order of `feeds`.
            feeds: Other arguments of `run`.

        Raises:
            FeedError: If there are more values than feeds, or a feed is given twice.
        """
        if len(values) > len(self.feeds):
            raise FeedError(
                f"expected at most {len(self.feeds)} feeds by position, got {len(values)}.",
                at="model(...)",
                given=self._call_text(PREDICT),
            )
        named = dict(zip(self.feeds, values, strict=False))
        for name in named.keys() & feeds.keys():
            raise FeedError(
                f"feed `{name}` is given by position and by name.",
                at="model(...)",
                fix="Pass each feed once.",
            )
        return self.run(named, **feeds)

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

        Updates of the program are in `scope` afterwards. The method is thread-safe: runs with
        updates are serialized.
        """
        entry = self.entry(name)
        if seed is None and SEED in feeds and SEED not in entry.program.infos:
            seed = feeds.pop(SEED)
        if timeout_s is None and TIMEOUT in feeds and TIMEOUT not in entry.program.infos:
            timeout_s = feeds.pop(TIMEOUT)
        all_feeds = feeds if feed is None else {**feed, **feeds} if feeds else feed
        with self._moving if entry.program.updates else nullcontext():
            results = self.executor.run(
                entry.program,
                self.scope,
                all_feeds,
                dict(entry.fetches),
                seed=seed,
                timeout_s=timeout_s,
            )
        is_single = len(results) == 1 and not entry.as_dict
        return next(iter(results.values())) if is_single else results

    def entry(self, name: str = PREDICT) -> NamedProgram:
        """Return the program of this name with its signature.

        Raises:
            UnknownNameError: If the program does not exist.
        """
        return self._entries.get(name) or NamedProgram(self.program(name), (), {})

    @staticmethod
    def _attribute_hints() -> Mapping[str, str]:
        """Return hints for the attributes of its programs."""
        names = (name for name in dir(Program) if not name.startswith("_"))
        return {name: f"model.program().{name}" for name in names}

    def __repr__(self) -> str:
        calls = (self._call_text(name) for name in self._entries)
        keys = f"; metadata: {', '.join(map(visible, self.metadata))}" if self.metadata else ""
        return f"<Model: {'; '.join(calls)}; {len(self.scope.names())} variables{keys:.200}>"

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] — notebooks use it
        """Return the feeds and fetches of each program, its layers, and the variables."""
        calls = "".join(
            f"<code>{escape_html(self._call_text(name))}</code><br>" for name in self._entries
        )
        layers = self.program().summary(depth=0).sheet().tables[0].html()
        lines = "".join(f"{escape_html(line)}<br>" for line in metadata_lines(self.metadata))
        return f"{calls}{lines}{layers}{self.scope._repr_html_()}"

    def _call_text(self, name: str) -> str:
        """Return the signature of a program: `predict(x: f32[n,4]) -> y: f32[n,3]`."""
        entry = self._entries[name]
        infos = entry.program.infos
        feeds = (f"{feed}: {infos[feed].type}" for feed in entry.feeds if feed in infos)
        types = {
            key: infos[value].type for key, value in entry.fetches.items() if value in infos
        }
        fetches = (f"{key}: {types[key]}" if key in types else key for key in entry.fetches)
        return f"{name}({', '.join(feeds)}) -> {', '.join(fetches)}"


def metadata_lines(metadata: Mapping[str, Any]) -> list[str]:
    """Return a short line for each entry of metadata: `classes: ["cat","dog"]`."""
    return [f"{visible(key)}: {_short(value)}" for key, value in metadata.items()]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = visible(text[:_SHORTENED])
    return f"{shown}… ({len(text):,} characters)" if len(text) > _SHORTENED else shown
