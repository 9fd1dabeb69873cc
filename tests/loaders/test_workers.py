"""Worker processes, and data sets of grain; both need the extra `data`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

grain: Any = pytest.importorskip("grain", reason="grain is an extra")


def double(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"y": batch["y"] * 2, "noise": rng.random(4), "pid": np.array([os.getpid()])}


def fail(batch: dict[str, Any]) -> Any:
    if 7 in batch["y"]:
        raise ZeroDivisionError("of the user")
    return batch


def die(batch: dict[str, Any]) -> Any:
    if 7 in batch["y"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return batch


def contents(batches: Any) -> list[Any]:
    return [(batch["y"].tolist(), batch["noise"].tolist()) for batch in batches]


def test_workers_give_the_same_batches_in_the_same_order(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.arange(20))
    source = {"y": tmp_path / "y.npy"}
    alone = br.batches(source, 4, transform=double)
    with br.batches(source, 4, transform=double, workers=2) as data:
        assert data.fingerprint() == alone.fingerprint()
        batches = [*data.epoch(0), *data.epoch(1)]
        assert contents(batches) == [*contents(alone.epoch(0)), *contents(alone.epoch(1))]
        pids = {int(batch["pid"][0]) for batch in batches}
        assert len(pids) == 2
        assert os.getpid() not in pids
        assert contents(data.epoch(1, 3)) == contents(alone.epoch(1, 3))


def test_a_worker_that_ends_is_an_error_and_not_a_hang() -> None:
    data = br.batches({"y": np.arange(20)}, 4, transform=die, workers=1, shuffle=False)
    with pytest.raises(br.FeedError, match="a worker process of the data set ended"):
        list(data)


def test_errors_of_users_reach_the_reader() -> None:
    data = br.batches({"y": np.arange(20)}, 4, transform=fail, workers=1, shuffle=False)
    with pytest.raises(ZeroDivisionError, match="of the user"):
        list(data)


def test_a_script_without_a_guard_gets_an_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import braces as br, numpy as np\n"
        "for batch in br.batches({'y': np.arange(9)}, 4, workers=1): print(batch)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "if __name__ == '__main__':" in done.stderr
    assert "leaked" not in done.stderr


def test_a_process_that_leaves_its_workers_ends_quietly(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import braces as br, numpy as np\n"
        "if __name__ == '__main__':\n"
        "    data = br.batches({'y': np.arange(9)}, 4, workers=1)\n"
        "    print(next(iter(data))['y'].tolist())\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=environment, timeout=120,
        check=False,
    )  # fmt: skip
    expected = next(iter(br.batches({"y": np.arange(9)}, 4)))["y"].tolist()
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{expected}\n", "")


# ---- data sets of grain ----------------------------------------------------------------------


def pipeline() -> Any:
    rows = [{"y": np.array(i)} for i in range(10)]
    return grain.MapDataset.source(rows).seed(7).shuffle()


def rows(batches: Any) -> list[list[int]]:
    return [batch["y"].tolist() for batch in batches]


@pytest.mark.parametrize("batched", [True, False])
def test_a_map_data_set_of_grain_resumes_at_each_batch(batched: bool) -> None:
    data: Any = br.batches(pipeline().batch(4)) if batched else br.batches(pipeline(), 4)
    assert len(data) == 3
    whole = [rows(data.epoch(e)) for e in range(3)]
    assert sorted(sum(whole[0], [])) == list(range(10))  # noqa: RUF017
    assert whole[0] != whole[1] != whole[2]
    flat = rows(pipeline().batch(4).repeat(3))
    assert whole[0] + whole[1] + whole[2] == flat
    for epoch in range(3):
        for start in range(4):
            assert rows(data.epoch(epoch, start)) == whole[epoch][start:]


def test_workers_of_a_map_data_set_keep_its_order() -> None:
    data = br.batches(pipeline().batch(4), workers=2)
    assert rows(data.epoch(1, 1)) == rows(br.batches(pipeline().batch(4)).epoch(1, 1))


def test_other_pipelines_of_grain_are_refused() -> None:
    with pytest.raises(br.FeedError, match="repeats without end"):
        br.batches(pipeline().batch(4).repeat())
    with pytest.raises(br.ProgramError, match="`workers` cannot be applied to an IterDataset"):
        br.batches(pipeline().to_iter_dataset(), workers=2)
    with pytest.raises(br.ProgramError, match="`pad_last` cannot be applied"):
        br.batches(pipeline(), 4, pad_last=True)
