"""`br.cluster.start()`: make this process one of its job."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

from braces.cluster.failure_detector import Watch
from braces.cluster.process_identity import ATTEMPT, TIMEOUT, Place, Told, find_place
from braces.cluster.rendezvous import Facts, Gathered, bind_address, gather
from braces.errors import ClusterError
from braces.lazy import backends, distributed, jax, jaxlib, xla_bridge
from braces.runtime.devices.device import compute_in_calling_thread

_TIMEOUT_S, _LINE = 300.0, "\n"
_FLAGS = (
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
)
"""Settings of JAX that change what a program computes."""


@dataclass(frozen=True)
class Cluster:
    """A process in its job.

    Attributes:
        process_index: The number of this process, from 0.
        process_count: How many there are; 1 where this process is alone.
        address: Where process 0 was met; empty where this process is alone.
        found_by: What said so: `arguments`, `environment`, `Slurm`, `Open MPI`, `PMI` or
            `Kubernetes`; `nothing` where nothing told of other processes.
        attempt: How often `braces launch` has started this job again; 0 the first time.
    """

    process_index: int = 0
    process_count: int = 1
    address: str = ""
    found_by: str = "nothing"
    attempt: int = 0

    @property
    def local_devices(self) -> tuple[Any, ...]:
        """The devices of JAX that are this process's own."""
        return tuple(jax.local_devices())


def start(
    *,
    process_index: int | None = None,
    process_count: int | None = None,
    address: str | None = None,
    local_devices: Sequence[int] | None = None,
    timeout_s: float | None = None,
) -> Cluster:
    """Make this process one of its job, before anything is computed.

    The same program runs alone, under `braces launch`, `srun`, `mpirun`, in an Indexed Job of
    Kubernetes or by Ray: what is not given is found in the environment, first in the variables
    `BRACES_PROCESS_INDEX`, `BRACES_PROCESS_COUNT` and `BRACES_ADDRESS`, then in those of Slurm,
    Open MPI, PMI (MPICH, Intel) and Kubernetes. Where nothing tells of other processes, nothing
    happens, and the result says so.

    Afterwards the devices of all processes are JAX's, and a mesh may span them. The processes
    end together: an exception that nobody catches, `sys.exit` with another status than 0, and a
    process that is killed end all others at once, with the status 75; a process that is done
    waits until all are. Collectives of CPUs go by Gloo, from and to the address that each
    process has towards process 0; what the machines call themselves does not matter.

    Args:
        process_index: The number of this process, from 0.
        process_count: How many there are.
        address: Where process 0 is met, as `"10.0.0.7:8476"`.
        local_devices: The devices of the machine that are this process's own, by their number;
            by default all, or one for each process where several of them see all devices.
        timeout_s: How long to wait until all are there; 300 by default, or what
            `braces launch --timeout` said.

    Returns:
        The place of this process. A second call gives the same.

    Raises:
        ClusterError: A process did not come, two have the same number, or they differ in the
            versions of Braces, JAX or Python, or in settings of JAX; all say the same.

    Example:
        >>> import braces as br
        >>> job = br.cluster.start()  # a process by itself
        >>> job.process_index, job.process_count, job.found_by
        (0, 1, 'nothing')
    """
    given = Told(process_index, process_count, address)
    place = find_place(given, os.environ)
    if place is None:
        return Cluster(found_by="nothing" if given == Told() else "arguments")
    made = Cluster(place.index, place.count, place.address, place.found_by, _attempt())
    if jax.distributed.is_initialized():
        return _again(made)
    patience_s = _patience(timeout_s)
    gathered = gather(place, _facts(), patience_s)
    Watch(place.index, gathered.lines).begin()
    _connect(place, gathered, local_devices, patience_s)
    return made


def _again(wanted: Cluster) -> Cluster:
    """The place that this process has, if it is the one that is wanted."""
    state = distributed.global_state
    if (state.process_id, state.num_processes) != (wanted.process_index, wanted.process_count):
        raise ClusterError(
            f"This process is process {state.process_id} of {state.num_processes} already.",
            given=f"process_index={wanted.process_index}, process_count={wanted.process_count}",
            fix="Call br.cluster.start() once.",
        )
    return wanted


def _attempt() -> int:
    text = os.environ.get(ATTEMPT, "0")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _patience(timeout_s: float | None) -> float:
    """How long to wait, in seconds."""
    said: Any = os.environ.get(TIMEOUT, _TIMEOUT_S) if timeout_s is None else timeout_s
    try:
        seconds = float(said)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 < seconds <= 1e6:
        raise ClusterError(
            f"timeout_s={said!r:.40} is no time to wait.", fix="Use seconds, as timeout_s=60."
        )
    return seconds


def _facts() -> Facts:
    """What all processes must have alike."""
    versions = {f"version of {name}": _version(name) for name in ("braces", "jax", "jaxlib")}
    python = ".".join(platform.python_version_tuple()[:2])
    flags = {f"setting {name}": str(getattr(jax.config, name)) for name in _FLAGS}
    return {**versions, "version of python": python, **flags}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _connect(
    place: Place, gathered: Gathered, local_devices: Sequence[int] | None, timeout_s: float
) -> None:
    """Let JAX know of all processes, which are there."""
    compute_in_calling_thread()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    devices = place.devices if local_devices is None else local_devices
    try:
        jax.distributed.initialize(
            gathered.address,
            place.count,
            place.index,
            None if devices is None else list(devices),
            cluster_detection_method="deactivate",
            initialization_timeout=max(int(timeout_s), 1),
            coordinator_bind_address=bind_address(place.address),
        )
        _meet_at(gathered.host)
    except RuntimeError as error:
        raise ClusterError(
            "JAX did not let this process join its job.",
            given=f"{str(error).partition(_LINE)[0]}; this process is at {gathered.host}",
            fix="Call br.cluster.start() first of all, before anything is computed; all hosts "
            "must reach one another, at any port.",
        ) from error


def _meet_at(host: str) -> None:
    """Let the CPUs of other processes reach those of this one at an address.

    JAX would take the machine's own name for it.
    """
    collectives = jaxlib.make_gloo_tcp_collectives(
        distributed_client=distributed.global_state.client, hostname=host
    )
    factory = partial(xla_bridge.make_cpu_client, collectives=collectives)
    backends.register_backend_factory("cpu", factory, priority=0, fail_quietly=False)
