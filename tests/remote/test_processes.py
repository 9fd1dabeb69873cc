"""Workers in processes of their own: they are killed, come back, and end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.cli.commands.worker import read_token
from braces.remote.endpoints import LocalEndpoint
from tests.remote.workers import batches, drawing, linear, same

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes"),
]


def process_of(worker: br.remote.Worker) -> int:
    place: Any = worker._place
    assert isinstance(place, LocalEndpoint)
    assert place.process is not None
    return place.process.id


def there(process: int) -> bool:
    """Return whether it runs; one that has ended and is not waited for does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(process: int, within_s: float = 5.0) -> bool:
    until = time.monotonic() + within_s
    while there(process) and time.monotonic() < until:
        time.sleep(0.02)
    return not there(process)


def test_a_worker_that_is_killed_comes_back_and_gives_the_same() -> None:
    program, y, scope = linear()
    feeds = [{"x": np.full((1, 2), n, np.float32)} for n in range(30)]
    with br.remote.worker() as one:
        first = process_of(one)
        one.load(program, scope)
        futures = [one.submit(feed, y) for feed in feeds]
        futures[8].result()
        os.kill(first, signal.SIGKILL)
        same([f.result() for f in futures], [np.float32([[5.0 * n]]) for n in range(30)])
        second = process_of(one)
        assert second != first
        command = Path(f"/proc/{second}/cmdline").read_bytes()
        environment = Path(f"/proc/{second}/environ").read_bytes()
        place: Any = one._place
        assert place.process.token.encode() not in command + environment
    assert gone(first)
    assert gone(second)


PARENT = """
import os, sys
import braces as br
one = br.remote.worker()
print(one._place.process.id, flush=True)
sys.stdin.read()
"""


@pytest.mark.thorough
def test_a_worker_ends_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert there(process)
        parent.kill()
    assert gone(process)


@pytest.mark.thorough
def test_a_program_that_closes_nothing_ends_and_so_does_its_worker() -> None:
    code = PARENT.replace("sys.stdin.read()", "")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert gone(int(done.stdout))


@pytest.mark.thorough
def test_a_process_that_cannot_start_is_an_error() -> None:
    with pytest.raises(br.RemoteError, match=r"did not start: it ended with status \d+"):
        br.remote.worker(env={"PYTHONHOME": "/nowhere"})


@pytest.mark.thorough
@pytest.mark.parametrize("round", range(5))
def test_workers_killed_at_random_lose_nothing(round: int, rng: np.random.Generator) -> None:
    program, drawn, scope = drawing()
    feeds = batches(60)
    killed = set(rng.integers(0, 60, 2).tolist())
    found = []
    with br.remote.Workers(2) as workers:
        workers.load(program, scope)
        for number, result in enumerate(workers.map(feeds, drawn, seed=round)):
            found.append(result)
            if number in killed:
                os.kill(process_of(workers.workers[number % 2]), signal.SIGKILL)
    with br.remote.Workers(1) as workers:
        workers.load(program, scope)
        wanted = list(workers.map(feeds, drawn, seed=round))
    for got, one in zip(found, wanted, strict=True):
        same(got, one)


# ---- the command -----------------------------------------------------------------------------


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "worker.token"
    token = read_token(str(path))
    assert len(token) >= 40
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(str(path)).strip() == token
    path.chmod(0o640)
    with pytest.raises(br.ProgramError, match="chmod 600"):
        read_token(str(path))
    path.chmod(0o600)
    path.write_bytes(b"x" * 10_000)
    with pytest.raises(br.FileFormatError, match="larger"):
        read_token(str(path))


@pytest.mark.thorough
def test_the_command_serves_who_has_its_token_and_comes_back_where_it_was(
    tmp_path: Path,
) -> None:
    path = tmp_path / "worker.token"
    program, y, scope = linear()
    first, address = started(path, "127.0.0.1:0")
    token = path.read_text()
    with br.remote.worker(address, token) as one:
        one.load(program, scope)
        assert one.run({"x": [[1.0, 10.0]]}, y) == 32.0
        with pytest.raises(br.RemoteError, match="did not accept"):
            br.remote.worker(address, token[::-1])
        first.kill()
        first.communicate()
        again, same_address = started(path, address)
        assert same_address == address
        assert one.run({"x": [[1.0, 10.0]]}, y) == 32.0
        again.send_signal(signal.SIGINT)
        assert again.communicate()[1].strip() == "Stopped."


@pytest.mark.thorough
def test_the_command_warns_of_an_unencrypted_connection(tmp_path: Path) -> None:
    worker, address = started(tmp_path / "t", "0.0.0.0:0")
    assert address.startswith("0.0.0.0:")
    worker.terminate()
    assert "not encrypted" in worker.communicate()[1]


def started(path: Path, listen: str) -> tuple[subprocess.Popen[str], str]:
    command = ["worker", "--listen", listen, "--token-file", str(path)]
    worker = subprocess.Popen(
        [sys.executable, "-m", "braces", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    return worker, worker.stdout.readline().strip()
