"""`braces launch`: start the processes of a job, monitor them, and restart them on failure."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from braces.cluster import process_identity
from braces.cluster.failure_detector import PEER_FAILED_STATUS
from braces.cluster.process_logs import ProcessLog
from braces.errors import ClusterError, visible_lines

_POLL_S, _REACTION_S, _LOG_S = 0.02, 0.7, 1.0
_LAST_LINES, _MB = 20, 1_000_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Job:
    """A job to run.

    Attributes:
        program: Arguments of Python: a file, or `-m` and a module, and their arguments.
        processes: Number of processes on this machine.
        restarts: Number of restarts after failures.
        devices: Number of virtual CPU devices of each process; `None` for the real devices.
        log_dir: Folder of the logs; `None` for a temporary folder, which stays if the job
            fails.
        timeout_s: Seconds that processes wait for one another at the start.
        hosts: Number of machines that run this command.
        host_index: The number of this machine.
        address: The address of process 0; `None` for a job on this machine only, with a fresh
            port each time.
        attempt: The number of the first attempt.
        grace_s: Seconds between the request to end (SIGTERM) and the kill (SIGKILL).
        log_mb: The size limit of the log of each process; older lines are dropped.
    """

    program: tuple[str, ...]
    processes: int
    restarts: int = 0
    devices: int | None = None
    log_dir: Path | None = None
    timeout_s: float = 300.0
    hosts: int = 1
    host_index: int = 0
    address: str | None = None
    attempt: int = 0
    grace_s: float = 30.0
    log_mb: float = 256.0

    def check(self) -> None:
        """Check that the job can be run.

        Raises:
            ClusterError: If a number is out of range, or the address is missing.
        """
        if not self.program or self.program == ("-m",):
            raise ClusterError("the program is missing.", fix="Add it, such as train.py.")
        least = {"processes": 1, "restarts": 0, "hosts": 1, "host_index": 0}
        least |= {"devices": 1} if self.devices is not None else {}
        for name, value in least.items():
            actual = getattr(self, name)
            if actual < value:
                raise ClusterError(
                    f"{name}={actual} is out of range; expected {value} or more."
                )
        if not 0 < self.timeout_s <= 1e6:
            raise ClusterError(f"expected timeout_s from 0 to 1e6 s, got {self.timeout_s}.")
        if not 0 <= self.grace_s <= 1e6:
            raise ClusterError(f"expected grace_s from 0 to 1e6 s, got {self.grace_s}.")
        if not 0 < self.log_mb <= 1e6:
            raise ClusterError(f"expected log_mb from 0 to 1e6 MB, got {self.log_mb}.")
        if self.host_index >= self.hosts:
            raise ClusterError(
                f"host_index={self.host_index} is out of range for {self.hosts} hosts.",
                fix="Number hosts from 0.",
            )
        if self.hosts > 1 and self.address is None:
            raise ClusterError(
                "a job on several hosts requires the address of process 0.",
                fix="Pass --address HOST:PORT with the name of host 0, the same on all hosts.",
            )
        if self.address is not None:
            process_identity.split_address(self.address)

    def check_file(self) -> None:
        """Check that the program file exists, before it fails in each process.

        Raises:
            ClusterError: If the file does not exist.
        """
        file = self.program[0]
        if not file.startswith("-") and not os.path.exists(file):
            raise ClusterError(
                f"the program file {file!r:.400} does not exist.",
                given=f"in {os.getcwd()}",
                fix="Pass the path of a file, or -m and a module: -m package.train.",
            )

    def environment(self, local: int, attempt: int, address: str, name: str) -> dict[str, str]:
        """Return the environment variables of one process."""
        variables = {
            process_identity.INDEX: self.host_index * self.processes + local,
            process_identity.COUNT: self.hosts * self.processes,
            process_identity.ADDRESS: address,
            process_identity.JOB: name,
            process_identity.ATTEMPT: attempt,
            process_identity.TIMEOUT: self.timeout_s,
            process_identity.LOCAL_INDEX: local,
            process_identity.LOCAL_COUNT: self.processes,
            "PYTHONUNBUFFERED": 1,
        }
        if self.devices is not None:
            variables |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": self.devices}
        return {name: str(value) for name, value in variables.items()}


@dataclass
class Child:
    """A started process.

    Attributes:
        index: Its number in the job.
        process: The process, which leads a separate process group.
        log: Its output.
    """

    index: int
    process: subprocess.Popen[bytes]
    log: ProcessLog

    @property
    def status(self) -> int | None:
        """The exit status as a shell reports it; `None` while the process runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to the process group."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # the group is empty


def launch(job: Job) -> int:
    """Run a job, with restarts on failure, and return its exit status.

    The output of the first process is printed at once; all processes have a log. If one fails,
    all are ended, and the last lines of the failed one are shown. The job is then restarted; a
    program that saves checkpoints continues at the last one. The result is the status of the
    last failure. If this process ends for any reason, all others do.

    Raises:
        ClusterError: If the job cannot be run.
    """
    job.check()
    job.check_file()
    folder = job.log_dir or Path(tempfile.mkdtemp(prefix="braces-launch-"))
    name = secrets.token_hex(8) if job.hosts == 1 else ""
    status = run_attempts(
        range(job.attempt, job.attempt + job.restarts + 1),
        lambda attempt: _attempt(job, attempt, folder / f"attempt-{attempt}", name),
    )
    if status == 0 and job.log_dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def run_attempts(attempts: range, run: Callable[[int], int]) -> int:
    """Run attempts until one has the status 0; return the status of the last one."""
    status = 0
    for attempt in attempts:
        status = run(attempt)
        if status == 0:
            break
        if attempt < attempts[-1]:
            print_message(f"Restarting: attempt {attempt + 1} of {attempts[-1]}.")
    return status


def _attempt(job: Job, attempt: int, folder: Path, name: str) -> int:
    """Run all processes once; return the status of the one that failed, or 0."""
    folder.mkdir(parents=True, exist_ok=True)
    address = job.address or f"127.0.0.1:{_free_port()}"
    children, signals = list[Child](), list[int]()
    end = partial(_end, children, job.grace_s, signals)
    with _record_signals(signals), _guarded(end) as guard:
        for local in range(job.processes):
            variables = job.environment(local, attempt, address, name)
            children.append(_start(job, variables, folder, shown=local == 0))
            guard.write(f"{children[-1].process.pid}\n".encode())
            guard.flush()
        failed = _await_failure(children, signals)
        if failed is None:
            return 0
        began = time.monotonic()
        end()
        _report_failure(failed, children, attempt, time.monotonic() - began)
        if signals:
            raise _stop_exit(signals)
        return failed.status or 1


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _start(job: Job, variables: Mapping[str, str], folder: Path, shown: bool) -> Child:
    """Start one process, with a log."""
    index = int(variables[process_identity.INDEX])
    log = ProcessLog(
        folder / f"process-{index}.log", int(job.log_mb * _MB), shown, print_message
    )
    try:
        process = subprocess.Popen(
            [sys.executable, *job.program],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log.write_end,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        os.close(log.write_end)
    return Child(index, process, log)


def _await_failure(children: Sequence[Child], signals: Sequence[int]) -> Child | None:
    """Wait until all processes are done (`None`) or one failed; return that one."""
    while True:
        statuses = [child.status for child in children]
        if children[0].log.shown_failure is not None:
            raise children[0].log.shown_failure
        if signals:
            raise _stop_exit(signals)
        if any(statuses):
            return _first_failed(children)
        if None not in statuses:
            _finish_logs(children)
            return None
        time.sleep(_POLL_S)


def _stop_exit(signals: Sequence[int]) -> SystemExit:
    print_message("Stopped.")
    return SystemExit(128 + signals[0])


def _finish_logs(children: Sequence[Child]) -> None:
    until = time.monotonic() + _LOG_S
    for child in children:
        child.log.finish(max(until - time.monotonic(), 0.0))


def _first_failed(children: Sequence[Child]) -> Child:
    """Return the first process that failed by itself, not in reaction to another."""
    until = time.monotonic() + _REACTION_S
    while True:
        failed = [child for child in children if child.status]
        own = [child for child in failed if not is_reaction(child.status)]
        if own or time.monotonic() > until:
            return (own or failed)[0]
        time.sleep(_POLL_S)


def is_reaction(status: int | None) -> bool:
    """Return whether a status means an end due to another process's failure."""
    return status in (PEER_FAILED_STATUS, 128 + signal.SIGABRT)


def _end(children: Sequence[Child], grace_s: float, signals: Sequence[int]) -> None:
    """End all processes and their children: SIGTERM first, then SIGKILL.

    Args:
        children: The processes.
        grace_s: The seconds between the two.
        signals: The signals that this process received; a second one ends the wait.
    """
    for child in children:
        child.signal(signal.SIGTERM)
    until = time.monotonic() + grace_s
    while time.monotonic() < until and any(child.status is None for child in children):
        if len(signals) > 1:
            break
        time.sleep(_POLL_S)
    for child in children:
        child.signal(signal.SIGKILL)
        child.process.wait()


# ---- when this process is ended --------------------------------------------------------------

_GUARD = """
exec 3<&0
{
    groups=
    while read -r line; do
        [ "$line" = done ] && exit
        groups="$groups -$line"
    done
    kill -s KILL -- $groups
} <&3 &
"""
"""Kills all process groups whose numbers it has read, once its standard input is closed.

It is not a child of this process, whose children may be killed with it."""


@contextmanager
def _guarded(end: Callable[[], None]) -> Generator[IO[bytes]]:
    """End the children when this block is left, or if this process is killed in it."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    groups = cast("IO[bytes]", guard.stdin)
    guard.wait()
    try:
        yield groups
    finally:
        try:
            end()
            groups.write(b"done\n")
        finally:  # the guard completes an interrupted end
            groups.close()


@contextmanager
def _record_signals(signals: list[int]) -> Generator[None]:
    """Record termination signals instead of being interrupted by them."""
    numbers = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    handlers = {n: signal.signal(n, lambda number, _: signals.append(number)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


# ---- messages --------------------------------------------------------------------------------


def _report_failure(
    failed: Child, children: Sequence[Child], attempt: int, took_s: float
) -> None:
    """Print the last lines of the failed process and the exit states of the others."""
    _finish_logs(children)
    path = failed.log.path
    print_message(
        f"Process {failed.index} failed {_ending_text(failed)} (attempt {attempt}), {path}:"
    )
    for line in failed.log.last_lines(_LAST_LINES):
        print_message(f"  | {line}")
    others = [child for child in children if child is not failed]
    for child in others:
        print_message(f"Process {child.index} ended {_ending_text(child)}, {child.log.path}")
    print_message(f"All processes ended within {took_s:.1f} s.")


def _ending_text(child: Child) -> str:
    code = child.process.returncode
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with status {code}"


def print_message(text: str) -> None:
    """Print a message about the job to standard error."""
    print(visible_lines(text), file=sys.stderr, flush=True)
