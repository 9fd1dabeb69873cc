"""A job of two processes with parts of one data set is killed, and resumes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fitting.nets import STEPS

ROOT = Path(__file__).parents[2]

JOB = """
import os, signal, sys
import jax
import numpy as np
import braces as br
br.cluster.start()
from tests.fitting.nets import arrays, bits

folder, out, kill, victim = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
parts = []


def noisy(batch, rng):
    parts.append(sorted(batch["x"][:, 0].tolist()))
    return {"x": batch["x"] + rng.normal(size=(len(batch["x"]), 1)), "y": batch["y"]}


class Kill(br.Callback):
    def on_step(self, run, step):
        if step.number == kill and jax.process_index() == victim:
            os.kill(os.getpid(), signal.SIGKILL)


with br.Program() as prog:
    x, y = br.data("x", ["n", 4]), br.data("y", ["n", 1])
    hidden = br.dropout(br.fc(x, 8, act="tanh", name="a"), 0.2)
    loss = br.mean(br.squared_error(br.fc(hidden, 1, name="b"), y))
    br.optimizer.adam(0.1).minimize(loss)
data = br.batches(arrays(28), 4, seed=5, transform=noisy)
valid = br.batches(arrays(8), 4, shuffle=False)
exe = br.Executor(layout=br.Layout(br.Mesh({"data": 2}), dims={"n": "data"}))
run = br.fit(
    prog, data, epochs=3, validation=valid, exe=exe, folder=folder, save_every=2, quiet=True,
    callbacks=[Kill()],
)
assert all(len(part) == 2 for part in parts)
values = {name: np.asarray(value) for name, value in run.scope.state_dict().items()}
digest = bits(run.scope)
with open(f"{out}.{jax.process_index()}", "w") as file:
    print(run.resumed, file=file)
    print(digest, *run.history.rows, sep="\\n", file=file)
    print("parts", parts[: 7] if run.resumed is None else "", file=file)
"""


@pytest.mark.timeout(400)
def test_a_killed_job_ends_with_the_bits_of_an_undisturbed_one(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PYTHONPATH": path}

    def launch(folder: str, kill: int = 0, victim: int = 0) -> int:
        command = [sys.executable, "-m", "braces", "launch", "-n", "2", str(script)]
        command += [str(tmp_path / folder), str(tmp_path / f"{folder}.out"), str(kill)]
        done = subprocess.run(
            [*command, str(victim)], cwd=ROOT, capture_output=True, text=True, timeout=150,
            env=environment, check=False,
        )  # fmt: skip
        assert done.returncode == 0 or kill, done.stdout + done.stderr
        return done.returncode

    launch("whole")
    for kill, victim in ((5, 1), (2 * STEPS + 2, 0)):
        assert launch("parts", kill, victim) != 0
        assert not (tmp_path / "parts.out.0").exists()
    launch("parts")
    resumed, *results = (tmp_path / "parts.out.0").read_text().splitlines()
    other = (tmp_path / "parts.out.1").read_text().splitlines()
    _, *expected = (tmp_path / "whole.out.0").read_text().splitlines()
    assert int(resumed) >= STEPS + 2
    assert results[:-1] == other[1:-1] == expected[:-1]
    own, others = ((tmp_path / f"whole.out.{i}").read_text().splitlines()[-1] for i in range(2))
    assert own != others  # each process reads its own part
