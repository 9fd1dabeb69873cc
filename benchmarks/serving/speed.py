"""Latency beside ONNX Runtime behind the same server, and throughput beside the executor alone.

python -m benchmarks.serving.speed                 write a table
python -m benchmarks.serving.speed --seconds 2     shorter

Sides take turns; each number is the median of its turns, and a ratio is the median of those
of neighbouring turns. The server with ONNX Runtime is the same application with another `run`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from benchmarks.serving.http_client import Link, binary_request
from benchmarks.serving.models import save_network, served
from braces.serving.http.application import InferenceApp
from braces.serving.http.settings import make_settings
from braces.serving.models.model_files import load_models
from braces.serving.server import InferenceServer
from braces.web.server import listen

SMALL, LARGE = (64, 3), (512, 6)
"""Widths and numbers of layers: a run of about 0.05 ms, and one of about 2 ms for a batch."""
ROUNDS, LARGE_BATCH = 12, 64


def serve_onnx(model: str, onnx: str) -> None:
    """Serve a model file, computed by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
    repository = load_models({"m": model})
    (mine,) = repository["m"].values()
    names = [*mine.signature.outputs]

    def run(feed: Any) -> Any:
        return dict(zip(names, session.run(None, dict(feed)), strict=True))

    theirs = replace(mine, run=run, compile=lambda feed: run(feed) and None)
    app = InferenceApp({"m": {"1": theirs}}, make_settings(max_batch=LARGE_BATCH))
    server = InferenceServer(app, listen("127.0.0.1", 0))
    print(server.url, flush=True)
    server.run()


class Side:
    """A server under load.

    Args:
        port: Its port.
        rows: The number of rows of a request.
        width: The size of a row.
        connections: The number of connections.
    """

    def __init__(self, port: int, rows: int, width: int, connections: int) -> None:
        x = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
        self._sent, self._headers = binary_request("x", x)
        self._port, self._connections, self.rows = port, connections, rows

    def turn(self, seconds: float) -> tuple[float, float]:
        """Return the median latency in seconds, and the number of rows in a second."""
        times = asyncio.run(self._ask(seconds))
        return float(np.median(times)), len(times) * self.rows / seconds

    async def _ask(self, seconds: float) -> list[float]:
        times: list[float] = []
        end = time.perf_counter() + seconds

        async def client() -> None:
            link = Link(self._port)
            while (started := time.perf_counter()) < end:
                await link.send("/v2/models/m/infer", self._sent, self._headers)
                status, _, body = await link.receive()
                assert status == 200, body[:200]
                times.append(time.perf_counter() - started)
            link.close()

        await asyncio.gather(*(client() for _ in range(self._connections)))
        return times


def executor_turn(path: str, rows: int, width: int) -> Callable[[float], tuple[float, float]]:
    """Return a function that measures the executor alone, with the same batches."""
    model = br.load_model(path)
    x = np.random.default_rng(0).normal(size=(rows, width)).astype(np.float32)
    model.run(x=x)

    def turn(seconds: float) -> tuple[float, float]:
        times, end = list[float](), time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            model.run(x=x)
            times.append(time.perf_counter() - started)
        return float(np.median(times)), len(times) * rows / seconds

    return turn


def alternate(
    sides: dict[str, Callable[[float], tuple[float, float]]], seconds: float
) -> dict[str, np.ndarray[Any, Any]]:
    """Return latencies and throughputs of all turns by side."""
    for side in sides.values():
        side(min(0.3, seconds))
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            turns[name].append(side(seconds))
    return {name: np.array(values) for name, values in turns.items()}


def rows_of(
    what: str, turns: dict[str, np.ndarray[Any, Any]], base: str, column: int
) -> Iterable[str]:
    """Yield lines of the table."""
    for name, values in turns.items():
        shown = f"{1000 * np.median(values[:, 0]):.2f} ms | {np.median(values[:, 1]):,.0f}"
        ratio = np.median(values[:, column] / turns[base][:, column])
        yield f"| {what} | {name} | {shown} | {'' if name == base else f'{ratio:.2f}'} |"


def measure(seconds: float) -> list[str]:
    """Return the table."""
    lines = ["| case | side | median latency | rows/s | ratio |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports: dict[str, tuple[int, int]] = {}
        paths = {name: f"{folder}/{name}.model" for name in ("small", "large")}
        for (name, path), (width, layers) in zip(paths.items(), (SMALL, LARGE), strict=True):
            prog, scope, y = save_network(Path(path), width, layers)
            br.to_onnx(prog, f"{folder}/{name}.onnx", scope=scope, fetches=[y])
            line = [
                "-m",
                "braces",
                "serve",
                f"m={path}",
                "--port",
                0,
                "--max-batch",
                LARGE_BATCH,
            ]
            _, mine = stack.enter_context(served(*line))
            line = ["-m", "benchmarks.serving.speed", "--onnx", path, f"{folder}/{name}.onnx"]
            _, theirs = stack.enter_context(served(*line))
            ports[name] = mine, theirs
        for connections in (1, 16):
            turns = alternate(
                {
                    "braces": Side(ports["small"][0], 1, SMALL[0], connections).turn,
                    "onnxruntime": Side(ports["small"][1], 1, SMALL[0], connections).turn,
                    "executor alone": executor_turn(paths["small"], 1, SMALL[0]),
                },
                seconds,
            )
            lines += rows_of(f"1 row, {connections} connections", turns, "onnxruntime", 0)
            added = turns["braces"][:, 0] - turns["executor alone"][:, 0]
            lines.append(f"| added per request | | {1000 * np.median(added):.2f} ms | | |")
        for connections in (1, 4):
            turns = alternate(
                {
                    "braces": Side(ports["large"][0], LARGE_BATCH, LARGE[0], connections).turn,
                    "onnxruntime": Side(
                        ports["large"][1], LARGE_BATCH, LARGE[0], connections
                    ).turn,
                    "executor alone": executor_turn(paths["large"], LARGE_BATCH, LARGE[0]),
                },
                seconds,
            )
            what = f"{LARGE_BATCH} rows, {connections} connections"
            lines += rows_of(what, turns, "executor alone", 1)
    return lines


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("benchmarks.serving.speed")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--onnx", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.onnx:
        serve_onnx(*options.onnx)
        return 0
    print("\n".join(measure(options.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
