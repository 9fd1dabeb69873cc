"""`braces launch`: start the processes of a job, look after them, and start them again."""

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

from braces.cluster import process_identity as places
from braces.cluster.failure_detector import ENDED_WITH_ANOTHER
from braces.cluster.process_logs import Log
from braces.errors import ClusterError, visible_lines

_POLL_S, _REACTION_S, _LOG_S = 0.02, 0.7, 1.0
_LAST_LINES, _MB = 20, 1_000_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Job:
    """What is to run.

    Attributes:
        program: What Python is given: a file, or `-m` and a module, and arguments.
        processes: How many run on this machine.
        restarts: How often it is started again when it failed.
        devices: How many virtual CPU devices each has; `None` for the devices that are there.
        log_dir: Where logs go; `None` for a temporary folder, which stays if the job fails.
        timeout_s: How long processes wait for one another at the start.
        hosts: How many machines run this command.
        host_index: Which one this is.
        address: Where process 0 is met; `None` for this machine alone, a fresh port each time.
        attempt: The number of the first attempt.
        grace_s: How long processes that are asked to end (SIGTERM) may take, before they are
            made to (SIGKILL).
        log_mb: The size of the log of each process; older lines are dropped.
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
        """Refuse what cannot be run.

        Raises:
            ClusterError: A number is out of range, or there is no address.
        """
        if not self.program or self.program == ("-m",):
            raise ClusterError("There is no program to run.", fix="Say which: train.py")
        least = {"processes": 1, "restarts": 0, "hosts": 1, "host_index": 0}
        least |= {"devices": 1} if self.devices is not None else {}
        for name, value in least.items():
            given = getattr(self, name)
            if given < value:
                raise ClusterError(f"{name}={given} must be {value} or more.")
        if not 0 < self.timeout_s <= 1e6:
            raise ClusterError(f"timeout_s={self.timeout_s} is no time to wait.")
        if not 0 <= self.grace_s <= 1e6:
            raise ClusterError(f"grace_s={self.grace_s} is no time to wait.")
        if not 0 < self.log_mb <= 1e6:
            raise ClusterError(f"log_mb={self.log_mb} is no size of a log.")
        if self.host_index >= self.hosts:
            raise ClusterError(
                f"There is no host {self.host_index} of {self.hosts}.", fix="They count from 0."
            )
        if self.hosts > 1 and self.address is None:
            raise ClusterError(
                "Several hosts need an address where process 0 is met.",
                fix="Say --address HOST:PORT with the name of host 0, the same on all hosts.",
            )
        if self.address is not None:
            places.split_address(self.address)

    def check_file(self) -> None:
        """Refuse a file that is not on this machine, before it fails in each process.

        Raises:
            ClusterError: There is none.
        """
        file = self.program[0]
        if not file.startswith("-") and not os.path.exists(file):
            raise ClusterError(
                f"There is no file {file!r:.400} to run.",
                given=f"in {os.getcwd()}",
                fix="Say where it is; a module is run with -m: -m package.train.",
            )

    def environment(self, local: int, attempt: int, address: str, name: str) -> dict[str, str]:
        """What one process is told."""
        told = {
            places.INDEX: self.host_index * self.processes + local,
            places.COUNT: self.hosts * self.processes,
            places.ADDRESS: address,
            places.JOB: name,
            places.ATTEMPT: attempt,
            places.TIMEOUT: self.timeout_s,
            places.LOCAL_INDEX: local,
            places.LOCAL_COUNT: self.processes,
            "PYTHONUNBUFFERED": 1,
        }
        if self.devices is not None:
            told |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": self.devices}
        return {name: str(value) for name, value in told.items()}


@dataclass
class Child:
    """A process that was started.

    Attributes:
        index: Its number in the job.
        process: The process, which leads a group of its own.
        log: What it prints.
    """

    index: int
    process: subprocess.Popen[bytes]
    log: Log

    @property
    def status(self) -> int | None:
        """Its exit status, as a shell has it; `None` while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to it and all that it started."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # nobody is left in the group


def launch(job: Job) -> int:
    """Run a job, again where it fails; its exit status.

    The first process prints what it says at once; all have a log. Where one fails, all are
    ended, the last lines of the one that failed are shown, and the job is started again, which
    goes on at its last checkpoint if the program does so. The last failure's status is the
    result. If this process ends, whatever ends it, all others do.

    Raises:
        ClusterError: The job cannot be run so.
    """
    job.check()
    job.check_file()
    status = 0
    folder = job.log_dir or Path(tempfile.mkdtemp(prefix="braces-launch-"))
    name = secrets.token_hex(8) if job.hosts == 1 else ""
    last = job.attempt + job.restarts
    for attempt in range(job.attempt, last + 1):
        status = _attempt(job, attempt, folder / f"attempt-{attempt}", name)
        if status == 0:
            break
        if attempt < last:
            say(f"Starting again: attempt {attempt + 1} of {last}.")
    if status == 0 and job.log_dir is None:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _attempt(job: Job, attempt: int, folder: Path, name: str) -> int:
    """Run all processes once; the status of the one that failed, or 0."""
    folder.mkdir(parents=True, exist_ok=True)
    address = job.address or f"127.0.0.1:{_free_port()}"
    children, asked = list[Child](), list[int]()
    end = partial(_end, children, job.grace_s, asked)
    with _asked_to_end(asked), _guarded(end) as guard:
        for local in range(job.processes):
            told = job.environment(local, attempt, address, name)
            children.append(_start(job, told, folder, shown=local == 0))
            guard.write(f"{children[-1].process.pid}\n".encode())
            guard.flush()
        failed = _look_after(children, asked)
        if failed is None:
            return 0
        began = time.monotonic()
        end()
        _tell(failed, children, attempt, time.monotonic() - began)
        if asked:
            raise _stopped(asked)
        return failed.status or 1


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _start(job: Job, told: Mapping[str, str], folder: Path, shown: bool) -> Child:
    """Start one process, with a log."""
    index = int(told[places.INDEX])
    log = Log(folder / f"process-{index}.log", int(job.log_mb * _MB), shown, say)
    try:
        process = subprocess.Popen(
            [sys.executable, *job.program],
            env={**os.environ, **told},
            stdin=subprocess.DEVNULL,
            stdout=log.write_end,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    finally:
        os.close(log.write_end)
    return Child(index, process, log)


def _look_after(children: Sequence[Child], asked: Sequence[int]) -> Child | None:
    """Wait until all are done, or one failed: that one."""
    while True:
        statuses = [child.status for child in children]
        if children[0].log.shown_failure is not None:
            raise children[0].log.shown_failure
        if asked:
            raise _stopped(asked)
        if any(statuses):
            return _first_failed(children)
        if None not in statuses:
            _finish_logs(children)
            return None
        time.sleep(_POLL_S)


def _stopped(asked: Sequence[int]) -> SystemExit:
    say("Stopped.")
    return SystemExit(128 + asked[0])


def _finish_logs(children: Sequence[Child]) -> None:
    until = time.monotonic() + _LOG_S
    for child in children:
        child.log.finish(max(until - time.monotonic(), 0.0))


def _first_failed(children: Sequence[Child]) -> Child:
    """The process that failed by itself; those that only ended with it may be seen before."""
    until = time.monotonic() + _REACTION_S
    while True:
        failed = [child for child in children if child.status]
        own = [child for child in failed if not is_reaction(child.status)]
        if own or time.monotonic() > until:
            return (own or failed)[0]
        time.sleep(_POLL_S)


def is_reaction(status: int | None) -> bool:
    """Whether a process ended so because another one did: told by the watch, or by JAX."""
    return status in (ENDED_WITH_ANOTHER, 128 + signal.SIGABRT)


def _end(children: Sequence[Child], grace_s: float, asked: Sequence[int]) -> None:
    """End all processes and what they started: asked first, then not.

    Args:
        children: The processes.
        grace_s: The time between the two.
        asked: The signals that this process got; a second one ends the wait.
    """
    for child in children:
        child.signal(signal.SIGTERM)
    until = time.monotonic() + grace_s
    while time.monotonic() < until and any(child.status is None for child in children):
        if len(asked) > 1:
            break
        time.sleep(_POLL_S)
    for child in children:
        child.signal(signal.SIGKILL)
        child.process.wait()


# ---- where this process is ended itself ------------------------------------------------------

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
"""Ends all groups that it was told of, once nobody can tell it anything any more.

It is nobody's child, for whoever kills a process may kill its children too."""


@contextmanager
def _guarded(end: Callable[[], None]) -> Generator[IO[bytes]]:
    """End the children where this block is left, or this process is killed in it."""
    guard = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    told = cast("IO[bytes]", guard.stdin)
    guard.wait()
    try:
        yield told
    finally:
        try:
            end()
            told.write(b"done\n")
        finally:  # an end that is cut short is left to the guard
            told.close()


@contextmanager
def _asked_to_end(asked: list[int]) -> Generator[None]:
    """Note the signals that ask this process to end: none cuts short what it does."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {n: signal.signal(n, lambda number, _: asked.append(number)) for n in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- what is said ----------------------------------------------------------------------------


def _tell(failed: Child, children: Sequence[Child], attempt: int, took_s: float) -> None:
    """The last lines of the process that failed, and how the others ended."""
    _finish_logs(children)
    path = failed.log.path
    say(f"Process {failed.index} failed {_ending(failed)} (attempt {attempt}), {path}:")
    for line in failed.log.last_lines(_LAST_LINES):
        say(f"  | {line}")
    others = [child for child in children if child is not failed]
    for child in others:
        say(f"Process {child.index} ended {_ending(child)}, {child.log.path}")
    say(f"All were ended in {took_s:.1f} s.")


def _ending(child: Child) -> str:
    code = child.process.returncode
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with status {code}"


def say(text: str) -> None:
    """Say something of the job, beside what its processes print."""
    print(visible_lines(text), file=sys.stderr, flush=True)
