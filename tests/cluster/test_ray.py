"""`braces launch --ray`; tests that need Ray run if it is installed."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from braces.cli.main import main
from braces.cluster import ray_launch

THERE = importlib.util.find_spec("ray") is not None
FAILS_ONCE = """
import os
import sys
import braces as br
job = br.cluster.start()
br.cluster.agree("attempt", str(job.attempt))
with open(sys.argv[1], "a") as file:
    file.write(f"{job.process_index} {job.process_count} {job.attempt}\\n")
if job.attempt == 0 and job.process_index == 1:
    os._exit(3)
br.cluster.agree("end", "")
"""


@pytest.mark.skipif(THERE, reason="Ray is installed")
def test_without_ray_it_is_said_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--ray", "train.py"]) == 1
    assert 'pip install "braces[ray]"' in capsys.readouterr().err


def test_an_address_of_ipv6_has_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    node = SimpleNamespace(get_node_ip_address=lambda: "fd00::1")
    monkeypatch.setattr(ray_launch, "ray", SimpleNamespace(util=node))
    assert ray_launch.RayProcess().address().startswith("[fd00::1]:")


def test_hosts_are_left_to_ray(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--ray", "--address", "here:1", "train.py"]) == 1
    assert "--hosts and --address are not supported with --ray" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.skipif(not THERE, reason="Ray is not installed")
@pytest.mark.filterwarnings("default")
def test_a_job_that_fails_on_ray_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    program, said = tmp_path / "program.py", tmp_path / "said"
    program.write_text(FAILS_ONCE)
    options = ["--ray", "-n", "2", "--restarts", "1", "--timeout", "60"]
    assert main(["launch", *options, str(program), str(said)]) == 0
    places = [f"{index} 2 {attempt}" for attempt in (0, 1) for index in (0, 1)]
    assert sorted(said.read_text().splitlines()) == sorted(places)
