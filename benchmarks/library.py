"""Libraries in interpreters of their own, which take their turns when they are asked to.

Some cannot be loaded beside another one, and threads, allocators and flags of one are no
concern of the next. What is measured is measured there, so what lies between costs nothing.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.case import timed
from benchmarks.peers import cores

ROOT = Path(__file__).resolve().parents[1]
KEPT = 2
"""How many things a library keeps ready: those that take turns in one case."""
QUIET_S, MOST_S = 0.03, 1.0
"""How long threads of a library must have been idle, and how long to wait for that at most."""


class LibraryError(RuntimeError):
    """A library could not do what it was asked to."""


class Library:
    """An interpreter that has loaded a module with functions that make steps."""

    def __init__(self, module: str) -> None:
        self.module = module
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.library", module],
            cwd=ROOT,
            env={**os.environ, **_settings()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )

    def __call__(self, make: str, *arguments: Any) -> tuple[float, float]:
        """Take one step of what a function of the module makes: what it gives, and seconds."""
        answer = self._asked((make, arguments))
        if isinstance(answer, str):
            raise LibraryError(f"{self.module}, {make}{arguments}:\n{answer}")
        return answer

    def close(self) -> None:
        """End the interpreter."""
        with self._process, self._said:
            assert self._process.stdin
            self._process.stdin.close()

    def settle(self) -> None:
        """Wait until none of its threads is busy."""
        self._asked(None)

    def _asked(self, what: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        try:
            _send(self._process.stdin, what)
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError) as ended:
            raise LibraryError(f"{self.module} ended by itself.\n{self._last()}") from ended

    def _last(self) -> str:
        self._process.wait()
        self._said.seek(0)
        return "\n".join(self._said.read().decode(errors="replace").splitlines()[-20:])


def library(module: str) -> Library:
    """The one interpreter with this module, started if need be."""
    if module not in _STARTED:
        _STARTED[module] = Library(module)
    return _STARTED[module]


def settle() -> None:
    """Wait until no thread of any library is busy, so that the next side has the processor."""
    for started in _STARTED.values():
        started.settle()


_STARTED: dict[str, Library] = {}


def _settings() -> dict[str, str]:
    """As many threads for all, also for those that take one by default, and less to read."""
    threads = str(cores())
    return {
        "OMP_NUM_THREADS": threads,
        "FLAGS_paddle_num_threads": threads,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def _send(stream: BinaryIO, what: Any) -> None:
    pickle.dump(what, stream)
    stream.flush()


# ---- in the other interpreter ----------------------------------------------------------------


def serve(module: str) -> None:
    """Answer until nobody asks any more. What the library prints is no answer."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    @lru_cache(maxsize=KEPT)
    def made(make: str, *arguments: Any) -> Callable[[], float]:
        return getattr(importlib.import_module(module), make)(*arguments)

    def answer(asked: tuple[str, tuple[Any, ...]] | None) -> Any:
        if asked is None:
            return _quieten()
        try:
            return timed(made(asked[0], *asked[1]))
        except Exception:
            return traceback.format_exc()

    while True:
        try:
            asked = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _send(answers, answer(asked))


def _quieten() -> None:
    """Return when no thread has been busy for a while.

    Those of OpenMP wait for more to do, some by asking again and again, and some in between
    sleep for a few milliseconds.
    """
    until = time.perf_counter() + MOST_S
    idle_since, busy = time.perf_counter(), time.process_time()
    while idle_since + QUIET_S > time.perf_counter() < until:
        time.sleep(0.005)
        if time.process_time() - busy > 0.001:
            idle_since = time.perf_counter()
        busy = time.process_time()


if __name__ == "__main__":
    serve(sys.argv[1])
