"""Models of the load test and of the benchmark, and a server as a process."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import braces as br

WIDTH, TOKENS = 16, 24


def save_sums(path: Path) -> None:
    """Write a model with exact results: each element of `y` is `2 x + sum(x)`."""
    with br.Program() as prog:
        x = br.data("x", ["n", WIDTH])
        y = x * 2.0 + br.sum(x, axis=1, keepdims=True)
    br.save_model(path, prog, br.Scope(), ["x"], {"y": y})


def sums(x: Any) -> Any:
    """Return the results of that model."""
    return x * 2.0 + x.sum(1, keepdims=True)


def save_counter(path: Path) -> None:
    """Write a generator with exact results: `state ← (5 state + 3) mod 1009`."""
    with br.Program() as prog:
        state = br.data("state", ["n"], dtype="int32")

        def step(state: Any) -> Any:
            after = (state * 5 + 3) % 1009
            return {"tokens": after}, {"state": after}

        fetches = br.decoding.generation_loop(step, {"state": state})
    br.save_model(path, prog, br.Scope(), ["state", "steps"], fetches)


def counted(first: int, count: int) -> list[int]:
    """Return the tokens of that generator."""
    tokens = [first]
    for _ in range(count):
        tokens.append((5 * tokens[-1] + 3) % 1009)
    return tokens[1:]


def save_network(path: Path, width: int, layers: int) -> tuple[br.Program, br.Scope, Any]:
    """Write a network of fully connected layers, and return its program, scope and output."""
    with br.Program() as prog:
        y = br.data("x", ["n", width])
        for _ in range(layers):
            y = br.relu(br.fc(y, width))
    scope = br.Executor().init(prog, seed=1)
    br.save_model(path, prog, scope, ["x"], {"y": y})
    return prog, scope, y


@contextmanager
def served(*arguments: Any) -> Generator[tuple[subprocess.Popen[str], int]]:
    """Run a command that serves, and yield its process and its port once it is ready."""
    line = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().strip().rpartition(":")[2])
            wait_ready(port)
            yield process, port
        finally:
            if process.poll() is None:
                process.kill()


def wait_ready(port: int, timeout_s: float = 120.0) -> None:
    """Wait until all models are compiled."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=5)
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("the server is not ready")


def random_rows(rng: np.random.Generator, most: int) -> Any:
    """Return up to `most` rows of small integers, whose sums are exact."""
    rows = int(rng.integers(1, most + 1))
    return rng.integers(-50, 50, (rows, WIDTH)).astype(np.float32)
