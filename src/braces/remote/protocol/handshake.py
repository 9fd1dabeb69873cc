"""Client and worker show each other that they hold the key, before anything else is read.

    worker → client   greeting (16 bytes), w                    w, c: 32 random bytes each
    client → worker   c, HMAC(key, greeting "client" w c)
    worker → client   HMAC(key, greeting "worker" w c)
    worker → client   length (u16, little endian), reason   why it has no room; empty if it has

HMAC is that of SHA-256. Nobody learns the key by listening, and what was heard once is of no
use again, for both numbers are new each time. What follows is neither encrypted nor signed.
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
"""How long a handshake may take in all."""
SHORTEST_TOKEN = 16

_LENGTH_BYTES, _LONGEST_REASON = 2, 400
_CLIENT, _WORKER = b"client", b"worker"


def key_of(token: str) -> bytes:
    """A token as the key of proofs; white space around it is left out.

    Raises:
        ProgramError: It is too short to be a secret.
    """
    key = token.strip().encode() if isinstance(token, str) else b""  # pyright: ignore[reportUnnecessaryIsInstance]
    if len(key) < SHORTEST_TOKEN:
        raise ProgramError(
            f"A token is a text of at least {SHORTEST_TOKEN} characters.",
            fix='Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return key


def admit(link: socket.socket, key: bytes) -> bool:
    """The side of the worker: whether the client holds the key.

    Raises:
        OSError: The connection broke, or the client took too long.
    """
    until = monotonic() + HANDSHAKE_S
    ours = secrets.token_bytes(NONCE_BYTES)
    link.settimeout(HANDSHAKE_S)
    link.sendall(GREETING + ours)
    answer = _exactly(link, NONCE_BYTES + PROOF_BYTES, until)
    nonces = ours + answer[:NONCE_BYTES]
    if not hmac.compare_digest(answer[NONCE_BYTES:], _proof(key, _CLIENT, nonces)):
        return False
    link.sendall(_proof(key, _WORKER, nonces))
    return True


def welcome(link: socket.socket, reason: str = "") -> None:
    """Tell a client that was admitted that there is room for it, or why there is none.

    Raises:
        OSError: The connection broke, or the client took too long.
    """
    text = reason[:_LONGEST_REASON].encode()
    link.settimeout(HANDSHAKE_S)
    link.sendall(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    link.settimeout(None)


class NoRoomError(OSError):
    """The worker has as many clients as it takes; it may have room later."""


def introduce(link: socket.socket, key: bytes, address: str) -> None:
    """The side of the client: show the key, and ask for the same.

    Raises:
        RemoteError: What answers is no worker, or holds another key.
        NoRoomError: The worker has no room for this client.
        OSError: The connection broke, or the worker took too long.
    """
    until = monotonic() + HANDSHAKE_S
    greeting = _exactly(link, len(GREETING) + NONCE_BYTES, until)
    if not greeting.startswith(GREETING):
        raise RemoteError(
            f"What listens at {address} is no worker of Braces, or one of another version.",
            fix="Start one: braces worker --listen HOST:PORT --token-file FILE",
        )
    ours = secrets.token_bytes(NONCE_BYTES)
    nonces = greeting[len(GREETING) :] + ours
    link.sendall(ours + _proof(key, _CLIENT, nonces))
    try:
        answer = _exactly(link, PROOF_BYTES, until)
    except _ClosedError:
        raise _refused(f"The worker at {address} did not accept the token.") from None
    if not hmac.compare_digest(answer, _proof(key, _WORKER, nonces)):
        raise _refused(f"What listens at {address} does not hold the token.")
    reason = _exactly(
        link, int.from_bytes(_exactly(link, _LENGTH_BYTES, until), "little"), until
    )
    if reason:
        raise NoRoomError(reason.decode(errors="replace"))
    link.settimeout(None)


class _ClosedError(ConnectionError):
    """The other side closed the connection after it had read everything."""


def _refused(what: str) -> RemoteError:
    return RemoteError(what, fix="Give both sides the same token: token=, and --token-file.")


def _proof(key: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.digest(key, GREETING + role + nonces, "sha256")


def _exactly(link: socket.socket, count: int, until: float) -> bytes:
    """So many bytes, all of them before a moment."""
    data = b""
    while len(data) < count:
        link.settimeout(max(until - monotonic(), 1e-3))
        more = link.recv(count - len(data))
        if not more:
            raise _ClosedError("closed in the handshake")
        data += more
    return data
