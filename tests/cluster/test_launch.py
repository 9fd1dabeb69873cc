"""`braces launch`: start and end of the processes of a job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import braces as br
import kill_processes
from braces.cli.main import main
from braces.cluster.launch import Job, launch
from braces.cluster.process_logs import ProcessLog
from braces.errors import ClusterError
from tests.cluster import processes

TOLD = """
import os, sys
print(*(os.environ["BRACES_" + name] for name in sys.argv[1:]), flush=True)
"""
FAILING = """
import os, sys, time
if os.environ["BRACES_ATTEMPT"] == "2": sys.exit()
if os.environ["BRACES_PROCESS_INDEX"] == "1":
    print("why it failed")
    sys.exit(7)
time.sleep(60)
"""
PARENT = """
import os, signal, subprocess, sys, time
if sys.argv[1:] == ["deaf"]: signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
print(os.getpid(), child.pid, flush=True)
if os.environ["BRACES_PROCESS_INDEX"] == "1":
    time.sleep(0.3)
    os._exit(3)
time.sleep(60)
"""


def file(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def log(folder: Path, process: int, attempt: int = 0) -> str:
    return (folder / f"attempt-{attempt}" / f"process-{process}.log").read_text()


def alive(pids: list[int]) -> list[int]:
    """Those that run; one that only waits to be read of does not."""
    states = {pid: Path(f"/proc/{pid}/stat") for pid in pids}
    running = []
    for pid, path in states.items():
        try:
            if path.read_text().rpartition(")")[2].split()[0] != "Z":
                running.append(pid)
        except OSError:
            continue
    return running


def gone(pids: list[int]) -> bool:
    """Return whether all are gone soon."""
    until = time.monotonic() + 2
    while alive(pids) and time.monotonic() < until:
        time.sleep(0.02)
    return bool(pids) and not alive(pids)


def test_each_process_is_told_its_place_and_has_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["PROCESS_INDEX", "PROCESS_COUNT", "LOCAL_INDEX", "ATTEMPT", "TIMEOUT_S"]
    options = ["-n", "2", "--log-dir", str(tmp_path), "--timeout", "9"]
    assert main(["launch", *options, file(tmp_path, TOLD), *names]) == 0
    assert capsys.readouterr().out == "0 2 0 0 9.0\n"
    assert [log(tmp_path, index) for index in (0, 1)] == ["0 2 0 0 9.0\n", "1 2 1 0 9.0\n"]


def test_processes_of_the_second_host_count_on(tmp_path: Path) -> None:
    hosts = ["--hosts", "2", "--host-index", "1", "--address", "node-0:9000"]
    options = ["-n", "2", *hosts, "--log-dir", str(tmp_path)]
    names = ["PROCESS_INDEX", "PROCESS_COUNT", "ADDRESS"]
    assert main(["launch", *options, file(tmp_path, TOLD), *names]) == 0
    assert [log(tmp_path, index) for index in (2, 3)] == [
        "2 4 node-0:9000\n",
        "3 4 node-0:9000\n",
    ]


def test_a_module_runs_with_devices_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "told.py").write_text(
        "import os; print(os.environ['JAX_NUM_CPU_DEVICES'], os.environ['JAX_PLATFORMS'])"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert main(["launch", "--devices", "3", "-m", "told", "-x"]) == 0
    assert capsys.readouterr().out == "3 cpu\n"


def test_a_job_that_fails_is_started_again_until_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job((file(tmp_path, FAILING),), 2, restarts=3, log_dir=tmp_path)
    assert launch(job) == 0
    said = capsys.readouterr().err
    assert said.startswith("Process 1 failed with status 7 (attempt 0), ")
    assert said.count("  | why it failed") == 2
    assert "Restarting: attempt 2 of 3." in said
    assert sorted(path.name for path in tmp_path.glob("attempt-*")) == [
        "attempt-0", "attempt-1", "attempt-2",
    ]  # fmt: skip


def test_the_status_is_that_of_the_process_that_failed(tmp_path: Path) -> None:
    program = file(tmp_path, FAILING)
    assert launch(Job((program,), 2, restarts=1, log_dir=tmp_path)) == 7


@pytest.mark.parametrize("how", ["", "deaf"])
def test_all_are_ended_within_two_seconds_with_what_they_started(
    tmp_path: Path, how: str
) -> None:
    began = time.monotonic()
    assert launch(Job((file(tmp_path, PARENT), how), 2, log_dir=tmp_path, grace_s=1.0)) == 3
    assert time.monotonic() - began < 3.5
    assert gone([int(pid) for index in (0, 1) for pid in log(tmp_path, index).split()])


SLOW = """
import os, signal, sys, time
def end(*_):
    print("saving", flush=True)
    time.sleep(float(sys.argv[1]))
    print("saved", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
if os.environ["BRACES_PROCESS_INDEX"] == "1":
    time.sleep(0.5)
    os._exit(3)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("takes_s", "grace_s", "saved"), [(1.5, 30.0, True), (30.0, 0.5, False)]
)
def test_processes_have_the_time_that_was_said_to_end(
    tmp_path: Path, takes_s: float, grace_s: float, saved: bool
) -> None:
    began = time.monotonic()
    program = file(tmp_path, SLOW), str(takes_s)
    assert launch(Job(program, 2, log_dir=tmp_path, grace_s=grace_s)) == 3
    assert time.monotonic() - began < 10
    assert log(tmp_path, 0) == "ready\nsaving\n" + "saved\n" * saved


def test_processes_have_half_a_minute_unless_said() -> None:
    assert Job(("x.py",), 1).grace_s == 30.0


def test_a_second_signal_ends_a_job_at_once(tmp_path: Path) -> None:
    program = file(tmp_path, SLOW.replace('"1"', '"-"'))
    options = [
        "launch",
        "-n",
        "2",
        "--restarts",
        "2",
        "--log-dir",
        str(tmp_path),
        program,
        "30",
    ]
    launcher = subprocess.Popen([sys.executable, "-m", "braces", *options])
    for said in ("ready\n", "ready\nsaving\n"):
        until = time.monotonic() + 20
        while not all((tmp_path / "attempt-0" / f"process-{i}.log").exists()
                      and log(tmp_path, i) == said for i in (0, 1)):  # fmt: skip
            assert time.monotonic() < until
            time.sleep(0.05)
        assert launcher.poll() is None
        launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(5) == 143
    assert not (tmp_path / "attempt-1").exists()


# ---- logs ------------------------------------------------------------------------------------

LOUD = """
import os, sys
for number in range(int(sys.argv[1])):
    print(f"{number:099d}")
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("lines", [10, 5_000])
def test_a_log_has_a_limit_and_keeps_what_is_newest(
    tmp_path: Path, lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    program = file(tmp_path, LOUD), str(lines), "0"
    assert launch(Job(program, 2, log_dir=tmp_path, log_mb=0.1)) == 0
    numbers = list(range(lines))
    assert [int(line) for line in capsys.readouterr().out.split()] == numbers
    for index in (0, 1):
        paths = sorted((tmp_path / "attempt-0").glob(f"process-{index}.log*"), reverse=True)
        assert len(paths) == (1 if lines == 10 else 2)
        text = b"".join(path.read_bytes() for path in paths)
        assert len(text) <= 100_000
        assert len(text) >= min(lines * 100, 50_000)
        assert text[-100:] == f"{lines - 1:099d}\n".encode()
        assert b"".join(f"{number:099d}\n".encode() for number in numbers).endswith(text)


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="only Linux has a disk that is full"
)
@pytest.mark.parametrize("status", [0, 4])
def test_a_full_disk_is_told_once_and_ends_no_job(
    tmp_path: Path, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "attempt-0").mkdir()
    for index in (0, 1):
        (tmp_path / "attempt-0" / f"process-{index}.log").symlink_to("/dev/full")
    program = file(tmp_path, LOUD), "3000", str(status)
    assert launch(Job(program, 2, log_dir=tmp_path, grace_s=5.0)) == status
    told = capsys.readouterr()
    counts = [
        told.err.count(f"process-{index}.log cannot be written: No space left on device.")
        for index in (0, 1)
    ]
    if status:  # the first process that fails ends the other one, maybe before it prints
        assert 1 in counts
        assert max(counts) == 1
    else:
        assert told.out.endswith(f"{2999:099d}\n")
        assert counts == [1, 1]
    assert (f"  | {2999:099d}" in told.err) == bool(status)  # though no file has it


def test_a_log_goes_on_once_there_is_room_again(tmp_path: Path) -> None:
    folder, away, told = tmp_path / "logs", tmp_path / "away", list[str]()
    folder.mkdir()
    path = folder / "process-0.log"
    one = ProcessLog(path, 1000, False, told.append)
    folder.rename(away)  # no file can be made there
    for text in (b"a" * 400, b"b" * 400, b"c" * 10):
        os.write(one.write_end, text)
        time.sleep(0.1)
    away.rename(folder)
    os.write(one.write_end, b"d" * 300)
    os.close(one.write_end)
    one.finish(5.0)
    assert len(told) == 1
    assert path.read_bytes() == b"d" * 300
    assert one.last_lines(1) == ["a" * 400 + "b" * 400 + "c" * 10 + "d" * 300]


def test_nobody_who_reads_ends_a_job(tmp_path: Path) -> None:
    program = file(tmp_path, LOUD + "import time; time.sleep(60)\n"), "100000", "0"
    command = [sys.executable, "-m", "braces", "launch", "-n", "2", "--log-dir", str(tmp_path)]
    launcher = subprocess.Popen([*command, *program], stdout=subprocess.PIPE)
    assert launcher.stdout is not None
    launcher.stdout.read(10)
    launcher.stdout.close()
    assert launcher.wait(20) == 141


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGKILL, -9),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.thorough),
    ],
)
def test_nothing_is_left_of_a_launcher_that_is_ended(
    tmp_path: Path, number: int, status: int
) -> None:
    program = file(tmp_path, PARENT.replace('"1"', '"-"'))
    code = "import sys; from braces.cluster.launch import Job, launch; "
    code += f"sys.exit(launch(Job(({program!r},), 2, log_dir=__import__('pathlib').Path('.'))))"
    supervisor = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    until = time.monotonic() + 20
    logs = [tmp_path / "attempt-0" / f"process-{index}.log" for index in (0, 1)]
    while not all(path.exists() and path.read_text().endswith("\n") for path in logs):
        assert time.monotonic() < until
        time.sleep(0.05)
    supervisor.send_signal(number)
    assert supervisor.wait(5) == status
    assert gone([int(pid) for path in logs for pid in path.read_text().split()])


UNSHARE = ["unshare", "--user", "--map-root-user", "--uts"]


def can_rename() -> bool:
    """Return whether a process may have a machine name of its own here."""
    try:
        return not subprocess.run(
            [*UNSHARE, "hostname", "nowhere.invalid"], check=False
        ).returncode
    except OSError:
        return False


def renaming(folder: Path) -> Path:
    """A Python whose machine has a name that cannot be resolved."""
    path = folder / "python"
    inner = f'hostname nowhere.invalid; exec {sys.executable} "$@"'
    path.write_text(f"#!/bin/sh\nexec {' '.join(UNSHARE)} sh -c '{inner}' sh \"$@\"\n")
    path.chmod(0o755)
    return path


def losses(text: str) -> list[str]:
    return re.findall(r"^loss (.*)$", text, re.MULTILINE)


def refusals(text: str) -> list[str]:
    """Return the error messages of refused runs, without locations."""
    return re.findall(r"^(\w+Error: .*?)\nas before$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_processes_compare_train_together_and_end_together(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    count: int,
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    if can_rename():  # the name of this machine means nothing
        monkeypatch.setattr("braces.cluster.launch.sys.executable", str(renaming(tmp_path)))
    began = time.monotonic()
    assert launch(Job((processes.__file__,), count, devices=2, log_dir=tmp_path)) == 1
    assert time.monotonic() - began < 90
    logs = [log(tmp_path, index) for index in range(count)]
    check_compared(logs)
    check_trained(logs)
    last = count - 1
    assert all(f"\n{index} {count} environment 0\n" in text for index, text in enumerate(logs))
    ended = f"Process {last} failed: KeyError: 'no such thing'\n  Process 0 ends as well."
    assert ended in logs[0]
    assert "KeyError: 'no such thing'" in logs[last]
    assert "KeyError: 'no such thing'" in capsys.readouterr().err


def check_compared(logs: list[str]) -> None:
    """All say the same of what differs, and who came say who did not."""
    differ = "the data differs between processes.\n  given: process 0: of 0; process 1: of 1"
    assert all(differ in text for text in logs)
    late = "Process 0 did not compare the late within 0.5 s."
    assert [late in text for text in logs] == [False] + [True] * (len(logs) - 1)


def check_trained(logs: list[str]) -> None:
    """Losses are the same bits in all, and those of one process; so are errors."""
    assert len({tuple(losses(text)) for text in logs}) == 1
    found = [float.fromhex(one) for one in losses(logs[0])]
    np.testing.assert_allclose(found, alone(), rtol=1e-6)
    assert len({tuple(refusals(text)) for text in logs}) == 1
    bad, other, rows = refusals(logs[0])
    assert bad.startswith("IndexRangeError: An embedding id is out of range.")
    for error, told in ((other, ("program", 16)), (rows, ("program", 32))):
        assert error.startswith(f"ClusterError: the {told[0]} differs between processes.")
        assert re.search(
            rf"process(es)? 0.*: .* of .*x: f32\[{told[1]},16\].*; process 1", error
        )


def alone() -> list[float]:
    """The losses of one process, on one device."""
    program, loss = processes.learning()
    executor, scope, feeds = br.Executor(), br.Scope(), processes.batches()
    executor.init(program, scope)
    steps = sum(processes.STEPS)
    return [float(executor.run(program, scope, next(feeds), fetch=loss)) for _ in range(steps)]


@pytest.mark.thorough
def test_a_job_of_which_processes_are_killed_computes_the_same_bits(tmp_path: Path) -> None:
    found = kill_processes.attack(tmp_path, processes=2, steps=20, kills=3, seed=3)
    assert len(found) == 3
    assert max(kill.seconds for kill in found) < 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-n", "0", "x.py"], "processes=0 is out of range; expected 1 or more"),
        (["-n", "2"], "the program is missing"),
        (["-m"], "the program is missing"),
        (["--restarts", "-1", "x.py"], "restarts=-1 is out of range; expected 0 or more"),
        (["--devices", "0", "x.py"], "devices=0 is out of range; expected 1 or more"),
        (["--timeout", "nan", "x.py"], "expected timeout_s from 0 to 1e6 s, got nan"),
        (["--grace-s", "-1", "x.py"], "expected grace_s from 0 to 1e6 s, got -1.0"),
        (["--grace-s", "nan", "x.py"], "expected grace_s from 0 to 1e6 s, got nan"),
        (["--log-mb", "0", "x.py"], "expected log_mb from 0 to 1e6 MB, got 0.0"),
        (["--hosts", "2", "x.py"], "several hosts requires the address of process 0"),
        (["--host-index", "1", "x.py"], "host_index=1 is out of range for 1 hosts"),
        (["--address", "here", "x.py"], "invalid address 'here'"),
        (["-n", "2", "--restarts", "3", "no.py"], "the program file 'no.py' does not exist"),
    ],
)
def test_bad_usage_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["launch", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_job_that_cannot_be_run_is_refused() -> None:
    with pytest.raises(ClusterError, match="the program is missing"):
        launch(Job((), 1))
    with pytest.raises(ClusterError, match=r"file '/no/such/train\.py' does not exist"):
        launch(Job(("/no/such/train.py",), 2))
