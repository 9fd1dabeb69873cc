"""Addresses and TCP options of connections between processes.

Host names do not identify the processes of a job: Debian maps them to 127.0.1.1, and in
containers they often do not resolve. So each process uses the local address of its connection
to process 0. Processes on the machine of process 0 may connect over loopback. If others do not,
the local processes use the address at which the remote ones connected.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping


def normalize_host(address: str) -> str:
    """Return an IP address in its usual form; IPv4-mapped IPv6 addresses become IPv4.

    Raises:
        ValueError: If the address is not an IP address.

    Example:
        >>> normalize_host("::ffff:10.0.0.1"), normalize_host("fd00::1")
        ('10.0.0.1', 'fd00::1')
    """
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)


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


def reachable_hosts(theirs: Mapping[int, str], here: Mapping[int, str]) -> dict[int, str]:
    """Return the address of each process, from both ends of the connections to process 0.

    Args:
        theirs: By process: the address at its end.
        here: By process: the address at the end of process 0.

    Example:
        >>> reachable_hosts({1: "127.0.0.1", 2: "10.0.0.2"}, {1: "127.0.0.1", 2: "10.0.0.1"})
        {0: '10.0.0.1', 1: '10.0.0.1', 2: '10.0.0.2'}
        >>> reachable_hosts({1: "127.0.0.1"}, {1: "127.0.1.1"})
        {0: '127.0.1.1', 1: '127.0.1.1'}
    """
    indices = sorted(here)
    outside = [index for index in indices if not is_loopback(theirs[index])]
    first = here[(outside or indices)[0]]
    return {0: first} | {i: first if is_loopback(theirs[i]) else theirs[i] for i in indices}


def join_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address.

    Example:
        >>> join_address("fd00::1", 80), join_address("10.0.0.1", 80)
        ('[fd00::1]:80', '10.0.0.1:80')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
