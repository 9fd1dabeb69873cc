"""`braces launch`: start the processes of a job, look after them, and start them again."""

from __future__ import annotations

import codecs
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from braces.cluster import places
from braces.cluster.watch import ENDED_WITH_ANOTHER
from braces.errors import ClusterError, visible_lines

_POLL_S, _KILL_AFTER_S, _REACTION_S = 0.02, 1.0, 0.7
_LAST_LINES, _TAIL_BYTES, _COPY_BYTES = 20, 16384, 1 << 20
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
    log: Path

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
    children = list[Child]()
    with _asked_to_end() as asked, _guarded(children) as guard:
        for local in range(job.processes):
            told = job.environment(local, attempt, address, name)
            children.append(_start(job.program, told, folder))
            guard.write(f"{children[-1].process.pid}\n".encode())
            guard.flush()
        failed = _look_after(children, asked)
        if failed is None:
            return 0
        began = time.monotonic()
        _end(children)
        _tell(failed, children, attempt, time.monotonic() - began)
        return failed.status or 1


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _start(program: Sequence[str], told: Mapping[str, str], folder: Path) -> Child:
    """Start one process, with a log."""
    index = int(told[places.INDEX])
    path = folder / f"process-{index}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *program],
            env={**os.environ, **told},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Child(index, process, path)


def _look_after(children: Sequence[Child], asked: Sequence[int]) -> Child | None:
    """Wait until all are done, or one failed: that one."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    with children[0].log.open("rb") as shown:
        while True:
            statuses = [child.status for child in children]
            while more := shown.read(_COPY_BYTES):
                sys.stdout.write(decode(more))
            sys.stdout.flush()
            if asked:
                say("Stopped.")
                raise SystemExit(128 + asked[0])
            if any(statuses):
                return _first_failed(children)
            if None not in statuses:
                return None
            time.sleep(_POLL_S)


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


def _end(children: Sequence[Child]) -> None:
    """End all processes and what they started: asked first, then not."""
    for child in children:
        child.signal(signal.SIGTERM)
    until = time.monotonic() + _KILL_AFTER_S
    while time.monotonic() < until and any(child.status is None for child in children):
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
def _guarded(children: Sequence[Child]) -> Generator[IO[bytes]]:
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
            _end(children)
            told.write(b"done\n")
        finally:  # an end that is cut short is left to the guard
            told.close()


@contextmanager
def _asked_to_end() -> Generator[list[int]]:
    """Note the signals that ask this process to end: none cuts short what it does."""
    asked = list[int]()
    heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {n: signal.signal(n, lambda number, _: asked.append(number)) for n in heard}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- what is said ----------------------------------------------------------------------------


def _tell(failed: Child, children: Sequence[Child], attempt: int, took_s: float) -> None:
    """The last lines of the process that failed, and how the others ended."""
    say(f"Process {failed.index} failed {_ending(failed)} (attempt {attempt}), {failed.log}:")
    for line in _last_lines(failed.log):
        say(f"  | {line}")
    others = [child for child in children if child is not failed]
    for child in others:
        say(f"Process {child.index} ended {_ending(child)}, {child.log}")
    say(f"All were ended in {took_s:.1f} s.")


def _ending(child: Child) -> str:
    code = child.process.returncode
    if code is not None and code < 0:
        return f"by {signal.Signals(-code).name}"
    return f"with status {code}"


def _last_lines(path: Path) -> list[str]:
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return log.read().decode(errors="replace").splitlines()[-_LAST_LINES:]


def say(text: str) -> None:
    """Say something of the job, beside what its processes print."""
    print(visible_lines(text), file=sys.stderr, flush=True)
