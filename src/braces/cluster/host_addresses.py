"""The addresses at which the processes of a job reach one another.

Host names are no such addresses: Debian maps them to 127.0.1.1, and in containers they often do
not resolve. So each process uses the local address of its connection to process 0. Processes on
the machine of process 0 may connect over loopback. If others do not, the local processes use
the address at which the remote ones connected.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from braces.transport import is_loopback


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
