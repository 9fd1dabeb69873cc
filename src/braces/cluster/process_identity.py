"""Number and address of this process in its job, from arguments and the environment."""

from __future__ import annotations

import re
import socket
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import SupportsIndex

from braces.errors import ClusterError

Environment = Mapping[str, str]

INDEX, COUNT, ADDRESS = "BRACES_PROCESS_INDEX", "BRACES_PROCESS_COUNT", "BRACES_ADDRESS"
JOB, ATTEMPT, TIMEOUT = "BRACES_JOB", "BRACES_ATTEMPT", "BRACES_TIMEOUT_S"
LOCAL_INDEX, LOCAL_COUNT = "BRACES_LOCAL_INDEX", "BRACES_LOCAL_COUNT"
"""The variables of `braces launch`; other launchers may set them too."""

KUBERNETES_PORT = 8476
MAX_PROCESSES = 1 << 16
_FIRST_PORT, _PORTS = 61440, 4096  # above Linux's ephemeral ports


@dataclass(frozen=True)
class ProcessIdentity:
    """A process in its job.

    Attributes:
        index: Its number, from 0.
        count: Number of processes.
        address: The address of process 0, as `"host:port"`.
        job: Identifier that distinguishes jobs at the same address.
        found_by: The sources of this information.
        devices: The numbers of this process's devices on its machine; `None` for all.
    """

    index: int
    count: int
    address: str
    job: str = ""
    found_by: str = ""
    devices: tuple[int, ...] | None = None


@dataclass(frozen=True)
class LauncherInfo:
    """Information of one source about a process; `None` where it is silent."""

    index: int | None = None
    count: int | None = None
    address: str | None = None
    job: str | None = None
    local_index: int | None = None
    local_count: int | None = None

    def or_else(self, other: LauncherInfo) -> LauncherInfo:
        """Return this record, completed from another one."""
        mine, others = vars(self), vars(other)
        return LauncherInfo(**{n: others[n] if x is None else x for n, x in mine.items()})


def find_identity(arguments: LauncherInfo, environment: Environment) -> ProcessIdentity | None:
    """Return the number and address of this process, or `None` if it is alone.

    Sources, in order: arguments, the variables `BRACES_…`, then the first of Slurm, MPI and
    Kubernetes that is present. Each completes the fields that earlier ones left open.

    Raises:
        ClusterError: If a field is missing, or is not a valid number.

    Example:
        >>> find_identity(LauncherInfo(), {})
        >>> find_identity(LauncherInfo(1, 2, "10.0.0.7:9000"), {}).address
        '10.0.0.7:9000'
    """
    info, origins = arguments, ["arguments"] if arguments != LauncherInfo() else []
    for name, find in SOURCES:
        more = find(environment)
        if more is not None and (name == "environment" or None in _required_fields(info)):
            origins.append(name)
            info = info.or_else(more)
            if name != "environment":
                break
    if not origins or (info.count == 1 and not info.index):
        return None
    return _check_place(info, " and ".join(origins), _own_devices(info, environment))


def _required_fields(info: LauncherInfo) -> tuple[int | None, int | None, str | None]:
    return info.index, info.count, info.address


def _own_devices(info: LauncherInfo, environment: Environment) -> tuple[int, ...] | None:
    """Return one device per process of a machine, if its processes see all devices."""
    count, visible = info.local_count, environment.get("CUDA_VISIBLE_DEVICES")
    if info.local_index is None or count is None or count == 1:
        return None
    if visible is not None and len(visible.split(",")) < count:
        return None  # the launcher assigned devices
    return (info.local_index,)


def _check_place(
    info: LauncherInfo, origin: str, devices: tuple[int, ...] | None
) -> ProcessIdentity:
    """Validate the fields and return the place."""
    index, count, address = _required_fields(info)
    if index is None or count is None or address is None:
        names = zip((INDEX, COUNT, ADDRESS), _required_fields(info), strict=True)
        missing = " and ".join(name for name, value in names if value is None)
        raise ClusterError(
            "the index, the count or the address of this process in its job is missing.",
            given=f"{_info_text(info)} (from {origin})",
            fix=f"Set {missing}, or pass the argument of that name to br.cluster.start().",
        )
    if not (_is_number(index) and _is_number(count) and 0 <= index < count <= MAX_PROCESSES):
        raise ClusterError(
            f"process index {index!r:.40} is out of range for {count!r:.40} processes.",
            given=f"{_info_text(info)} (from {origin})",
            fix=f"Number processes from 0; the maximum count is {MAX_PROCESSES}.",
        )
    split_address(address)
    return ProcessIdentity(index, count, address, info.job or "", origin, devices)


def _is_number(value: object) -> bool:
    """Return whether an argument is an integer."""
    return isinstance(value, SupportsIndex)


def _info_text(info: LauncherInfo) -> str:
    pairs = ((f.name, getattr(info, f.name)) for f in fields(info))
    return ", ".join(f"{name}={value}" for name, value in pairs if value is not None)


def split_address(address: str) -> tuple[str, int]:
    """Return host and port.

    Raises:
        ClusterError: If the address is invalid.

    Example:
        >>> split_address("[::1]:80"), split_address("node-1:8476")
        (('::1', 80), ('node-1', 8476))
    """
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 1 << 16:
        raise ClusterError(
            f"invalid address {address!r:.80}.", fix="Use HOST:PORT, such as 10.0.0.7:8476."
        )
    return host.strip("[]"), int(port)


# ---- sources ---------------------------------------------------------------------------------


def _environment(environment: Environment) -> LauncherInfo | None:
    """Read the variables of `braces launch`."""
    if not any(name in environment for name in (INDEX, COUNT, ADDRESS)):
        return None
    return LauncherInfo(
        _number(environment, INDEX),
        _number(environment, COUNT),
        environment.get(ADDRESS),
        environment.get(JOB),
        _number(environment, LOCAL_INDEX),
        _number(environment, LOCAL_COUNT),
    )


def _slurm(environment: Environment) -> LauncherInfo | None:
    """Read the variables of a task of `srun`; `None` in the batch script itself."""
    nodes = environment.get("SLURM_STEP_NODELIST")
    if nodes is None or "SLURM_STEP_NUM_TASKS" not in environment:
        return None
    job = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    tasks = re.match(r"\d{1,6}", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return LauncherInfo(
        _number(environment, "SLURM_PROCID"),
        _number(environment, "SLURM_STEP_NUM_TASKS"),
        f"{first_node(nodes)}:{_port(job)}",
        job,
        _number(environment, "SLURM_LOCALID"),
        int(tasks.group()) if tasks else None,
    )


def first_node(nodes: str) -> str:
    """Return the first name of a Slurm node list.

    Example:
        >>> [first_node(x) for x in ("n1", "n1,n2", "gpu[007-009,12],n3", "rack[2,4]-ib")]
        ['n1', 'n1', 'gpu007', 'rack2-ib']
    """
    matched = re.match(r"([^,\[]*)(?:\[([^\],-]+)[^\]]*\])?([^,\[]*)", nodes)
    return "".join(part or "" for part in matched.groups()) if matched else nodes


def _open_mpi(environment: Environment) -> LauncherInfo | None:
    """Read the variables of Open MPI's `mpirun`."""
    if "OMPI_COMM_WORLD_RANK" not in environment:
        return None
    job = environment.get("PMIX_NAMESPACE") or environment.get("OMPI_MCA_ess_base_jobid", "")
    count = _number(environment, "OMPI_COMM_WORLD_SIZE")
    local_count = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE")
    return LauncherInfo(
        _number(environment, "OMPI_COMM_WORLD_RANK"),
        count,
        _local_address(job) if count == local_count else None,
        job,
        _number(environment, "OMPI_COMM_WORLD_LOCAL_RANK"),
        local_count,
    )


def _pmi(environment: Environment) -> LauncherInfo | None:
    """Read the variables of MPICH's or Intel's `mpiexec`."""
    if "PMI_RANK" not in environment:
        return None
    count = _number(environment, "PMI_SIZE")
    local_count = _number(environment, "MPI_LOCALNRANKS")
    return LauncherInfo(
        _number(environment, "PMI_RANK"),
        count,
        _local_address("") if count == local_count else None,
        None,
        _number(environment, "MPI_LOCALRANKID"),
        local_count,
    )


def _kubernetes(environment: Environment) -> LauncherInfo | None:
    """Read the variables of an Indexed Job or a JobSet: a pod name ends with its index."""
    if "JOB_COMPLETION_INDEX" not in environment:
        return None
    index = _number(environment, "JOB_COMPLETION_INDEX")
    pod, dot, domain = socket.getfqdn().partition(".")
    job = pod.removesuffix(f"-{index}")
    address = f"{job}-0{dot}{domain}:{KUBERNETES_PORT}" if job != pod else None
    return LauncherInfo(index, None, address, job)


Source = Callable[[Environment], LauncherInfo | None]
SOURCES: tuple[tuple[str, Source], ...] = (
    ("environment", _environment),
    ("Slurm", _slurm),
    ("Open MPI", _open_mpi),
    ("PMI", _pmi),
    ("Kubernetes", _kubernetes),
)
"""The sources of the environment, in order of precedence."""


def _number(environment: Environment, name: str) -> int | None:
    """Read a variable that is a number."""
    text = environment.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise ClusterError(
            f"expected an integer in the environment variable {name}, got {text!r:.40}.",
            fix="Set it to a number from 0.",
        )
    return int(text)


def _local_address(job: str) -> str:
    return f"127.0.0.1:{_port(job)}"


def _port(job: str) -> int:
    """Return a port derived from the job's name, rarely shared with other jobs."""
    return _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS
