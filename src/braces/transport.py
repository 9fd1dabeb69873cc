"""Addresses, socket options and error records of connections between processes."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

from braces import errors
from braces.errors import BracesError, ProgramError, RemoteError

_TEXTS = ("what", "at", "given", "fix", "code")
_LONGEST, _LARGEST_PORT = 20_000, 0xFFFF


def parse_address(address: str) -> tuple[str, int]:
    """Parse the address of a worker to host and port.

    Raises:
        ProgramError: If the address is invalid.

    Example:
        >>> parse_address("[::1]:7000")
        ('::1', 7000)
    """
    host, colon, port = str(address).strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    good = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= _LARGEST_PORT
    if not colon or not bare or not good or (":" in bare and bare == host):
        raise ProgramError(
            f"invalid address {address!r:.80}.", fix="Use HOST:PORT, such as 127.0.0.1:7000."
        )
    return bare, int(port)


def join_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address.

    Example:
        >>> join_address("fd00::1", 80), join_address("10.0.0.1", 80)
        ('[fd00::1]:80', '10.0.0.1:80')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a host denotes the machine itself, which no other machine can reach.

    Example:
        >>> [is_loopback(host) for host in ("127.0.1.1", "::1", "localhost", "10.0.0.1", "n1")]
        [True, True, True, False, False]
        >>> is_loopback("0.0.0.0")
        False
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def set_tcp_options(connection: socket.socket, idle_s: int, interval_s: int) -> None:
    """Send small messages at once (TCP_NODELAY), and detect a dead machine by TCP keepalive.

    Args:
        connection: A connected socket.
        idle_s: Idle seconds before the first of three probes, where the system supports it.
        interval_s: Seconds between probes.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    keepalive = {"TCP_KEEPIDLE": idle_s, "TCP_KEEPINTVL": interval_s, "TCP_KEEPCNT": 3}
    for name, value in keepalive.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def as_record(error: Exception) -> dict[str, Any]:
    """Return an error as a record; one that is not of Braces becomes a `RemoteError`."""
    if not isinstance(error, BracesError):
        what = f"The worker failed: {type(error).__name__}: {error}"
        return {"error": RemoteError.__name__, "what": what[:_LONGEST]}
    texts = {name: getattr(error, name, None) for name in _TEXTS}
    fields_ = {name: text[:_LONGEST] for name, text in texts.items() if isinstance(text, str)}
    return {"error": type(error).__name__, **fields_}


def as_error(record: Mapping[str, Any], otherwise: type[BracesError]) -> BracesError:
    """Return the error of a record, with the same class and text.

    Args:
        record: A record that `as_record` returned.
        otherwise: The class if `braces.errors` has none of that name.
    """
    texts = {name: record.get(name) for name in _TEXTS}
    what, at, given, fix, code = (t if isinstance(t, str) else None for t in texts.values())
    kind = record.get("error")
    error_class = getattr(errors, kind) if kind in errors.__all__ else otherwise
    error: BracesError = error_class.__new__(error_class)
    BracesError.__init__(error, what or "The worker failed.", at=at, given=given, fix=fix)
    if code is not None:
        vars(error)["code"] = code
    return error
