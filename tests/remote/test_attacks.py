"""Attacks on a worker: clients without the token are refused; clients cannot harm others."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from threading import Thread
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.errors import as_error
from braces.remote.protocol import handshake, messages
from braces.remote.protocol.connection import Link, parse_address
from braces.remote.protocol.handshake import (
    GREETING,
    NONCE_BYTES,
    PROOF_BYTES,
    introduce,
    key_of,
)
from braces.remote.protocol.messages import (
    ERROR,
    LOAD,
    RUN,
    Message,
    pack_message,
    unpack_message,
)
from braces.remote.serving.server import MOST_UNAUTHENTICATED
from braces.remote.serving.session import PROGRAM
from tests.remote.workers import TOKEN, connected, linear, listening


@contextmanager
def stranger(server: br.remote.Server) -> Generator[socket.socket]:
    """A connection that has shown nothing."""
    address = parse_address(server.address)
    with closing(socket.create_connection(address, timeout=10)) as connection:
        yield connection


@contextmanager
def guest(server: br.remote.Server) -> Generator[socket.socket]:
    """A connection past the handshake."""
    with stranger(server) as connection:
        introduce(connection, key_of(TOKEN), server.address)
        connection.settimeout(10)
        yield connection


def all_of(connection: socket.socket) -> bytes:
    """Return the received data until the other side closes."""
    data = b""
    try:
        while more := connection.recv(1 << 16):
            data += more
    except ConnectionError:
        pass
    return data


def last_words(connection: socket.socket, sent: bytes) -> None:
    """Send this and no more, as far as the other side listens."""
    with suppress(OSError):
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)


def serves(server: br.remote.Server) -> None:
    """The worker runs what others send, as before."""
    program, y, scope = linear()
    with connected(server) as one:
        one.load(program, scope)
        assert one.run({"x": [[1.0, 10.0]]}, y) == 32.0


# ---- before the key --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n" * 4,
        bytes(NONCE_BYTES + PROOF_BYTES),
        b"\xff" * 500,
        pickle.dumps(print),
        b"".join(pack_message(Message(RUN, {"fetch": ["y"], "timeout_s": None}))),
    ],
)
def test_a_stranger_hears_the_greeting_and_no_more(
    server: br.remote.Server, sent: bytes
) -> None:
    with stranger(server) as connection:
        last_words(connection, sent)
        heard = all_of(connection)
    assert heard in (b"", GREETING + heard[len(GREETING) :])
    assert len(heard) in (0, len(GREETING) + NONCE_BYTES)
    serves(server)


def test_a_wrong_token_is_refused_at_once(server: br.remote.Server) -> None:
    begun = time.monotonic()
    with pytest.raises(br.RemoteError, match="did not accept the token"):
        br.remote.worker(server.address, TOKEN[:-1] + "x")
    assert time.monotonic() - begun < 5
    serves(server)


def test_what_was_heard_once_is_of_no_use_again(server: br.remote.Server) -> None:
    heard = []

    class Listened(socket.socket):
        def sendall(self, data: Any, *flags: int) -> None:
            heard.append(bytes(data))
            super().sendall(data, *flags)

    with Listened() as connection:
        connection.connect(parse_address(server.address))
        introduce(connection, key_of(TOKEN), server.address)
    with stranger(server) as connection:
        connection.sendall(b"".join(heard))
        assert len(all_of(connection)) == len(GREETING) + NONCE_BYTES


def impostor(say: Any) -> tuple[str, Thread]:
    """Listen in place of a worker, for one connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with closing(listener), closing(listener.accept()[0]) as connection:
            say(connection)

    thread = Thread(target=serve)
    thread.start()
    return f"127.0.0.1:{listener.getsockname()[1]}", thread


def reflected(connection: socket.socket) -> None:
    """Answer with the proof of the client itself."""
    connection.sendall(GREETING + bytes(NONCE_BYTES))
    data = connection.recv(NONCE_BYTES + PROOF_BYTES, socket.MSG_WAITALL)
    connection.sendall(data[NONCE_BYTES:])
    all_of(connection)


@pytest.mark.parametrize(
    ("say", "found"),
    [
        (reflected, "does not have the token"),
        (
            lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 4),
            "not a Braces worker",
        ),
    ],
)
def test_a_client_asks_the_worker_for_the_key_too(say: Any, found: str) -> None:
    address, thread = impostor(say)
    with pytest.raises(br.RemoteError, match=found):
        br.remote.worker(address, TOKEN)
    thread.join(5)


def test_a_handshake_that_drips_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 0.3)
    with listening() as server, stranger(server) as connection:
        sent = 0
        with suppress(ConnectionError):
            while sent < NONCE_BYTES:
                connection.sendall(b"x")
                sent += 1
                time.sleep(0.05)
        assert sent < NONCE_BYTES


def test_connections_that_say_nothing_keep_nobody_out(server: br.remote.Server) -> None:
    address = parse_address(server.address)
    silent = [socket.create_connection(address) for _ in range(3 * MOST_UNAUTHENTICATED)]
    try:
        serves(server)
    finally:
        for connection in silent:
            connection.close()


def test_nobody_answers_where_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(br.RemoteError, match="no worker answers"):
        br.remote.worker(address, TOKEN, timeout_s=0.3)


# ---- with the key ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff" * 8,
        (messages.LARGEST_MESSAGE + 1).to_bytes(8, "little"),
        (8).to_bytes(8, "little") + b"\xff" * 8,
        (64).to_bytes(8, "little") + pickle.dumps(print).ljust(64),
        (1000).to_bytes(8, "little") + b"cut short",
        b"\0" * 8,
    ],
)
def test_what_is_no_message_ends_the_connection(server: br.remote.Server, sent: bytes) -> None:
    with guest(server) as connection:
        last_words(connection, sent)
        assert all_of(connection) == b""
    serves(server)


def test_a_damaged_message_is_refused_or_says_something_else(
    rng: np.random.Generator,
) -> None:
    arrays = {"x": np.ones((2, 3), np.float32), "z": np.ones(2, bool)}
    whole = b"".join(pack_message(Message(RUN, {"fetch": ["y"], "timeout_s": None}, arrays)))[
        8:
    ]
    refused = 0
    for _ in range(400):
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        try:
            unpack_message(
                bytes(data[: rng.integers(len(data), len(data) + 5) - rng.integers(5)])
            )
        except br.FileFormatError:
            refused += 1
    assert 200 < refused < 400


def altered(old: bytes, new: bytes) -> Message:
    program, _, scope = linear()
    del scope
    data = program.to_bytes().replace(old, new)
    record = {"mode": "compile", "device": None}
    return Message(LOAD, record, {PROGRAM: np.frombuffer(data, np.uint8)})


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (Message("shutdown"), "FileFormatError"),
        (Message(LOAD, {"mode": "compile", "device": None}), "FileFormatError"),
        (Message(LOAD, {"mode": "exec"}, {PROGRAM: np.zeros(3, np.uint8)}), "ProgramError"),
        (altered(b"braces.program", b"braces.problem"), "FileFormatError"),
        (altered(b"matmul", b"system"), "VerifyError"),
        (Message(RUN, {"fetch": ["y"]}), "ProgramError"),
        (Message("values"), ""),
    ],
)
def test_a_message_that_makes_no_sense_is_answered_by_an_error(
    server: br.remote.Server, asked: Message, error: str
) -> None:
    with guest(server) as connection, closing(Link(connection)) as link:
        answer = link.ask(asked, 10)
        assert answer.record.get("error", "") == error
        assert (answer.kind == ERROR) == bool(error)
        assert link.ask(Message("values"), 10).kind == messages.DONE  # and goes on


def test_an_error_of_a_worker_becomes_none_but_our_own(server: br.remote.Server) -> None:
    for name in ("SystemExit", "KeyboardInterrupt", "_HIDDEN", "suggest", "os", 7, None):
        error = as_error({"error": name, "what": "w", "at": 7, "code": ["x"]}, br.RemoteError)
        assert type(error) is br.RemoteError
        assert str(error) == "w"


def test_a_connection_that_cannot_be_accepted_does_not_end_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [ConnectionAbortedError(), OSError(24, "Too many open files")]

    class Failing(socket.socket):
        def accept(self) -> Any:
            if failures:
                raise failures.pop()
            return super().accept()

    create = socket.create_server
    monkeypatch.setattr(
        socket, "create_server", lambda *a, **k: Failing(fileno=create(*a, **k).detach())
    )
    with listening() as server:
        serves(server)
    assert failures == []


def test_a_client_that_leaves_in_a_run_takes_nobody_along(server: br.remote.Server) -> None:
    program, y, scope = linear()
    with connected(server) as one:
        one.load(program, scope)
        one.submit({"x": np.ones((1 << 16, 2))}, y)
    serves(server)


# ---- keys and addresses ----------------------------------------------------------------------


@pytest.mark.parametrize("token", ["", " " * 40, "short", None, b"0123456789abcdef"])
def test_a_token_is_a_secret(token: Any) -> None:
    with pytest.raises(br.ProgramError, match="token"):
        br.remote.Server("127.0.0.1:0", token)
    with pytest.raises(br.ProgramError, match="token"):
        br.remote.worker("127.0.0.1:1", token)


@pytest.mark.parametrize(
    "address",
    ["", "7000", ":7000", "host", "host:", "host:x", "host:70000", "::1:7000", "h:٣", 7000,
     f"h:{'1' * 5000}"],
)  # fmt: skip
def test_an_address_is_a_host_and_a_port(address: Any) -> None:
    with pytest.raises(br.ProgramError, match="invalid address"):
        br.remote.Server(address, TOKEN)
    with pytest.raises(br.ProgramError, match="invalid address"):
        br.remote.worker(address, TOKEN)


NO_TIMES = -1, "soon", float("nan")


@pytest.mark.parametrize("timeout_s", [*NO_TIMES, None])
def test_the_time_to_reach_a_worker_is_a_number_of_seconds(timeout_s: Any) -> None:
    with pytest.raises(br.ProgramError, match="invalid timeout_s="):
        br.remote.worker("127.0.0.1:1", TOKEN, timeout_s=timeout_s)


def test_the_time_of_a_run_is_a_number_of_seconds(server: br.remote.Server) -> None:
    program, y, scope = linear()
    with connected(server) as one:
        one.load(program, scope)
        for timeout_s in NO_TIMES:
            with pytest.raises(br.ProgramError, match="invalid timeout_s="):
                one.run({"x": [[1.0, 10.0]]}, y, timeout_s=timeout_s)
        assert one.run({"x": [[1.0, 10.0]]}, y, timeout_s=1e300) == 32.0
