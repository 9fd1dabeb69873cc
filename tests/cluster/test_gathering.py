"""The rendezvous of processes: threads stand in for processes, without JAX."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from braces.cluster import pending_connections
from braces.cluster.host_addresses import reachable_hosts
from braces.cluster.json_connection import MAX_RECORD_BYTES, JsonConnection
from braces.cluster.process_identity import ProcessIdentity
from braces.cluster.rendezvous import ConnectedJob, await_processes
from braces.errors import ClusterError

FACTS = {"version of jax": "0.10.2", "setting x64": "False"}
Lines = dict[int, JsonConnection]


@pytest.fixture
def address() -> str:
    """A port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def go() -> Iterator[Callable[..., Future[Lines]]]:
    """Let a thread be a process."""
    with ThreadPoolExecutor(8) as pool:
        made = list[Future[Lines]]()

        def start(
            place: ProcessIdentity, facts: Any = FACTS, timeout_s: float = 20.0
        ) -> Future[Lines]:
            made.append(pool.submit(lambda: await_processes(place, facts, timeout_s).lines))
            return made[-1]

        yield start
    for one in made:
        for line in {} if one.exception() else one.result():
            one.result()[line].close()


def places(count: int, address: str) -> list[ProcessIdentity]:
    return [ProcessIdentity(index, count, address, "job") for index in range(count)]


def refused(futures: list[Future[Lines]]) -> str:
    """The words with which all refuse, which are the same."""
    said = set[str]()
    for future in futures:
        with pytest.raises(ClusterError) as error:
            future.result(30)
        said.add(str(error.value))
    assert len(said) == 1
    return said.pop()


def test_all_that_meet_have_lines_that_carry_records(address: str, go: Any) -> None:
    first, *others = [go(place) for place in places(3, address)]
    lines = first.result(30)
    assert sorted(lines) == [1, 2]
    for index, other in enumerate(others, start=1):
        other.result(30)[0].send({"said": index})
        assert lines[index].receive(5.0) == {"said": index}


def test_processes_with_other_versions_are_refused_in_all_with_the_same_words(
    address: str, go: Any
) -> None:
    one, two, three = places(3, address)
    others = {**FACTS, "version of jax": "0.10.1"}
    said = refused([go(one), go(two, others), go(three)])
    assert "the version of jax differs between processes" in said
    assert "processes 0 and 2: 0.10.2; process 1: 0.10.1" in said


def test_a_peer_that_never_comes_is_named_in_all_in_time(address: str, go: Any) -> None:
    one, two, _ = places(3, address)
    began = time.monotonic()
    said = refused([go(one, timeout_s=0.6), go(two, timeout_s=0.6)])
    assert time.monotonic() - began < 3
    assert said.startswith("Process 2 of 3 did not connect to 127.0.0.1")


def test_who_has_waited_longest_decides_when_time_is_up(address: str, go: Any) -> None:
    one, two, _ = places(3, address)
    began = time.monotonic()
    assert "Process 2 of 3" in refused([go(one, timeout_s=60.0), go(two, timeout_s=0.6)])
    assert time.monotonic() - began < 3


def test_a_process_0_that_never_comes_is_named(address: str, go: Any) -> None:
    said = refused([go(places(2, address)[1], timeout_s=0.4)])
    assert "Process 0 of 2 did not connect" in said
    assert "the last attempt: Connection refused" in said


def test_somebody_else_at_the_address_of_process_0_is_told(address: str, go: Any) -> None:
    host, _, port = address.partition(":")
    with socket.create_server((host, int(port))) as stranger:
        waiting = go(places(2, address)[1], timeout_s=0.4)
        stranger.accept()[0].close()
        assert "the process that answered was not process 0" in refused([waiting])


def test_a_connection_to_itself_is_known(address: str) -> None:
    host, _, port = address.partition(":")
    with socket.socket() as both:
        both.bind((host, int(port)))
        both.connect((host, int(port)))
        assert JsonConnection(both).is_own_echo()


def test_two_processes_with_one_number_are_refused(address: str, go: Any) -> None:
    one, two, _ = places(3, address)
    said = refused([go(one), go(two), go(two)])
    assert said.startswith("duplicate process index: 1 of 3.")


def test_counts_that_differ_are_refused(address: str, go: Any) -> None:
    one, two = places(2, address)
    assert "process 0 of 2; process 1 of 5" in refused([go(one), go(replace(two, count=5))])


def test_a_process_that_came_back_takes_its_place_again(address: str, go: Any) -> None:
    one, two, three = places(3, address)
    first = go(one)
    host, _, port = address.partition(":")
    with connected(host, int(port)) as early:
        early.sendall(json.dumps(greeting()).encode() + b"\n")
        time.sleep(0.2)
    last = go(three)
    time.sleep(0.3)  # it comes while the other one is gone
    others = [go(two), last]
    assert sorted(first.result(30)) == [1, 2]
    assert [sorted(one.result(30)) for one in others] == [[0], [0]]


def connected(host: str, port: int) -> socket.socket:
    """A connection to one that may begin to listen only now."""
    until = time.monotonic() + 5
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.01)


def greeting(**changes: Any) -> dict[str, Any]:
    known = {"index": 1, "count": 3, "job": "job", "left_ms": 20000, "facts": FACTS}
    known["host"] = "127.0.0.1"
    return {**known, **changes}


STRANGERS = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff\xfe\n",
    b"[" * 60_000 + b"\n",
    b"x" * (2 * MAX_RECORD_BYTES),
    b"[1]\n",
    b"{}\n",
    *(
        json.dumps(greeting(**change)).encode() + b"\n"
        for change in (
            {"job": "other"},
            {"left_ms": "soon"},
            {"facts": 3},
            {"index": None},
            {"host": "n1"},
        )
    ),
    b"",
]


def test_strangers_are_let_go_and_the_job_meets(address: str, go: Any) -> None:
    one, two = places(2, address)
    first = go(replace(one, count=2))
    host, _, port = address.partition(":")
    for said in STRANGERS:
        with connected(host, int(port)) as stranger:
            stranger.sendall(said.replace(b'"count": 3', b'"count": 2'))
            stranger.shutdown(socket.SHUT_WR)
            stranger.settimeout(5)
            try:
                assert stranger.recv(10) == b""
            except ConnectionResetError:
                assert said  # what was not read to its end
    second = go(two)
    assert sorted(first.result(30)) == [1]
    assert sorted(second.result(30)) == [0]


def test_an_address_that_is_taken_is_told(address: str) -> None:
    host, _, port = address.partition(":")
    taken = socket.create_server((host, int(port)))
    with taken, pytest.raises(ClusterError, match="process 0 cannot listen at"):
        await_processes(places(2, address)[0], FACTS, 5.0)


def test_a_line_that_ended_is_known_to_have(address: str) -> None:
    host, _, port = address.partition(":")
    with socket.create_server((host, int(port))) as listener:
        near = socket.create_connection((host, int(port)))
        far, _ = listener.accept()
    line = JsonConnection(near)
    assert not line.has_ended()
    threading.Timer(0.1, far.close).start()
    with pytest.raises(ConnectionResetError):
        line.receive(5.0)
    assert line.has_ended()
    line.close()


# ---- connections that say nothing ------------------------------------------------------------


@pytest.fixture
def silent(address: str) -> Iterator[Callable[[int], None]]:
    """Open connections to process 0 that say nothing, or half of something."""
    host, _, port = address.partition(":")
    held = list[socket.socket]()

    def hold(count: int, said: bytes = b"") -> None:
        for _ in range(count):
            held.append(connected(host, int(port)))
            held[-1].sendall(said)

    yield hold
    for connection in held:
        connection.close()


@pytest.mark.parametrize("said", [b"", b"{", b"GET / HTTP/1.1"])
def test_idle_connections_do_not_keep_a_job_from_meeting(
    address: str, go: Any, silent: Any, said: bytes
) -> None:
    began = time.monotonic()
    one, two, three = places(3, address)
    first, second = go(one, timeout_s=10.0), go(two, timeout_s=10.0)
    silent(40, said)
    third = go(three, timeout_s=10.0)
    assert sorted(first.result(30)) == [1, 2]
    assert [sorted(other.result(30)) for other in (second, third)] == [[0], [0]]
    assert time.monotonic() - began < 5


def test_more_idle_connections_than_are_kept_end_the_oldest_ones(
    address: str, go: Any, silent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_connections, "MAX_PENDING", 8)
    one, two = places(2, address)
    first = go(one, timeout_s=10.0)
    silent(50)
    assert sorted(go(two, timeout_s=10.0).result(30)) == [0]
    assert sorted(first.result(30)) == [1]


def test_a_connection_that_says_nothing_is_ended_after_its_time(
    address: str, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_connections, "GREETING_S", 0.3)
    first = go(places(2, address)[0], timeout_s=10.0)
    host, _, port = address.partition(":")
    with connected(host, int(port)) as stranger:
        stranger.settimeout(5)
        stranger.sendall(b"{")
        assert stranger.recv(10) == b""
    go(places(2, address)[1]).result(30)
    first.result(30)


def test_a_greeting_in_small_pieces_is_read(address: str, go: Any) -> None:
    first = go(places(2, address)[0], timeout_s=10.0)
    host, _, port = address.partition(":")
    text = json.dumps(greeting(count=2)).encode() + b"\n"
    with connected(host, int(port)) as slow:
        for at in range(0, len(text), 40):
            slow.sendall(text[at : at + 40])
            time.sleep(0.02)
        assert sorted(first.result(30)) == [1]


def test_no_more_descriptors_are_no_end_of_a_start(
    address: str, go: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(24, "Too many open files")] * 3
    accept = socket.socket.accept

    def failing(self: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", failing)
    one, two = places(2, address)
    first, second = go(one), go(two)
    assert (sorted(first.result(30)), sorted(second.result(30))) == ([1], [0])
    assert not failures


# ---- the address of each process -------------------------------------------------------------


def meet(address: str, count: int) -> list[ConnectedJob]:
    """Return the parameters that all processes of a job learn."""
    with ThreadPoolExecutor(count) as pool:
        found = list(
            pool.map(lambda place: await_processes(place, FACTS, 20.0), places(count, address))
        )
    for one in found:
        for line in one.lines.values():
            line.close()
    return found


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_processes_of_one_machine_meet_at_its_loopback_address(host: str, address: str) -> None:
    _, _, port = address.partition(":")
    found = meet(f"{host}:{port}", 3)
    (shared,) = {one.host for one in found}
    assert shared == ("::1" if host == "[::1]" else "127.0.0.1")
    assert {one.address for one in found} == {
        f"[::1]:{port}" if host == "[::1]" else f"127.0.0.1:{port}"
    }


def test_the_name_of_the_machine_is_not_asked_for(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gethostname", "getfqdn"):
        monkeypatch.setattr(socket, name, None)
    assert {one.host for one in meet(address, 2)} == {"127.0.0.1"}


ONE, TWO, THREE = "10.0.0.1", "10.0.0.2", "10.0.0.3"


@pytest.mark.parametrize(
    ("theirs", "here", "found"),
    [
        ([TWO, THREE], [ONE, ONE], [ONE, TWO, THREE]),
        (["127.0.0.1", TWO], ["127.0.1.1", ONE], [ONE, ONE, TWO]),  # Debian's own name
        ([TWO, TWO, "::1"], [ONE, ONE, "::1"], [ONE, TWO, TWO, ONE]),
        ([ONE, TWO], [ONE, ONE], [ONE, ONE, TWO]),  # process 1 came by the outer address
        (["127.0.0.1", "127.0.0.1"], ["127.0.1.1", "127.0.0.1"], ["127.0.1.1"] * 3),
        (["fd00::2"], ["fd00::1"], ["fd00::1", "fd00::2"]),
    ],
)
def test_the_address_of_a_process_is_that_of_its_connection(
    theirs: list[str], here: list[str], found: list[str]
) -> None:
    given = dict(enumerate(theirs, start=1)), dict(enumerate(here, start=1))
    assert reachable_hosts(*given) == dict(enumerate(found))
