"""Rendezvous of the processes of a job: all report to process 0, which lets them continue.

JAX aborts a process if another one never arrives. So the processes meet here first, before JAX
communicates: the timeout is respected, all processes report the same error, and versions are
compared. Process 0 listens at the address of the job, where JAX itself listens afterwards. The
connections stay open for failure detection (`braces.cluster.failure_detector`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

from braces.cluster.host_addresses import (
    is_loopback,
    join_address,
    normalize_host,
    reachable_hosts,
)
from braces.cluster.json_connection import JsonConnection, Record, read_number
from braces.cluster.pending_connections import Reception
from braces.cluster.process_identity import ProcessIdentity, split_address
from braces.errors import ClusterError
from braces.runtime.devices.process_agreement import check_equal_values, describe_processes

Facts = Mapping[str, str]
"""Versions and settings that must agree in all processes, by name."""

_VERDICT_S, _AGAIN_S = 5.0, 0.05


@dataclass(frozen=True)
class ConnectedJob:
    """Connections and addresses of a job, as seen by one process.

    Attributes:
        lines: Connections by process: process 0 is connected to each other process.
        host: The address at which the others reach this process.
        address: The address of process 0 from here, with a numeric host.
    """

    lines: dict[int, JsonConnection]
    host: str
    address: str


def await_processes(place: ProcessIdentity, facts: Facts, timeout_s: float) -> ConnectedJob:
    """Wait until all processes of the job have arrived.

    Args:
        place: The identity of this process.
        facts: Its versions and settings.
        timeout_s: Time limit in seconds.

    Raises:
        ClusterError: If a process did not arrive in time, or the processes differ; all raise
            the same error.
    """
    if place.index == 0:
        return _gather_as_host(place, facts, timeout_s)
    return _join(place, facts, time.monotonic() + timeout_s, timeout_s)


def bind_address(address: str) -> str:
    """Return the listening address of process 0: loopback only if its address is loopback.

    Example:
        >>> bind_address("127.0.0.1:80"), bind_address("node-1:80")
        ('127.0.0.1:80', '[::]:80')
    """
    host, port = split_address(address)
    return address if is_loopback(host) else f"[::]:{port}"


# ---- process 0 -------------------------------------------------------------------------------


def _gather_as_host(place: ProcessIdentity, facts: Facts, timeout_s: float) -> ConnectedJob:
    lines, hosts = dict[int, JsonConnection](), dict[int, str]()
    facts_by_process = {0: facts}
    try:
        with _open_listener(place.address) as listener:
            _await_all(listener, place, lines, facts_by_process, hosts, timeout_s)
        for name in facts:
            check_equal_values(
                name,
                {index: values.get(name, "none") for index, values in facts_by_process.items()},
            )
    except ClusterError as error:
        _refuse(lines, error)
        raise
    addresses = reachable_hosts(
        hosts, {index: _own_host(line) for index, line in lines.items()}
    )
    for index, line in lines.items():
        _send_all({index: line}, {"start": True, "host": addresses[index]})
    _, port = split_address(place.address)
    return ConnectedJob(lines, addresses[0], join_address(addresses[0], port))


def _own_host(line: JsonConnection) -> str:
    try:
        return line.hosts()[0]
    except OSError:  # it is gone, which the failure detector reports
        return "127.0.0.1"


def _send_all(lines: Mapping[int, JsonConnection], record: Record) -> None:
    for line in lines.values():
        try:
            line.send(record)
        except OSError:
            continue  # the failure detector notices lost processes


def _refuse(lines: Mapping[int, JsonConnection], error: ClusterError) -> None:
    """Send an error to the other processes and close the connections."""
    _send_all(lines, {"error": [error.what, error.given, error.fix]})
    for line in lines.values():
        line.close()


def _open_listener(address: str) -> socket.socket:
    host, port = split_address(address)
    try:
        if is_loopback(host):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return socket.create_server((host, port), family=family, backlog=1024)
        if socket.has_dualstack_ipv6():
            dual_stack = socket.AF_INET6
            return socket.create_server(
                ("", port), family=dual_stack, backlog=1024, dualstack_ipv6=True
            )
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise ClusterError(
            f"process 0 cannot listen at {address}.",
            given=error.strerror or str(error),
            fix="Use an address of its own machine, with a free port.",
        ) from None


def _await_all(
    listener: socket.socket,
    place: ProcessIdentity,
    lines: dict[int, JsonConnection],
    facts_by_process: dict[int, Facts],
    hosts: dict[int, str],
    timeout_s: float,
) -> None:
    """Accept all other processes; connections of other jobs are closed."""
    deadline = time.monotonic() + timeout_s
    reception = Reception(listener)
    try:
        while not _all_there(lines, place.count):
            line, greeting = reception.next(deadline)
            try:
                index = _admit(greeting, place, lines)
                left_s = read_number(greeting, "left_ms") / 1000
                facts = {str(name): str(value) for name, value in greeting["facts"].items()}
                host = normalize_host(str(greeting["host"]))
            except (ValueError, KeyError, AttributeError):
                line.close()
                continue
            except ClusterError as error:
                _refuse({0: line}, error)
                raise
            deadline = min(deadline, time.monotonic() + left_s)
            if index in lines:  # it was restarted
                lines[index].close()
            lines[index], facts_by_process[index], hosts[index] = line, facts, host
    except TimeoutError:
        missing = sorted({*range(1, place.count)} - lines.keys())
        raise _timeout_error(describe_processes(missing), place, timeout_s) from None
    finally:
        reception.close()


def _all_there(lines: dict[int, JsonConnection], count: int) -> bool:
    """Return whether all other processes have a connection, after dropping those that ended."""
    if len(lines) == count - 1:
        for index in [index for index, line in lines.items() if line.has_ended()]:
            lines.pop(index).close()
    return len(lines) == count - 1


def _timeout_error(who: str, place: ProcessIdentity, timeout_s: float) -> ClusterError:
    return ClusterError(
        f"{who} of {place.count} did not connect to {place.address} within {timeout_s:g} s.",
        fix="Look at the log of each process, or increase timeout_s.",
    )


def _admit(
    greeting: Record, place: ProcessIdentity, lines: Mapping[int, JsonConnection]
) -> int:
    """Return the number of an arriving process.

    Raises:
        ValueError: If the process belongs to another job.
        ClusterError: If the process belongs to this job, but its number or count is wrong.
    """
    index, count = read_number(greeting, "index"), read_number(greeting, "count")
    if greeting.get("job") != place.job:
        raise ValueError("the process belongs to another job.")
    if count != place.count or not 0 < index < count:
        raise ClusterError(
            "the processes have different process counts.",
            given=f"process 0 of {place.count}; process {index} of {count}",
            fix="Start all of them with the same count.",
        )
    if index in lines and not lines[index].has_ended():
        raise ClusterError(
            f"duplicate process index: {index} of {count}.",
            fix="Give each process its own index.",
        )
    return index


# ---- other processes -------------------------------------------------------------------------


def _join(
    place: ProcessIdentity, facts: Facts, deadline: float, timeout_s: float
) -> ConnectedJob:
    """Connect to process 0, with retries until it listens, and wait for its verdict."""
    observation = "no process listened there"
    while (left := deadline - time.monotonic()) > 0:
        try:
            line = JsonConnection(
                socket.create_connection(split_address(place.address), min(left, 5.0))
            )
        except OSError as error:
            observation = f"the last attempt: {error.strerror or error}"
            time.sleep(_AGAIN_S)
            continue
        try:
            if line.is_own_echo():
                raise ConnectionError("no process listens there yet.")
            observation = "the process that answered was not process 0 of this job"
            line.send(
                {
                    "index": place.index,
                    "count": place.count,
                    "job": place.job,
                    "left_ms": int(left * 1000),
                    "host": line.hosts()[0],
                    "facts": dict(facts),
                }
            )
            verdict = line.receive(left + _VERDICT_S)
        except (OSError, ValueError):  # process 0 of another job, or an ending one
            line.close()
            time.sleep(_AGAIN_S)
            continue
        return _read_verdict(verdict, line, place)
    error = _timeout_error("Process 0", place, timeout_s)
    error.given = observation
    raise error


def _read_verdict(
    verdict: Record, line: JsonConnection, place: ProcessIdentity
) -> ConnectedJob:
    """Return the job if process 0 confirms that all processes arrived."""
    if verdict.get("start") is True:
        _, port = split_address(place.address)
        _, there = line.hosts()
        return ConnectedJob({0: line}, str(verdict.get("host")), join_address(there, port))
    line.close()
    what, given, fix = (*verdict.get("error", ()), None, None, None)[:3]
    raise ClusterError(
        str(what or "Process 0 refused this process."),
        given=given and str(given),
        fix=fix and str(fix),
    )
