"""The addresses at which the processes of a job reach one another.

The name of a machine is no such address: Debian lets it mean 127.0.1.1, and in containers it
often means nothing. So each process takes the address that its connection to process 0 has at
its own end. Processes on the machine of process 0 may have come over loopback; if others did
not, they take the address at which those others came.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def as_host(address: str) -> str:
    """An address of a socket as others write it: one of IPv4 that IPv6 carries becomes that.

    Raises:
        ValueError: It is no address.

    Example:
        >>> as_host("::ffff:10.0.0.1"), as_host("fd00::1")
        ('10.0.0.1', 'fd00::1')
    """
    found = ipaddress.ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches itself by a host.

    Example:
        >>> [is_loopback(host) for host in ("127.0.1.1", "::1", "localhost", "10.0.0.1", "n1")]
        [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def hosts_of_all(theirs: Mapping[int, str], here: Mapping[int, str]) -> dict[int, str]:
    """The address of each process, from both ends of the connections to process 0.

    Args:
        theirs: By process: the address at its own end.
        here: By process: the address at the end of process 0.

    Example:
        >>> hosts_of_all({1: "127.0.0.1", 2: "10.0.0.2"}, {1: "127.0.0.1", 2: "10.0.0.1"})
        {0: '10.0.0.1', 1: '10.0.0.1', 2: '10.0.0.2'}
        >>> hosts_of_all({1: "127.0.0.1"}, {1: "127.0.1.1"})
        {0: '127.0.1.1', 1: '127.0.1.1'}
    """
    indices = sorted(here)
    outside = [index for index in indices if not is_loopback(theirs[index])]
    first = here[(outside or indices)[0]]
    return {0: first} | {i: first if is_loopback(theirs[i]) else theirs[i] for i in indices}


def joined_address(host: str, port: int) -> str:
    """An address as it is written, with brackets around one of IPv6.

    Example:
        >>> joined_address("fd00::1", 80), joined_address("10.0.0.1", 80)
        ('[fd00::1]:80', '10.0.0.1:80')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
