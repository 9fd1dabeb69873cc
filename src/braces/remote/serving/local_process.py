"""A local worker process, which ends when its parent does.

The key is passed through a pipe, so it is in neither the command line nor the environment, and
the process listens on the loopback interface only. The end of the pipe ends the process,
because only the pipe reveals the death of the parent.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread, Timer
from typing import Any

from braces.errors import RemoteError
from braces.remote.serving.server import Server

LOOPBACK = "127.0.0.1:0"
START_S = 120.0
"""The time limit of the start of a process."""
_END_S = 2.0

_CODE = """\
import json, sys
given = json.loads(sys.stdin.readline())
sys.path[:] = given["path"]
from braces.remote.serving.local_process import serve
serve(given["token"])
"""


class Process:
    """A worker process that was started here.

    Args:
        env: Extra environment variables.

    Attributes:
        address: The address where it listens.
        token: Its key, new for each process.

    Raises:
        RemoteError: If the process did not start.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.token = secrets.token_urlsafe(32)
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-P", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C is for the parent
            text=True,
        )
        self.address = self._introduced()

    @property
    def id(self) -> int:
        """The process id."""
        return self._process.pid

    def _introduced(self) -> str:
        """Send the key, and read the address where it listens."""
        timer = Timer(START_S, self._process.kill)
        timer.start()
        try:
            _write(self._process, {"token": self.token, "path": sys.path})
            address = _read_address(self._process)
        except OSError:
            address = ""
        finally:
            timer.cancel()
        if not address:
            self.end()
            raise RemoteError(
                f"the process of the worker did not start: it {self.describe_end()}.",
                fix="See its standard error output.",
            )
        return address

    def describe_end(self) -> str:
        """Return how it ended."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return "closed the connection"
        return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"

    def end(self) -> None:
        """End the process, and wait for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # unread data in the pipe
                    pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _write(process: subprocess.Popen[str], settings: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(settings) + "\n")
    process.stdin.flush()


def _read_address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# ---- inside the worker process ---------------------------------------------------------------


def serve(token: str) -> None:
    """Run a worker for the process at the other end of the standard input."""
    server = Server(LOOPBACK, token)
    print(server.address, flush=True)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output must not reach the pipe
    Thread(target=_end_with_parent, daemon=True).start()
    server.serve()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)
