"""Limits and options of the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any

from braces.errors import ProgramError


@dataclass(frozen=True)
class ServingSettings:
    """Limits and options; `braces serve` has an option for each.

    Attributes:
        max_batch: The largest batch size; 1 turns batching off.
        wait_ms: The time that an idle model waits for more requests.
        max_queue: The largest number of requests that wait for a model.
        max_requests: The largest number of requests at a time.
        max_body_bytes: The largest body of a request.
        body_timeout_s: The time limit of the body of a request.
        timeout_s: The time limit of a request, without its body.
        max_tokens: The largest number of iterations of a generation.
        sizes: By symbolic size that is not the batch axis: the sizes that are accepted, and
            compiled at the start.
        token: The token that clients need; `None` for none.
        hosts: The names of this server that the `Host` header may have; empty for any.
        page: Whether `/` answers with the page to try a model by hand.
        access_log: Whether each request is logged as a line of JSON.
    """

    max_batch: int = 32
    wait_ms: float = 0.0
    max_queue: int = 256
    max_requests: int = 1024
    max_body_bytes: int = 64 << 20
    body_timeout_s: float = 10.0
    timeout_s: float = 30.0
    max_tokens: int = 4096
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    token: str | None = None
    hosts: tuple[str, ...] = ()
    page: bool = True
    access_log: bool = False


_LOWEST = {"wait_ms": 0.0, "body_timeout_s": 0.001, "timeout_s": 0.001}
_LONGEST_S, _SHORTEST_TOKEN = 86400.0, 16


def make_settings(
    *,
    sizes: Mapping[str, Sequence[int]] | None = None,
    hosts: Sequence[str] | None = None,
    **options: Any,
) -> ServingSettings:
    """Return checked settings.

    Raises:
        ProgramError: If an option is out of range.
    """
    each = {name: tuple(numbers) for name, numbers in (sizes or {}).items()}
    settings = ServingSettings(sizes=each, hosts=tuple(hosts or ()), **options)
    for option in fields(ServingSettings):
        value, default = getattr(settings, option.name), option.default
        if type(default) is int and (type(value) is not int or not 1 <= value < 2**31):
            raise _invalid(option.name, value, "an integer of at least 1")
        if type(default) is float:
            _check_number(option.name, value, _LOWEST[option.name])
    if settings.token is not None:
        _check_token(settings.token)
    for name, numbers in settings.sizes.items():
        if not numbers or not all(type(size) is int and 0 < size < 2**31 for size in numbers):
            raise _invalid(f"sizes[{name!r}]", numbers, "integers of at least 1")
    return settings


def _check_number(name: str, value: Any, lowest: float) -> None:
    if type(value) not in (int, float) or not isfinite(value):
        raise _invalid(name, value, "a number")
    if not lowest <= value <= _LONGEST_S:
        raise _invalid(name, value, f"a number from {lowest} to {_LONGEST_S:.0f}")


def _check_token(token: Any) -> None:
    if not isinstance(token, str) or len(token) < _SHORTEST_TOKEN:
        raise ProgramError(
            f"the token is shorter than {_SHORTEST_TOKEN} characters.",
            fix="Use secrets.token_urlsafe(32).",
        )
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ProgramError("the token has characters that a header cannot have.")


def _invalid(name: str, value: Any, expected: str) -> ProgramError:
    return ProgramError(f"invalid `{name}`: {value!r:.60}; expected {expected}.")
