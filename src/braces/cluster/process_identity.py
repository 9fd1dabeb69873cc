"""Where this process stands in its job: what arguments and the launcher's environment say."""

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
"""The variables of `braces launch`; whoever starts processes otherwise may set them too."""

KUBERNETES_PORT = 8476
MOST_PROCESSES = 1 << 16
_FIRST_PORT, _PORTS = 61440, 4096  # above those that Linux gives away by itself


@dataclass(frozen=True)
class Place:
    """A process in its job.

    Attributes:
        index: Its number, from 0.
        count: How many there are.
        address: Where process 0 is met, as `"host:port"`.
        job: What tells this job from another one at the same address.
        found_by: What said so.
        devices: The numbers of the devices that are this process's own, of those of its
            machine; `None` for all.
    """

    index: int
    count: int
    address: str
    job: str = ""
    found_by: str = ""
    devices: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Told:
    """What somebody says about a place; `None` where nothing is said."""

    index: int | None = None
    count: int | None = None
    address: str | None = None
    job: str | None = None
    local_index: int | None = None
    local_count: int | None = None

    def or_else(self, other: Told) -> Told:
        """This, completed by what another says."""
        mine, others = vars(self), vars(other)
        return Told(**{n: others[n] if x is None else x for n, x in mine.items()})


def find_place(given: Told, environment: Environment) -> Place | None:
    """Where this process stands, or `None` where it is alone.

    Arguments come first, then the variables `BRACES_…`, then Slurm, MPI and Kubernetes, the
    first of them that is there. Each completes what those before left open.

    Raises:
        ClusterError: Something is missing, or is no such number.

    Example:
        >>> find_place(Told(), {})
        >>> find_place(Told(1, 2, "10.0.0.7:9000"), {}).address
        '10.0.0.7:9000'
    """
    told, by = given, ["arguments"] if given != Told() else []
    for name, find in SOURCES:
        found = find(environment)
        if found is not None and (name == "environment" or None in _needed(told)):
            by.append(name)
            told = told.or_else(found)
            if name != "environment":
                break
    if not by or (told.count == 1 and not told.index):
        return None
    return _checked(told, " and ".join(by), _own(told, environment))


def _needed(told: Told) -> tuple[int | None, int | None, str | None]:
    return told.index, told.count, told.address


def _own(told: Told, environment: Environment) -> tuple[int, ...] | None:
    """One device for each process of a machine, where it has several that see all devices."""
    count, visible = told.local_count, environment.get("CUDA_VISIBLE_DEVICES")
    if told.local_index is None or count is None or count == 1:
        return None
    if visible is not None and len(visible.split(",")) < count:
        return None  # whoever started them gave each its own
    return (told.local_index,)


def _checked(told: Told, by: str, devices: tuple[int, ...] | None) -> Place:
    """A whole place of what was told."""
    index, count, address = _needed(told)
    if index is None or count is None or address is None:
        names = zip((INDEX, COUNT, ADDRESS), _needed(told), strict=True)
        missing = " and ".join(name for name, value in names if value is None)
        raise ClusterError(
            "It is not known where this process stands in its job.",
            given=f"{_said(told)} (from {by})",
            fix=f"Set {missing}, or give br.cluster.start() the argument of that name.",
        )
    if not (_is_number(index) and _is_number(count) and 0 <= index < count <= MOST_PROCESSES):
        raise ClusterError(
            f"There is no process {index!r:.40} of {count!r:.40}.",
            given=f"{_said(told)} (from {by})",
            fix=f"Processes are numbered from 0; there are at most {MOST_PROCESSES}.",
        )
    split_address(address)
    return Place(index, count, address, told.job or "", by, devices)


def _is_number(given: object) -> bool:
    """Whether it counts: whoever calls may give anything."""
    return isinstance(given, SupportsIndex)


def _said(told: Told) -> str:
    pairs = ((f.name, getattr(told, f.name)) for f in fields(told))
    return ", ".join(f"{name}={value}" for name, value in pairs if value is not None)


def split_address(address: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        ClusterError: It is no address.

    Example:
        >>> split_address("[::1]:80"), split_address("node-1:8476")
        (('::1', 80), ('node-1', 8476))
    """
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 1 << 16:
        raise ClusterError(
            f"{address!r:.80} is no address.", fix="Use host:port, as 10.0.0.7:8476."
        )
    return host.strip("[]"), int(port)


# ---- who tells it ----------------------------------------------------------------------------


def _environment(environment: Environment) -> Told | None:
    """The variables of `braces launch`."""
    if not any(name in environment for name in (INDEX, COUNT, ADDRESS)):
        return None
    return Told(
        _number(environment, INDEX),
        _number(environment, COUNT),
        environment.get(ADDRESS),
        environment.get(JOB),
        _number(environment, LOCAL_INDEX),
        _number(environment, LOCAL_COUNT),
    )


def _slurm(environment: Environment) -> Told | None:
    """A task of `srun`; the script of `sbatch` itself is none."""
    nodes = environment.get("SLURM_STEP_NODELIST")
    if nodes is None or "SLURM_STEP_NUM_TASKS" not in environment:
        return None
    job = f"{environment.get('SLURM_JOB_ID', '')}.{environment.get('SLURM_STEP_ID', '')}"
    tasks = re.match(r"\d{1,6}", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return Told(
        _number(environment, "SLURM_PROCID"),
        _number(environment, "SLURM_STEP_NUM_TASKS"),
        f"{first_node(nodes)}:{_port(job)}",
        job,
        _number(environment, "SLURM_LOCALID"),
        int(tasks.group()) if tasks else None,
    )


def first_node(nodes: str) -> str:
    """The first name of a list of Slurm.

    Example:
        >>> [first_node(x) for x in ("n1", "n1,n2", "gpu[007-009,12],n3", "rack[2,4]-ib")]
        ['n1', 'n1', 'gpu007', 'rack2-ib']
    """
    found = re.match(r"([^,\[]*)(?:\[([^\],-]+)[^\]]*\])?([^,\[]*)", nodes)
    return "".join(part or "" for part in found.groups()) if found else nodes


def _open_mpi(environment: Environment) -> Told | None:
    """A process of Open MPI's `mpirun`."""
    if "OMPI_COMM_WORLD_RANK" not in environment:
        return None
    job = environment.get("PMIX_NAMESPACE") or environment.get("OMPI_MCA_ess_base_jobid", "")
    count = _number(environment, "OMPI_COMM_WORLD_SIZE")
    here = _number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE")
    return Told(
        _number(environment, "OMPI_COMM_WORLD_RANK"),
        count,
        _local(job) if count == here else None,
        job,
        _number(environment, "OMPI_COMM_WORLD_LOCAL_RANK"),
        here,
    )


def _pmi(environment: Environment) -> Told | None:
    """A process of MPICH's or Intel's `mpiexec`."""
    if "PMI_RANK" not in environment:
        return None
    count = _number(environment, "PMI_SIZE")
    here = _number(environment, "MPI_LOCALNRANKS")
    return Told(
        _number(environment, "PMI_RANK"),
        count,
        _local("") if count == here else None,
        None,
        _number(environment, "MPI_LOCALRANKID"),
        here,
    )


def _kubernetes(environment: Environment) -> Told | None:
    """A pod of an Indexed Job, also one of a JobSet: its name ends with its index."""
    if "JOB_COMPLETION_INDEX" not in environment:
        return None
    index = _number(environment, "JOB_COMPLETION_INDEX")
    pod, dot, domain = socket.getfqdn().partition(".")
    job = pod.removesuffix(f"-{index}")
    address = f"{job}-0{dot}{domain}:{KUBERNETES_PORT}" if job != pod else None
    return Told(index, None, address, job)


Source = Callable[[Environment], Told | None]
SOURCES: tuple[tuple[str, Source], ...] = (
    ("environment", _environment),
    ("Slurm", _slurm),
    ("Open MPI", _open_mpi),
    ("PMI", _pmi),
    ("Kubernetes", _kubernetes),
)
"""Who may tell a place, in the order in which they are asked."""


def _number(environment: Environment, name: str) -> int | None:
    """A variable that is a number."""
    text = environment.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 9:
        raise ClusterError(f"{name}={text!r:.40} is no number.", fix="Set it to one from 0.")
    return int(text)


def _local(job: str) -> str:
    return f"127.0.0.1:{_port(job)}"


def _port(job: str) -> int:
    """A port that processes of one job choose alike, and other jobs seldom."""
    return _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS
