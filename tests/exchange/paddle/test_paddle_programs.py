"""Programs that Paddle itself writes: values equal to Paddle's, in both modes.

Paddle needs another NumPy than JAX, so it runs in an environment of its own:

    PADDLE_PYTHON=/path/to/python pytest -m thorough tests/exchange/paddle
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import braces as br

PYTHON = os.environ.get("PADDLE_PYTHON", "")
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(not PYTHON, reason="PADDLE_PYTHON names no Python with Paddle"),
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("paddle")
    script = Path(__file__).with_name("paddle_models.py")
    subprocess.run([PYTHON, script, folder], check=True, timeout=250, capture_output=True)
    return sorted(path.parent for path in folder.glob("*/cases.npz"))


@pytest.mark.parametrize("mode", ["compile", "interpret"])
def test_programs_that_paddle_writes_give_what_paddle_gives(
    mode: str, programs: list[Path]
) -> None:
    assert len(programs) > 12
    for folder in programs:
        prog, values = br.from_paddle(folder)
        cases = np.load(folder / "cases.npz")
        feed = {key[5:]: cases[key] for key in cases if key.startswith("feed/")}
        feed |= {f"{k[8:]}.lengths": cases[k] for k in cases if k.startswith("lengths/")}
        wanted = [cases[f"fetch/{at}"] for at in range(len(cases.files) - len(feed))]
        scope = br.Scope()
        scope.update(values)
        fetch = [name for name in prog.fetches if not name.endswith(".lengths")]
        found = br.Executor(mode=mode).run(prog, scope, feed=feed, fetch=fetch)
        for made, value in zip(found, wanted, strict=True):
            assert (made.shape, made.dtype) == (value.shape, value.dtype), folder.name
            np.testing.assert_allclose(made, value, rtol=2e-5, atol=5e-6, err_msg=folder.name)
