"""The session of one client in a worker: its program, its values, its runs."""

from __future__ import annotations

from threading import Event
from typing import Any

import numpy as np

from braces.errors import FileFormatError, ProgramError, as_record
from braces.frontend.core.random_state import RANDOM_STATE
from braces.lower.interrupt.deadline import cancelled_by
from braces.passes.probing.inner_gradient import InnerGradient
from braces.program import Program
from braces.remote.protocol.messages import DONE, ERROR, LOAD, RUN, VALUES, Message
from braces.runtime.executor import Executor
from braces.scope import Scope
from braces.storage.parameters import host_arrays, put_arrays
from braces.storage.tensor_file import RESERVED, is_list

PROGRAM, DRAWN_FROM = f"{RESERVED}/program", f"{RESERVED}/{RANDOM_STATE}"
"""The names of arrays in messages that are not variables."""


class Session:
    """A program with its values, private to one client.

    Attributes:
        cancelled: Set by another thread to cancel the current run.
    """

    def __init__(self) -> None:
        self.cancelled = Event()
        self._program: Program | None = None
        self._scope = Scope()
        self._executor: Executor | None = None

    def answer(self, request: Message) -> Message:
        """Execute a request; errors become the answer."""
        steps = {LOAD: self._load, RUN: self._run, VALUES: self._values}
        try:
            if request.kind not in steps:
                raise FileFormatError(f"unknown request {request.kind!r:.80}.")
            return Message(DONE, arrays=steps[request.kind](request))
        except Exception as error:  # the client decides whether to go on
            return Message(ERROR, as_record(error))

    def _load(self, request: Message) -> dict[str, Any]:
        stored = request.arrays.get(PROGRAM)
        if stored is None or stored.dtype != np.uint8:
            raise FileFormatError("the message has no program.")
        executor = Executor(request.record.get("mode", ""), request.record.get("device"))
        program = Program.from_bytes(stored.tobytes())
        self.close()
        self._scope, self._program, self._executor = Scope(), program, executor
        put_arrays(self._scope, _variables(request))
        return {}

    def _run(self, request: Message) -> dict[str, Any]:
        if self._program is None or self._executor is None:
            raise ProgramError("the worker has no program.", fix="Call worker.load(program).")
        state = request.arrays.get(DRAWN_FROM)
        if state is not None:
            self._scope.var(RANDOM_STATE).put(state)
        fetches, timeout_s = request.record.get("fetch"), request.record.get("timeout_s")
        if not is_list(fetches):
            raise FileFormatError("the message has no list of fetches.")
        names = [_fetch(record) for record in fetches]
        feed = _variables(request)
        with cancelled_by(self.cancelled):
            results = self._executor.run(
                self._program, self._scope, feed, names, timeout_s=timeout_s
            )
        return {fetch_name(number): value for number, value in enumerate(results)}

    def _values(self, request: Message) -> dict[str, Any]:
        del request
        infos = () if self._program is None else self._program.persistable_infos
        return host_arrays(self._scope, [info.name for info in infos])

    def close(self) -> None:
        """Release the program and its values."""
        self._program = None
        self._scope.close()


def fetch_record(name: str) -> str | list[str]:
    """Return a fetch as a field of a message; `_fetch` reads it."""
    return [name.loss, name.path] if isinstance(name, InnerGradient) else name


def _fetch(record: Any) -> str:
    """Return a fetch from a field of a message.

    Raises:
        FileFormatError: If the field is neither a name nor a pair of names.
    """
    paired = is_list(record)
    parts: list[Any] = record if paired else [record]
    if len(parts) != 1 + paired or not all(isinstance(part, str) for part in parts):
        raise FileFormatError(f"expected a fetch, got {record!r:.80}.")
    return InnerGradient(*parts) if paired else parts[0]


def fetch_name(number: int) -> str:
    """Return the name of a fetch in an answer."""
    return f"fetch_{number}"


def _variables(request: Message) -> dict[str, Any]:
    return {n: x for n, x in request.arrays.items() if not n.startswith(RESERVED)}
