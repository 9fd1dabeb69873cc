"""Mutual authentication of client and worker by a shared key, before anything else is read.

    worker → client   greeting (16 bytes), w                    w, c: 32 random bytes each
    client → worker   c, HMAC(key, greeting "client" w c)
    worker → client   HMAC(key, greeting "worker" w c)
    worker → client   length (u16, little endian), reason   why it has no room; empty if it has

HMAC uses SHA-256. An eavesdropper learns nothing about the key, and a replay fails, because
both nonces are new each time. The messages that follow are neither encrypted nor signed.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from time import monotonic

from braces.errors import ProgramError, RemoteError

GREETING = b"braces.remote.2\n"
NONCE_BYTES = PROOF_BYTES = 32
HANDSHAKE_S = 5.0
"""The time limit of a handshake."""
SHORTEST_TOKEN = 16

_LENGTH_BYTES, _LONGEST_REASON = 2, 400
_CLIENT, _WORKER = b"client", b"worker"


def key_of(token: str) -> bytes:
    """Return the HMAC key of a token; surrounding white space is ignored.

    Raises:
        ProgramError: If the token is too short.
    """
    key = token.strip().encode() if isinstance(token, str) else b""  # pyright: ignore[reportUnnecessaryIsInstance]
    if len(key) < SHORTEST_TOKEN:
        raise ProgramError(
            f"invalid token; expected a string of at least {SHORTEST_TOKEN} characters.",
            fix='Create one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return key


def admit(link: socket.socket, key: bytes) -> bool:
    """Run the worker side, and return whether the client has the key.

    Raises:
        OSError: If the connection breaks, or the client exceeds the time limit.
    """
    until = monotonic() + HANDSHAKE_S
    ours = secrets.token_bytes(NONCE_BYTES)
    link.settimeout(HANDSHAKE_S)
    link.sendall(GREETING + ours)
    answer = _read_exactly(link, NONCE_BYTES + PROOF_BYTES, until)
    nonces = ours + answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer[NONCE_BYTES:], _proof(key, _CLIENT, nonces)):
        return False
    link.sendall(_proof(key, _WORKER, nonces))
    return True


def welcome(link: socket.socket, reason: str = "") -> None:
    """Send the acceptance, or the reason for a refusal, to an authenticated client.

    Raises:
        OSError: If the connection broke, or the client exceeds the time limit.
    """
    text = reason[:_LONGEST_REASON].encode()
    link.settimeout(HANDSHAKE_S)
    link.sendall(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    link.settimeout(None)


class NoRoomError(OSError):
    """The worker has its maximal number of clients; there may be room later."""


def introduce(link: socket.socket, key: bytes, address: str) -> None:
    """Run the client side: prove the key, and verify the worker's proof.

    Raises:
        RemoteError: If the peer is not a worker, or has a different key.
        NoRoomError: If the worker has no capacity for this client.
        OSError: If the connection breaks, or the worker exceeds the time limit.
    """
    until = monotonic() + HANDSHAKE_S
    greeting = _read_exactly(link, len(GREETING) + NONCE_BYTES, until)
    if not greeting.startswith(GREETING):
        raise RemoteError(
            f"the server at {address} is not a Braces worker, or has another version.",
            fix="Start one: braces worker --listen HOST:PORT --token-file FILE",
        )
    ours = secrets.token_bytes(NONCE_BYTES)
    nonces = greeting[len(GREETING) :] + ours
    link.sendall(ours + _proof(key, _CLIENT, nonces))
    try:
        answer = _read_exactly(link, PROOF_BYTES, until)
    except _ClosedError:
        raise _refused_error(f"The worker at {address} did not accept the token.") from None
    if not hmac.compare_digest(answer, _proof(key, _WORKER, nonces)):
        raise _refused_error(f"The server at {address} does not have the token.")
    reason = _read_exactly(
        link, int.from_bytes(_read_exactly(link, _LENGTH_BYTES, until), "little"), until
    )
    if reason:
        raise NoRoomError(reason.decode(errors="replace"))
    link.settimeout(None)


class _ClosedError(ConnectionError):
    """An orderly close by the other side, after it had read everything."""


def _refused_error(what: str) -> RemoteError:
    return RemoteError(what, fix="Pass the same token to both sides: token= and --token-file.")


def _proof(key: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, GREETING + role + nonces, "sha256")


def _read_exactly(link: socket.socket, count: int, until: float) -> bytes:
    """Read a number of bytes before a deadline."""
    data = b""
    while len(data) < count:
        link.settimeout(max(until - monotonic(), 1e-3))
        more = link.recv(count - len(data))
        if not more:
            raise _ClosedError("closed in the handshake")
        data += more
    return data
