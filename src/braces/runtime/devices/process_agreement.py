"""Agreement of the processes of a job: values that must be equal are compared."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from braces.errors import ClusterError
from braces.keywords import hint_keywords
from braces.lazy import distributed

_TIMEOUT_S = 300.0
_LONGEST, _SHORT = 4096, 1024


@hint_keywords
def agree(name: str, value: str, *, timeout_s: float = _TIMEOUT_S, fix: str = "") -> None:
    """Check that every process of the job has the same value under a name.

    Each process of the job calls this; the n-th call for a name meets the n-th calls of the
    others. Nothing is computed: the values are exchanged in the key-value store of
    `jax.distributed` in process 0. A process without a job agrees with itself.

    Args:
        name: The subject of the comparison, as `"data"`; the error contains it.
        value: The value of this process: a text of at most 4,096 characters, for example a
            hash.
        timeout_s: The time limit for the other processes to arrive.
        fix: The suggested fix if the values differ.

    Raises:
        ClusterError: If the values differ, with the same message in all processes; or a process
            did not arrive in time.

    Example:
        >>> import braces as br
        >>> br.cluster.agree("files", "3f2a")  # a process by itself
    """
    check_equal_values(name, gather(name, value, timeout_s=timeout_s), fix)


def gather(name: str, value: str, *, timeout_s: float = _TIMEOUT_S) -> dict[int, str]:
    """Return the values of every process of the job under a name; see `agree`.

    Args:
        name: The subject.
        value: The value of this process: a text of at most 4,096 characters.
        timeout_s: The time limit for the other processes to arrive.

    Returns:
        The value of each process, by its number.

    Raises:
        ClusterError: If a process did not arrive in time.

    Example:
        >>> gather("files", "3f2a")  # a process by itself
        {0: '3f2a'}
    """
    if process_count() == 1:
        return {0: value}
    state = distributed.global_state
    client: Any = state.client
    if len(value) > _LONGEST:
        raise ClusterError(
            f"`value` has {len(value)} characters; expected at most {_LONGEST}.",
            given=f"{name} = {value[:40]!r}…",
            fix="Pass a hash of the value.",
        )
    place = f"braces/{name}/{_next_turn(name)}"
    client.key_value_set(f"{place}/{state.process_id}", f"={value}")
    arrived = _wait_at_barrier(client, place, timeout_s)
    pairs = client.key_value_dir_get(place)
    values = {int(key.rpartition("/")[2]): text[1:] for key, text in pairs}
    missing = sorted({*range(state.num_processes)} - values.keys())
    if not arrived and missing:
        raise ClusterError(
            f"{describe_processes(missing)} did not compare the {name} within {timeout_s:g} s.",
            fix="Run the same programs in the same order in every process.",
        )
    return values


def process_count() -> int:
    """Return the number of processes of the job; 1 if JAX is not loaded yet."""
    return (distributed.global_state.num_processes or 1) if "jax" in sys.modules else 1


def process_index() -> int:
    """Return the index of this process."""
    return distributed.global_state.process_id if process_count() > 1 else 0


def shorten_value(value: str) -> str:
    """Return a text that is short enough to be compared, and differs if the value differs.

    Example:
        >>> shorten_value("a"), len(shorten_value("a" * 5000))
        ('a', 1066)
    """
    if len(value) <= _SHORT:
        return value
    return f"{value[:_SHORT]}… {hashlib.sha256(value.encode()).hexdigest()[:40]}"


def _wait_at_barrier(client: Any, place: str, timeout_s: float) -> bool:
    """Wait at a barrier; return whether all processes arrived in time."""
    try:
        client.wait_at_barrier(place, int(timeout_s * 1000))
    except RuntimeError as error:
        if "DEADLINE_EXCEEDED" not in str(error):
            raise ClusterError(
                "a process of the job lost its connection to the others.",
                given=str(error).partition("\n")[0],
            ) from error
        return False
    return True


def _next_turn(name: str) -> int:
    """Return the number of comparisons of this process under a name."""
    _turns[name] += 1
    return _turns[name]


_turns = Counter[str]()


def check_equal_values(name: str, brought: Mapping[int, str], fix: str = "") -> None:
    """Refuse values that differ between processes.

    Args:
        name: The subject.
        brought: The value of each process.
        fix: The suggested fix.

    Raises:
        ClusterError: If the values differ; the error lists the processes of each.

    Example:
        >>> check_equal_values("version of JAX", {0: "0.10.2", 1: "0.10.1", 2: "0.10.2"})
        Traceback (most recent call last):
        braces.errors.ClusterError: the version of JAX differs between processes.
          given: processes 0 and 2: 0.10.2; process 1: 0.10.1
    """
    having: dict[str, list[int]] = {}
    for process, value in sorted(brought.items()):
        having.setdefault(value, []).append(process)
    if len(having) > 1:
        groups = (f"{describe_processes(who)}: {value}" for value, who in having.items())
        raise ClusterError(
            f"the {name} differs between processes.",
            given="; ".join(groups).replace("Process", "process"),
            fix=fix or None,
        )


def describe_processes(numbers: list[int]) -> str:
    """Return some processes in words; long lists are truncated.

    Example:
        >>> describe_processes([1]), describe_processes([0, 2, 3])
        ('Process 1', 'Processes 0, 2 and 3')
    """
    shown = [str(number) for number in numbers[:16]]
    if len(shown) == 1:
        return f"Process {shown[0]}"
    if len(numbers) > len(shown):
        return f"Processes {', '.join(shown)} and {len(numbers) - len(shown)} more"
    return f"Processes {', '.join(shown[:-1])} and {shown[-1]}"
