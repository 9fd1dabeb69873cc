"""`braces launch --ray`: Ray chooses the machines, and each actor runs one process."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from braces.cluster.host_addresses import join_address
from braces.cluster.launch import Job, is_reaction, launch, print_message, run_attempts
from braces.errors import ClusterError
from braces.lazy import ray, ray_strategies

_REACTION_S, _LOST = 2.0, 137


def launch_on_ray(job: Job, gpus: int = 0) -> int:
    """Run a job on the machines of Ray, with restarts on failure, and return its exit status.

    The Ray cluster is that of `RAY_ADDRESS`, the one that runs on this machine, or a new one on
    this machine alone. Braces and the program must be present on all machines at the same path,
    as with `ray job submit --working-dir`. Each actor runs one process, with one CPU; its
    output is forwarded through Ray to this process.

    Args:
        job: The job to run; `processes` is the total number over all machines.
        gpus: Number of GPUs of each process.

    Raises:
        ClusterError: If the job cannot be run, or Ray lacks resources for it.
        MissingPackageError: If Ray is not installed.
    """
    job.check()
    if job.hosts > 1 or job.address is not None:
        raise ClusterError(
            "--hosts and --address are not supported with --ray: Ray assigns hosts.",
            fix="Remove --hosts and --address.",
        )
    if not ray.is_initialized():
        ray.init()
    return run_attempts(range(job.restarts + 1), lambda attempt: _attempt(job, attempt, gpus))


class RayProcess:
    """Ray actor that runs one process, as `braces launch` does on a host."""

    def address(self) -> str:
        """Return the address of this machine with a free port."""
        with socket.create_server(("", 0)) as listener:
            return join_address(ray.util.get_node_ip_address(), listener.getsockname()[1])

    def run(self, job: Job) -> int:
        """Run one process until it ends."""
        return launch(job)


def _attempt(job: Job, attempt: int, gpus: int) -> int:
    """Run all processes once; return the status of the one that failed, or 0."""
    needs = {"CPU": 1, "GPU": gpus} if gpus else {"CPU": 1}
    group = ray.util.placement_group([needs] * job.processes)
    workers = list[Any]()
    try:
        if not group.wait(job.timeout_s):
            raise ClusterError(
                f"Ray did not provide resources for {job.processes} processes within "
                f"{job.timeout_s:g} s.",
                given=f"each process needs {needs}; the cluster has {_resources_text()}",
                fix="Use fewer processes, or more machines.",
            )
        workers.extend(_start_worker(group, index, gpus) for index in range(job.processes))
        alone = replace(
            job,
            processes=1,
            hosts=job.processes,
            address=ray.get(workers[0].address.remote(), timeout=job.timeout_s),
            restarts=0,
            attempt=attempt,
        )
        runs = [w.run.remote(replace(alone, host_index=i)) for i, w in enumerate(workers)]
        return _first_failure(runs)
    finally:
        for worker in workers:
            ray.kill(worker)
        ray.util.remove_placement_group(group)


def _resources_text() -> str:
    resources = ray.cluster_resources()
    return ", ".join(
        f"{name}: {resources[name]:g}" for name in ("CPU", "GPU") if name in resources
    )


def _start_worker(group: Any, index: int, gpus: int) -> Any:
    strategy = ray_strategies.PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=index
    )
    actor = ray.remote(RayProcess)
    return actor.options(num_cpus=1, num_gpus=gpus, scheduling_strategy=strategy).remote()


def _first_failure(runs: Sequence[Any]) -> int:
    """Return the status of the process that failed by itself; 0 if none did."""
    pending, failed = list(runs), list[int]()
    while pending:
        done, pending = ray.wait(pending, timeout=_REACTION_S if failed else None)
        if not done:
            break
        status = _exit_status(done[0])
        failed += [status] if status else []
        if status and not is_reaction(status):
            break
    own = [status for status in failed if not is_reaction(status)]
    return next(iter(own or failed), 0)


def _exit_status(run: Any) -> int:
    try:
        return int(ray.get(run))
    except ray.exceptions.RayActorError:
        print_message("A process was lost because its Ray actor ended.")
        return _LOST
