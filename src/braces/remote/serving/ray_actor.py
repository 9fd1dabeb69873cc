"""A worker as a Ray actor, with Ray's choice of machine; `pip install "braces[ray]"`.

The same messages go through Ray instead of a socket, so anyone with access to that Ray cluster
may send them. Braces must be installed on all of its machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

from braces.errors import RemoteError
from braces.lazy import ray
from braces.remote.protocol.messages import LENGTH_BYTES, Message, pack_message, unpack_message
from braces.remote.serving.session import Session

RAY = "ray"


class Actor:
    """The Ray actor, which holds a session."""

    def __init__(self) -> None:
        self._session = Session()

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request, both in the format of sockets."""
        return _serialize(self._session.answer(unpack_message(request)))


class RayEndpoint:
    """An endpoint that Ray schedules, with one CPU.

    Args:
        address: `ray`, for `RAY_ADDRESS` or this machine; or `ray://HOST:PORT`.
        env: Extra environment variables of the actor.
        timeout_s: The time limit of its start.
    """

    def __init__(self, address: str, env: Mapping[str, str] | None, timeout_s: float) -> None:
        self.address = address
        self._env = dict(env or {})
        self._timeout_s = timeout_s

    def open(self, closed: Event) -> RayLink:
        """Start an actor in place of one that is gone."""
        del closed
        if not ray.is_initialized():
            ray.init(None if self.address == RAY else self.address)
        options = {"num_cpus": 1, "runtime_env": {"env_vars": self._env}}
        link = RayLink(ray.remote(Actor).options(**options).remote())
        try:
            link.ask(Message("values"), self._timeout_s)
        except OSError as error:
            link.close()
            raise RemoteError(
                f"Ray could not start a worker: {error}", at=self.address
            ) from None
        return link

    def describe_end(self) -> str:
        """Return a reference to Ray's log."""
        return "ended, according to Ray"

    def close(self) -> None:
        """Do nothing: an actor ends with its link."""


class RayLink:
    """A connection to an actor.

    Args:
        actor: The Ray handle.
    """

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def ask(self, message: Message, timeout_s: float | None = None) -> Message:
        """Send a request, and wait for its answer.

        Raises:
            OSError: If the actor ended, or no answer arrives in time.
        """
        reference = self._actor.answer.remote(_serialize(message))
        try:
            return unpack_message(ray.get(reference, timeout=timeout_s))
        except ray.exceptions.GetTimeoutError:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        except ray.exceptions.RayError as error:
            raise ConnectionError(str(error)) from None

    def close(self) -> None:
        """End the actor; waiting threads get an error."""
        if ray.is_initialized():
            ray.kill(self._actor)


def _serialize(message: Message) -> bytes:
    """Serialize a message without its length prefix to bytes."""
    return b"".join(pack_message(message))[LENGTH_BYTES:]
