"""Index, count and address of a process, from the variables of launchers."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from braces.cluster.process_identity import LauncherInfo, ProcessIdentity, find_identity
from braces.errors import ClusterError

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[017-018,020]",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-host-11040@1",
}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}
BRACES = {
    "BRACES_PROCESS_INDEX": "0",
    "BRACES_PROCESS_COUNT": "2",
    "BRACES_ADDRESS": "10.0.0.1:9000",
}


def found(environment: dict[str, str], given: LauncherInfo = LauncherInfo()) -> ProcessIdentity:  # noqa: B008
    place = find_identity(given, environment)
    assert place is not None
    return place


def test_a_process_of_which_nothing_is_told_is_alone() -> None:
    assert find_identity(LauncherInfo(), {"HOME": "/"}) is None
    assert find_identity(LauncherInfo(count=1), {}) is None
    assert (
        find_identity(
            LauncherInfo(), {**SLURM, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
        )
        is None
    )


def test_a_script_of_sbatch_is_alone() -> None:
    script = {name: text for name, text in SLURM.items() if "STEP" not in name}
    assert (
        find_identity(LauncherInfo(), {**script, "SLURM_NTASKS": "6", "SLURM_PROCID": "0"})
        is None
    )


def test_slurm_tells_all() -> None:
    place = found(SLURM)
    assert (place.index, place.count, place.found_by) == (3, 6, "Slurm")
    host, _, port = place.address.partition(":")
    assert host == "gpu017"
    assert 61440 <= int(port) < 65536
    other = found({**SLURM, "SLURM_PROCID": "0", "SLURM_LOCALID": "0"})
    assert other.address == place.address
    assert found({**SLURM, "SLURM_STEP_ID": "1"}).address != place.address


@pytest.mark.parametrize(("environment", "name"), [(OPEN_MPI, "Open MPI"), (PMI, "PMI")])
def test_mpi_on_one_machine_tells_all(environment: dict[str, str], name: str) -> None:
    place = found(environment)
    assert (place.index, place.count, place.found_by) == (1, 2, name)
    assert place.address.startswith("127.0.0.1:")


def test_mpi_on_several_machines_needs_an_address() -> None:
    two = {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    with pytest.raises(ClusterError, match=r"(?s)is missing.*index=1.*Set BRACES_ADDRESS"):
        find_identity(LauncherInfo(), two)
    place = found({**two, "BRACES_ADDRESS": "node-0:9000"})
    assert (place.index, place.address) == (1, "node-0:9000")
    assert place.found_by == "environment and Open MPI"


def test_kubernetes_tells_the_index_and_the_name_of_process_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "train-3.pods.team.svc.cluster.local")
    pod = {"JOB_COMPLETION_INDEX": "3"}
    place = found({**pod, "BRACES_PROCESS_COUNT": "4"})
    assert (place.index, place.count) == (3, 4)
    assert place.address == "train-0.pods.team.svc.cluster.local:8476"
    with pytest.raises(ClusterError, match="BRACES_PROCESS_COUNT"):
        find_identity(LauncherInfo(), pod)


def test_arguments_come_before_variables_and_those_before_launchers() -> None:
    assert found({**SLURM, **BRACES}).count == 2
    place = found({**SLURM, **BRACES}, LauncherInfo(index=1))
    assert (place.index, place.address) == (1, "10.0.0.1:9000")
    assert place.found_by == "arguments and environment"


def test_processes_that_see_all_devices_of_a_machine_take_one_each() -> None:
    assert found(SLURM).devices == (1,)
    assert found({**SLURM, "CUDA_VISIBLE_DEVICES": "0,1"}).devices == (1,)
    assert found({**SLURM, "CUDA_VISIBLE_DEVICES": "1"}).devices is None
    assert found({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "1(x6)"}).devices is None
    assert found(BRACES).devices is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"BRACES_PROCESS_INDEX": "two"}, "variable BRACES_PROCESS_INDEX, got 'two'"),
        ({"BRACES_PROCESS_INDEX": "-1"}, "variable BRACES_PROCESS_INDEX, got '-1'"),
        ({"BRACES_PROCESS_INDEX": "2"}, "process index 2 is out of range for 2 processes"),
        ({"BRACES_PROCESS_COUNT": "70000"}, "maximum count is 65536"),
        ({"BRACES_PROCESS_COUNT": "9" * 40}, "variable BRACES_PROCESS_COUNT, got '99"),
        ({"BRACES_ADDRESS": "here"}, "invalid address 'here'"),
        ({"BRACES_ADDRESS": "here:0"}, "invalid address 'here:0'"),
        ({"BRACES_ADDRESS": "here:99999"}, "invalid address 'here:99999'"),
        ({"BRACES_ADDRESS": f"here:{'1' * 5000}"}, "invalid address 'here:1111"),
    ],
)
def test_what_is_no_place_is_refused(change: dict[str, str], said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        find_identity(LauncherInfo(), {**BRACES, **change})


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("a", 2, "h:1"), "process index 'a' is out of range for 2 processes"),
        ((0, 2.5, "h:1"), "process index 0 is out of range for 2.5 processes"),
        ((0, 2, 8476), "invalid address 8476"),
    ],
)
def test_arguments_of_another_type_are_refused(told: Any, said: str) -> None:
    with pytest.raises(ClusterError, match=said):
        find_identity(LauncherInfo(*told), {})
