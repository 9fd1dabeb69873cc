"""What all processes of a job must have alike is compared before it is used."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from braces.errors import ClusterError
from braces.lazy import distributed

_TIMEOUT_S = 300.0
_LONGEST, _SHORT = 4096, 1024


def agree(name: str, value: str, *, timeout_s: float = _TIMEOUT_S, fix: str = "") -> None:
    """Go on only if every process of the job brings the same value under a name.

    Each process of the job calls this; the n-th call for a name meets the n-th calls of the
    others. Nothing is computed: the values meet in the store that `jax.distributed` keeps in
    process 0. A process that belongs to no job agrees with itself.

    Args:
        name: What is compared, as `"data"`; it stands in the error.
        value: What this process has: a text of at most 4,096 characters, so a hash where
            it would be long.
        timeout_s: How long the others may take to come here.
        fix: What to do where they differ.

    Raises:
        ClusterError: The values differ, in all processes with the same words; or a process
            did not come in time.

    Example:
        >>> import braces as br
        >>> br.cluster.agree("files", "3f2a")  # a process by itself
    """
    check_alike(name, gather(name, value, timeout_s=timeout_s), fix)


def gather(name: str, value: str, *, timeout_s: float = _TIMEOUT_S) -> dict[int, str]:
    """What every process of the job brings under a name; see `agree`.

    Args:
        name: What it is.
        value: What this process has: a text of at most 4,096 characters.
        timeout_s: How long the others may take to come here.

    Returns:
        The value of each process, by its number.

    Raises:
        ClusterError: A process did not come in time.

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
            f"A value of {len(value)} characters is too long to compare.",
            given=f"{name} = {value[:40]!r}…",
            fix=f"Give at most {_LONGEST} characters, as those of a hash.",
        )
    place = f"braces/{name}/{_next_turn(name)}"
    client.key_value_set(f"{place}/{state.process_id}", f"={value}")
    met = _met(client, place, timeout_s)
    pairs = client.key_value_dir_get(place)
    brought = {int(key.rpartition("/")[2]): said[1:] for key, said in pairs}
    missing = sorted({*range(state.num_processes)} - brought.keys())
    if not met and missing:
        raise ClusterError(
            f"{said_processes(missing)} did not come to compare the {name} "
            f"within {timeout_s:g} s.",
            fix="Let every process run the same programs in the same order.",
        )
    return brought


def process_count() -> int:
    """How many processes the job has; where JAX was not loaded yet, one."""
    return (distributed.global_state.num_processes or 1) if "jax" in sys.modules else 1


def process_index() -> int:
    """Which of them this one is."""
    return distributed.global_state.process_id if process_count() > 1 else 0


def shortened(value: str) -> str:
    """A text that is short enough to be compared, and tells the same from other.

    Example:
        >>> shortened("a"), len(shortened("a" * 5000))
        ('a', 1066)
    """
    if len(value) <= _SHORT:
        return value
    return f"{value[:_SHORT]}… {hashlib.sha256(value.encode()).hexdigest()[:40]}"


def _met(client: Any, place: str, timeout_s: float) -> bool:
    """Wait until all processes are here; whether they came in time."""
    try:
        client.wait_at_barrier(place, int(timeout_s * 1000))
    except RuntimeError as error:
        if "DEADLINE_EXCEEDED" not in str(error):
            raise ClusterError(
                "The processes of the job lost each other.", given=str(error).partition("\n")[0]
            ) from error
        return False
    return True


def _next_turn(name: str) -> int:
    """How often this process has compared something under a name."""
    _turns[name] += 1
    return _turns[name]


_turns = Counter[str]()


def check_alike(name: str, brought: Mapping[int, str], fix: str = "") -> None:
    """Refuse values that are not the same in all processes.

    Args:
        name: What they are.
        brought: The value of each process.
        fix: What to do.

    Raises:
        ClusterError: There are two values or more; it says which processes have which.

    Example:
        >>> check_alike("version of JAX", {0: "0.10.2", 1: "0.10.1", 2: "0.10.2"})
        Traceback (most recent call last):
        braces.errors.ClusterError: The processes do not have the same version of JAX.
          given: processes 0 and 2: 0.10.2; process 1: 0.10.1
    """
    having: dict[str, list[int]] = {}
    for process, value in sorted(brought.items()):
        having.setdefault(value, []).append(process)
    if len(having) > 1:
        told = (f"{said_processes(who)}: {value}" for value, who in having.items())
        raise ClusterError(
            f"The processes do not have the same {name}.",
            given="; ".join(told).replace("Process", "process"),
            fix=fix or None,
        )


def said_processes(numbers: list[int]) -> str:
    """Some processes, in words; long lists are cut.

    Example:
        >>> said_processes([1]), said_processes([0, 2, 3])
        ('Process 1', 'Processes 0, 2 and 3')
    """
    shown = [str(number) for number in numbers[:16]]
    if len(shown) == 1:
        return f"Process {shown[0]}"
    if len(numbers) > len(shown):
        return f"Processes {', '.join(shown)} and {len(numbers) - len(shown)} more"
    return f"Processes {', '.join(shown[:-1])} and {shown[-1]}"
