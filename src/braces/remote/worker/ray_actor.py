"""A worker that is an actor of Ray, which finds a machine for it; `pip install "braces[ray]"`.

The same messages go through Ray in place of a socket, so who may use that Ray may send. Braces
must be there on all of its machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

from braces.errors import RemoteError
from braces.lazy import ray
from braces.remote.protocol.messages import LENGTH_BYTES, Message, packed, unpacked
from braces.remote.worker.session import Session

RAY = "ray"


class Actor:
    """What the actor does: it holds a session."""

    def __init__(self) -> None:
        self._session = Session()

    def answer(self, request: bytes) -> bytes:
        """The answer to a request, both as they go through sockets."""
        return _joined(self._session.answer(unpacked(request)))


class RayPlace:
    """Where Ray puts an actor, with one CPU.

    Args:
        address: `ray`, that of `RAY_ADDRESS` or of this machine; or `ray://HOST:PORT`.
        env: Variables for the environment of the actor.
        timeout_s: How long it may take to start.
    """

    def __init__(self, address: str, env: Mapping[str, str] | None, timeout_s: float) -> None:
        self.address = address
        self._env = dict(env or {})
        self._timeout_s = timeout_s

    def open(self, closed: Event) -> RayLink:
        """Start an actor, after the one that is gone."""
        del closed
        if not ray.is_initialized():
            ray.init(None if self.address == RAY else self.address)
        options = {"num_cpus": 1, "runtime_env": {"env_vars": self._env}}
        link = RayLink(ray.remote(Actor).options(**options).remote())
        try:
            link.ask(Message("values"), self._timeout_s)
        except OSError as error:
            link.close()
            raise RemoteError(f"Ray starts no worker: {error}", at=self.address) from None
        return link

    def told(self) -> str:
        """Ray says it in its own log."""
        return "was ended, as Ray says"

    def close(self) -> None:
        """An actor ends with its link."""


class RayLink:
    """Asks an actor.

    Args:
        actor: The handle of Ray.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def ask(self, message: Message, timeout_s: float | None = None) -> Message:
        """Send a request, and wait for its answer.

        Raises:
            OSError: The actor is gone, or no answer came in time.
        """
        asked = self._actor.answer.remote(_joined(message))
        try:
            return unpacked(ray.get(asked, timeout=timeout_s))
        except ray.exceptions.GetTimeoutError:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        except ray.exceptions.RayError as error:
            raise ConnectionError(str(error)) from None

    def close(self) -> None:
        """End the actor; who waits for an answer hears of it."""
        if ray.is_initialized():
            ray.kill(self._actor)


def _joined(message: Message) -> bytes:
    """A message without its length, in one piece."""
    return b"".join(packed(message))[LENGTH_BYTES:]
