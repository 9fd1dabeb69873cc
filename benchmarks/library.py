"""Libraries in separate interpreters, which take their turns on request.

Some libraries conflict with others, and threads, allocators and flags of one must not
affect the next. Measurements are in the separate process, without communication.
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
    """A failure of a library."""


class Library:
    """An interpreter with a loaded module, whose functions create steps."""

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
        """Take one step of a function of the module; return its result and its seconds."""
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
        """Wait until its threads are idle."""
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
    """The interpreter with this module, started at first use."""
    if module not in _STARTED:
        _STARTED[module] = Library(module)
    return _STARTED[module]


def settle() -> None:
    """Wait until the threads of all libraries are idle."""
    for started in _STARTED.values():
        started.settle()


_STARTED: dict[str, Library] = {}


def _settings() -> dict[str, str]:
    """The environment: equal numbers of threads for all libraries, and less output."""
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
    """Answer requests until the end of input, separately from the library's own output."""
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
    """Return after the threads have been idle for a while.

    Threads of OpenMP wait for work, some by polling, and some
    sleep for a few milliseconds in between.
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
