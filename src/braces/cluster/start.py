"""`br.cluster.start()`: join this process to its job."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

from braces.cluster.failure_detector import FailureDetector
from braces.cluster.process_identity import (
    ATTEMPT,
    TIMEOUT,
    LauncherInfo,
    ProcessIdentity,
    find_identity,
)
from braces.cluster.rendezvous import ConnectedJob, Facts, await_processes, bind_address
from braces.errors import ClusterError
from braces.keywords import hint_keywords
from braces.lazy import backends, distributed, jax, jaxlib, xla_bridge
from braces.runtime.devices.device import compute_in_calling_thread

_TIMEOUT_S, _LINE = 300.0, "\n"
_FLAGS = (
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
)
"""Settings of JAX that change numerical results."""


@dataclass(frozen=True)
class Cluster:
    """Identity of a process in its job.

    Attributes:
        process_index: The number of this process, from 0.
        process_count: Number of processes; 1 for a process alone.
        address: The address of process 0; empty for a process alone.
        found_by: The source of this information: `arguments`, `environment`, `Slurm`, `Open
            MPI`, `PMI` or `Kubernetes`; `nothing` if no source mentioned other processes.
        attempt: Number of restarts of this job by `braces launch`; 0 the first time.
    """

    process_index: int = 0
    process_count: int = 1
    address: str = ""
    found_by: str = "nothing"
    attempt: int = 0

    @property
    def local_devices(self) -> tuple[Any, ...]:
        """The JAX devices of this process."""
        return tuple(jax.local_devices())


@hint_keywords
def start(
    *,
    process_index: int | None = None,
    process_count: int | None = None,
    address: str | None = None,
    local_devices: Sequence[int] | None = None,
    timeout_s: float | None = None,
) -> Cluster:
    """Join this process to its job; call it before any computation.

    The same program runs alone, under `braces launch`, `srun` or `mpirun`, in an Indexed Job of
    Kubernetes, or by Ray. Missing arguments are read from the environment: first the variables
    `BRACES_PROCESS_INDEX`, `BRACES_PROCESS_COUNT` and `BRACES_ADDRESS`, then those of Slurm,
    Open MPI, PMI (MPICH, Intel) and Kubernetes. If none of them mentions other processes, the
    function has no effect, as the result shows.

    Afterwards JAX's devices are those of all processes, and a mesh may span them. The processes
    end together. An uncaught exception, `sys.exit` with a nonzero status, or a killed process
    ends all others at once, with the status 75. A finished process waits until all are. CPU
    collectives use Gloo, between the addresses of the connections to process 0; host names do
    not matter.

    Args:
        process_index: The number of this process, from 0.
        process_count: Number of processes.
        address: The address of process 0, as `"10.0.0.7:8476"`.
        local_devices: The numbers of this process's devices on its machine; by default all, or
            one for each process if several of them see all devices.
        timeout_s: Seconds to wait until all processes have arrived; by default the value of
            `braces launch --timeout`, else 300.

    Returns:
        The identity of this process. A second call returns the same.

    Raises:
        ClusterError: If a process did not arrive; two have the same number; or the processes
            differ in the versions of Braces, JAX or Python, or in settings of JAX. All raise
            the same error.

    Example:
        >>> import braces as br
        >>> job = br.cluster.start()  # a process by itself
        >>> job.process_index, job.process_count, job.found_by
        (0, 1, 'nothing')
    """
    arguments = LauncherInfo(process_index, process_count, address)
    place = find_identity(arguments, os.environ)
    if place is None:
        return Cluster(found_by="nothing" if arguments == LauncherInfo() else "arguments")
    cluster = Cluster(place.index, place.count, place.address, place.found_by, _attempt())
    if jax.distributed.is_initialized():
        return _check_initialized(cluster)
    patience_s = _timeout(timeout_s)
    gathered = await_processes(place, _versions_and_settings(), patience_s)
    FailureDetector(place.index, gathered.lines).begin()
    _connect(place, gathered, local_devices, patience_s)
    return cluster


def _check_initialized(target: Cluster) -> Cluster:
    """Return the identity that this process already has, if it is the requested one."""
    state = distributed.global_state
    if (state.process_id, state.num_processes) != (
        target.process_index,
        target.process_count,
    ):
        raise ClusterError(
            f"this process has already joined a job, as process {state.process_id} of "
            f"{state.num_processes}.",
            given=f"process_index={target.process_index}, process_count={target.process_count}",
            fix="Call br.cluster.start() only once.",
        )
    return target


def _attempt() -> int:
    text = os.environ.get(ATTEMPT, "0")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _timeout(timeout_s: float | None) -> float:
    """Return the timeout in seconds."""
    text: Any = os.environ.get(TIMEOUT, _TIMEOUT_S) if timeout_s is None else timeout_s
    try:
        seconds = float(text)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 < seconds <= 1e6:
        raise ClusterError(
            f"invalid timeout_s={text!r:.40}; expected a positive number of seconds.",
            fix="Use seconds, such as timeout_s=60.",
        )
    return seconds


def _versions_and_settings() -> Facts:
    """Return the versions and settings that must agree in all processes."""
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
    place: ProcessIdentity,
    gathered: ConnectedJob,
    local_devices: Sequence[int] | None,
    timeout_s: float,
) -> None:
    """Initialize JAX's distributed runtime; all processes have arrived."""
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
        _use_address(gathered.host)
    except RuntimeError as error:
        raise ClusterError(
            "JAX could not connect this process to its job.",
            given=f"{str(error).partition(_LINE)[0]}; this process is at {gathered.host}",
            fix="Call br.cluster.start() before any computation; all hosts must reach one "
            "another at any port.",
        ) from error


def _use_address(host: str) -> None:
    """Make the Gloo collectives of this process's CPUs use the given address.

    By default, JAX uses the machine's host name.
    """
    collectives = jaxlib.make_gloo_tcp_collectives(
        distributed_client=distributed.global_state.client, hostname=host
    )
    factory = partial(xla_bridge.make_cpu_client, collectives=collectives)
    backends.register_backend_factory("cpu", factory, priority=0, fail_quietly=False)
