"""Parts of an HTTP server in a process of the user: its socket, its settings, its start."""

from __future__ import annotations

import errno
import socket
from threading import Thread
from time import monotonic, sleep
from typing import Any

from braces.errors import ProgramError

_REASONS = {errno.EADDRINUSE: "in use", errno.EACCES: "not permitted"}
_POLL_S = 0.005


def listen(host: str, port: int, backlog: int | None = None) -> socket.socket:
    """Return a socket that listens at a port; 0 selects a free one.

    Raises:
        ProgramError: If the address is invalid or in use.
    """
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ProgramError(
            f"invalid port {port!r:.40}; expected an integer from 0 to 65535.",
            fix="Pass port=0 for a free one.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except UnicodeError:
        raise ProgramError(f"invalid host {host!r:.80}.") from None
    except OSError as error:
        if error.errno in _REASONS:
            raise ProgramError(
                f"port {port} is {_REASONS[error.errno]}.",
                fix="Pass another port, or 0 for a free one.",
            ) from None
        raise ProgramError(f"cannot listen at {host!r:.80}: {error.strerror}.") from None


def make_config(uvicorn: Any, application: Any, **options: Any) -> Any:
    """Return settings of uvicorn without logs, proxies and protocol upgrades.

    Args:
        uvicorn: The module, whose extra depends on the server.
        application: The ASGI application.
        options: Further settings.
    """
    return uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        **options,
    )


def wait_started(server: Any, thread: Thread, within_s: float) -> None:
    """Wait until a server answers; one that is stopped before leaks its socket."""
    end = monotonic() + within_s
    while not server.started and thread.is_alive() and monotonic() < end:
        sleep(_POLL_S)
