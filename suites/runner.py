"""Runs of cases in processes with time limits, and their records in a file of JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from suites.case import Check, Group, Verdict

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / ".suites"
Case = tuple[str, str]
Record = dict[str, Any]


def records(path: Path) -> dict[Case, Record]:
    """The last record of each case in a file; a line cut off by a kill is ignored."""
    found: dict[Case, Record] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
            found[record["group"], record["name"]] = record
        except (ValueError, KeyError):
            continue
    return found


def verdict(record: Record) -> Verdict:
    """The worst verdict of the checks of a case; a partly excluded case counts by the rest."""
    order = [
        Verdict.DIFFERS, Verdict.FAILED, Verdict.TIMEOUT, Verdict.REFUSED, Verdict.EQUAL,
    ]  # fmt: skip
    found = {Verdict(kind) for _, kind, _ in record["checks"]}
    return next((kind for kind in order if kind in found), Verdict.EXCLUDED)


class Worker:
    """One process that runs cases of a suite, and is started again after it ends."""

    def __init__(self, module: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "suites.worker", module]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            with self._log.open("a") as log:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
        return self._process

    def run(self, case: Case, seconds: float) -> Record:
        """The record of one case; a process that takes too long is killed."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(seconds, self._kill, (late,))
        timer.start()
        try:
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        timer.cancel()
        if line:
            return json.loads(line)
        kind, reason = Verdict.TIMEOUT, f"more than {seconds:g} s"
        if not late.is_set():
            kind, reason = Verdict.FAILED, f"the process ended with status {process.wait()}"
        return _record(case, seconds, Check("case", kind, reason))

    def _kill(self, late: threading.Event) -> None:
        """End the process and its children."""
        late.set()
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the process, and close the streams to it."""
        if self._process is not None:
            self._kill(threading.Event())
            with contextlib.suppress(BrokenPipeError), self._process:
                pass
        self._process = None


def _record(case: Case, seconds: float, check: Check) -> Record:
    group, name = case
    return {"group": group, "name": name, "seconds": seconds, "checks": [list(check)]}


def run(
    module: str,
    groups: Mapping[str, Group],
    cases: Iterable[Case],
    path: Path,
    workers: int = 2,
    show: Callable[[Record], None] = lambda record: None,
) -> None:
    """Run cases and append their records to a file, each as soon as it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    lock = threading.Lock()

    def serve() -> None:
        worker = Worker(module, path.with_suffix(".log"))
        for case in _taken(waiting):
            record = worker.run(case, groups[case[0]].seconds)
            with lock, path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
                show(record)
        worker.stop()

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _taken(waiting: queue.SimpleQueue[Case]) -> Iterator[Case]:
    while True:
        try:
            yield waiting.get_nowait()
        except queue.Empty:
            return


Again = Literal["missing", "failures", "all"]


def chosen(
    groups: Mapping[str, Group], known: Mapping[Case, Record], again: Again = "missing"
) -> list[Case]:
    """The cases to run: those without a record, also those that failed, or all."""
    good = {Verdict.EQUAL, Verdict.EXCLUDED}
    return [
        case
        for group, cases in groups.items()
        for case in ((group, name) for name in cases.names())
        if again == "all"
        or case not in known
        or (again == "failures" and verdict(known[case]) not in good)
    ]
