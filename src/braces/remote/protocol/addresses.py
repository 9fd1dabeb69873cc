"""Addresses of workers: `HOST:PORT`, with IPv6 addresses in brackets."""

from __future__ import annotations

import ipaddress

from braces.errors import ProgramError

LARGEST_PORT = 0xFFFF


def parse_address(address: str) -> tuple[str, int]:
    """Parse an address to host and port.

    Raises:
        ProgramError: If the address is invalid.

    Example:
        >>> parse_address("[::1]:7000")
        ('::1', 7000)
    """
    host, colon, port = str(address).strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    good = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= LARGEST_PORT
    if not colon or not bare or not good or (":" in bare and bare == host):
        raise ProgramError(
            f"invalid address {address!r:.80}.", fix="Use HOST:PORT, such as 127.0.0.1:7000."
        )
    return bare, int(port)


def format_address(host: str, port: int) -> str:
    """Format an address.

    Example:
        >>> format_address("::1", 7000)
        '[::1]:7000'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether only processes of this machine can reach a host.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
        (True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
