"""Clients that disconnect, stall or arrive in large numbers: their slots are freed at once."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.remote.package import Package
from braces.remote.protocol import handshake
from braces.remote.protocol.connection import Link, parse_address
from braces.remote.protocol.handshake import introduce, key_of
from braces.remote.protocol.messages import ERROR, RUN, Message, pack_message
from braces.remote.serving import server as serving
from braces.remote.serving.server import MOST_CLIENTS, MOST_UNAUTHENTICATED
from braces.remote.serving.session import Session
from tests.remote.workers import TOKEN, connected, linear, listening

pytestmark = pytest.mark.unoptimized
GONE_S = 20.0


@contextmanager
def guest(server: br.remote.Server) -> Generator[socket.socket]:
    """A connection past the handshake."""
    address = parse_address(server.address)
    with closing(socket.create_connection(address, timeout=30)) as connection:
        introduce(connection, key_of(TOKEN), server.address)
        connection.settimeout(30)
        yield connection


def runs(program: br.Program, feed: dict[str, Any], mode: str) -> list[Message]:
    """Requests of a client that loads a program and runs it."""
    shipment = Package(program, br.Scope(), mode, None)
    return [shipment.message, shipment.request(feed, ["y"], None)]


def countdown() -> br.Program:
    """A loop that counts from `x` down to zero by steps of `step`."""
    with br.Program() as program:
        x, step = br.data("x", []), br.data("step", [])
        y = br.while_loop(lambda last: last > 0.0, lambda last: last - step, x)
        br.identity(y, name="y")
    return program


def endless_run(mode: str) -> list[Message]:
    """Requests of a client whose run does not end by itself."""
    return runs(countdown(), {"x": 1.0, "step": 0.0}, mode)


def begin(connection: socket.socket, messages: list[Message]) -> None:
    """Send all, and read the answers to all but the last one."""
    link = Link(connection)
    *first, last = messages
    for message in first:
        answer = link.ask(message, 60)
        assert answer.kind != ERROR, answer.record
    link.send(last)


def eventually(condition: Callable[[], bool], within_s: float = GONE_S) -> bool:
    """Return whether something becomes true."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def serves(server: br.remote.Server) -> None:
    """The worker runs what a new client sends."""
    program, y, scope = linear()
    with connected(server, timeout_s=GONE_S) as one:
        one.load(program, scope)
        assert one.run({"x": [[1.0, 10.0]]}, y) == 32.0


def clients(server: br.remote.Server) -> int:
    return len(vars(server)["_clients"])


def sessions() -> int:
    """Return the number of threads that serve connections."""
    return sum(thread.name == "braces-client" for thread in threading.enumerate())


def close_by_reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def close_half(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)


LEAVING = {"close": socket.socket.close, "reset": close_by_reset, "half": close_half}


# ---- during a run ----------------------------------------------------------------------------


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
def test_a_client_that_leaves_during_a_run_frees_its_slot_and_ends_the_run(
    mode: str, leave: Callable[[socket.socket], None], caplog: pytest.LogCaptureFixture
) -> None:
    with listening() as server, guest(server) as connection:
        before = sessions()
        begin(connection, endless_run(mode))
        time.sleep(0.3)
        assert clients(server) == 1
        with caplog.at_level(logging.WARNING, "braces"):
            leave(connection)
            assert eventually(lambda: clients(server) == 0)
            assert eventually(lambda: sessions() < before)
        assert "disconnected during a run" in caplog.text


def test_a_closed_server_has_ended_the_runs_and_threads_of_its_clients(mode: str) -> None:
    with ExitStack() as stack:
        with listening() as server:
            connection = stack.enter_context(guest(server))
            begin(connection, endless_run(mode))
            time.sleep(0.3)
            assert sessions() == 1
        assert sessions() == 0


@pytest.mark.parametrize("count", [8, pytest.param(MOST_CLIENTS, marks=pytest.mark.thorough)])
def test_as_many_clients_as_fit_that_left_during_a_run_lock_nobody_out(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_CLIENTS", count)
    messages = endless_run("interpret")
    with listening() as server, ExitStack() as stack:
        there = [stack.enter_context(guest(server)) for _ in range(count)]
        for connection in there:
            begin(connection, messages)
        assert clients(server) == count
        stack.close()
        serves(server)
        assert eventually(lambda: clients(server) == 0)


def test_a_slot_is_free_also_where_the_run_cannot_be_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(Session, "answer", lambda *_: goes_on.wait(60) and Message(ERROR))
    with listening() as server:
        with guest(server) as connection:
            Link(connection).send(Message("values"))
            time.sleep(0.2)
        assert eventually(lambda: clients(server) == 0)
        assert sessions()
        goes_on.set()
        assert eventually(lambda: not sessions())


def test_a_client_that_speaks_out_of_turn_is_sent_away(mode: str) -> None:
    with listening() as server, guest(server) as connection:
        begin(connection, endless_run(mode))
        time.sleep(0.3)
        connection.sendall(b"x")
        assert eventually(lambda: clients(server) == 0)


def test_a_client_that_waits_gets_its_answer(server: br.remote.Server, mode: str) -> None:
    with connected(server, mode=mode) as one:
        one.load(countdown())
        many = 2e3 if mode == "interpret" else 1.6e7
        assert one.run({"x": many, "step": 1.0}, "y") == 0.0
        time.sleep(0.3)
        assert one.run({"x": 3.0, "step": 1.0}, "y") == 0.0


def test_the_end_of_a_worker_ends_its_runs(mode: str) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(listening())
        connection = stack.enter_context(guest(server))
        before = sessions()
        begin(connection, endless_run(mode))
        time.sleep(0.3)
        server.close()
        assert eventually(lambda: sessions() < before)


# ---- refused ---------------------------------------------------------------------------------


def test_a_client_without_room_is_told_why_and_comes_in_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(serving, "MOST_CLIENTS", 2)
    with listening() as server, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(guest(server))
        with (
            caplog.at_level(logging.WARNING, "braces"),
            pytest.raises(
                br.RemoteError, match="refuses this client: it has 2 clients"
            ) as found,
        ):
            connected(server, timeout_s=0.2)
        assert "close()" in str(found.value)
        assert "refused: it has 2 clients" in caplog.text
        threading.Timer(0.5, stack.close).start()
        serves(server)


def test_a_wrong_token_is_in_the_log(
    server: br.remote.Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "braces"), pytest.raises(br.RemoteError):
        br.remote.worker(server.address, TOKEN + "x")
    assert "127.0.0.1" in caplog.text
    assert "does not have the token" in caplog.text


def test_many_clients_come_at_once(server: br.remote.Server) -> None:
    def come(_: int) -> None:
        with guest(server) as connection, closing(Link(connection)) as link:
            assert link.ask(Message("values"), 30).kind != ERROR

    with ThreadPoolExecutor(MOST_CLIENTS // 2) as pool:
        list(pool.map(come, range(MOST_CLIENTS)))
    assert eventually(lambda: clients(server) == 0)


def test_a_connection_that_has_to_go_is_reset_which_a_client_takes_for_no_refusal(
    server: br.remote.Server,
) -> None:
    address = parse_address(server.address)
    with ExitStack() as stack:
        first = stack.enter_context(closing(socket.create_connection(address, timeout=10)))
        time.sleep(0.2)
        for _ in range(MOST_UNAUTHENTICATED):
            stack.enter_context(closing(socket.create_connection(address)))
        time.sleep(0.3)
        with pytest.raises(ConnectionResetError):
            introduce(first, key_of(TOKEN), server.address)


# ---- clients that stall ----------------------------------------------------------------------


def test_a_handshake_that_says_nothing_ends_and_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.3)
    with listening() as server, caplog.at_level(logging.WARNING, "braces"):
        address = parse_address(server.address)
        with socket.create_connection(address, timeout=10) as silent, suppress(ConnectionError):
            while silent.recv(100):
                pass
        assert eventually(lambda: "too slow" in caplog.text)


@pytest.mark.parametrize("sent", [b"\x10", (1000).to_bytes(8, "little") + b"half"])
def test_a_message_that_does_not_go_on_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(serving, "STALL_S", 0.3)
    with listening() as server, guest(server) as connection:
        time.sleep(0.5)  # between messages there is no limit
        assert clients(server) == 1
        connection.sendall(sent)
        assert connection.recv(100) == b""
        assert eventually(lambda: clients(server) == 0)


def test_a_client_that_does_not_read_its_answer_loses_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "STALL_S", 0.5)
    with br.Program() as program:
        br.add(br.data("x", []), br.zeros([1 << 24]), name="y")
    messages = runs(program, {"x": 1.0}, "interpret")
    with listening() as server, guest(server) as connection:
        begin(connection, messages)
        assert eventually(lambda: clients(server) == 0)


def test_a_message_in_small_pieces_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "STALL_S", 1.0)
    frame = b"".join(pack_message(Message(RUN, {"fetch": ["y"]}, {"x": np.ones(3)})))
    with listening() as server, guest(server) as connection:
        for at in range(0, len(frame), len(frame) // 8):
            connection.sendall(frame[at : at + len(frame) // 8])
            time.sleep(0.2)
        assert Link(connection).receive().record["error"] == "ProgramError"
