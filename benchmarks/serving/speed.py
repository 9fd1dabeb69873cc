"""Latency beside ONNX Runtime behind the same server, and throughput beside the executor alone.

"no computation" is the same server with a model whose outputs are stored: its latency is the
time of client, network and server, without which no server on these cores can be measured.

python -m benchmarks.serving.speed                 write a table
python -m benchmarks.serving.speed --seconds 2     shorter

Sides take turns; each number is the median of its turns, and a ratio is the median of those
of neighbouring turns, with its quartiles. The servers are the same application with another
`run`.
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

MODELS = {"small": (64, 3), "large": (512, 6)}
"""Widths and numbers of layers: a run of about 0.02 ms, and one of about 1 ms for a batch."""
ROUNDS, LARGE_BATCH = 12, 64
OPTIONS = ("--port", 0, "--max-batch", LARGE_BATCH)
CASES = (
    ("small", 1, 1, "onnxruntime", 0),
    ("small", 1, 16, "onnxruntime", 0),
    ("large", LARGE_BATCH, 1, "executor alone", 1),
    ("large", LARGE_BATCH, 4, "executor alone", 1),
)
"""Model, rows of a request, connections, the base of ratios, latency (0) or throughput (1)."""
Turn = Callable[[float], tuple[float, float]]


Run = Callable[[Any], dict[str, Any]]


def run_onnx(onnx: str, names: list[str]) -> Run:
    """Return a function that computes the outputs by ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])

    def run(feed: Any) -> dict[str, Any]:
        return dict(zip(names, session.run(None, dict(feed)), strict=True))

    return run


def run_nothing(names: list[str]) -> Run:
    """Return a function that answers with its input, without a copy."""

    def run(feed: Any) -> dict[str, Any]:
        (x,) = feed.values()
        return dict.fromkeys(names, x)

    return run


def serve_other(model: str, onnx: str) -> None:
    """Serve a model file, computed by ONNX Runtime, or not at all if `onnx` is empty."""
    repository = load_models({"m": model})
    (mine,) = repository["m"].values()
    names = [*mine.signature.outputs]
    run = run_onnx(onnx, names) if onnx else run_nothing(names)
    theirs = replace(mine, run=run, compile=lambda feed: run(feed) and None)
    hosts = ("localhost", "127.0.0.1", "[::1]")
    app = InferenceApp({"m": {"1": theirs}}, make_settings(max_batch=LARGE_BATCH, hosts=hosts))
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


def executor_turn(path: str, rows: int, width: int) -> Turn:
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


def alternate(sides: dict[str, Turn], seconds: float) -> dict[str, np.ndarray[Any, Any]]:
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
        low, ratio, high = np.quantile(
            values[:, column] / turns[base][:, column], [0.25, 0.5, 0.75]
        )
        text = "" if name == base else f"{ratio:.2f} ({low:.2f} to {high:.2f})"
        yield f"| {what} | {name} | {shown} | {text} |"


def start_servers(folder: str, name: str, stack: ExitStack) -> dict[str, int]:
    """Start the servers of a model, and return their ports by side."""
    path, onnx = f"{folder}/{name}.model", f"{folder}/{name}.onnx"
    width, layers = MODELS[name]
    prog, scope, y = save_network(Path(path), width, layers)
    br.to_onnx(prog, onnx, scope=scope, fetches=[y])
    other = ("-m", "benchmarks.serving.speed", "--other", path)
    lines = {
        "braces": ("-m", "braces", "serve", f"m={path}", *OPTIONS),
        "onnxruntime": (*other, onnx),
        "no computation": (*other, ""),
    }
    return {side: stack.enter_context(served(*line))[1] for side, line in lines.items()}


def measure(seconds: float) -> list[str]:
    """Return the table."""
    lines = ["| case | side | median latency | rows/s | ratio |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports = {name: start_servers(folder, name, stack) for name in MODELS}
        for name, rows, connections, base, column in CASES:
            width = MODELS[name][0]
            sides: dict[str, Turn] = {
                side: Side(port, rows, width, connections).turn
                for side, port in ports[name].items()
            }
            sides["executor alone"] = executor_turn(f"{folder}/{name}.model", rows, width)
            turns = alternate(sides, seconds)
            what = f"{rows} rows, {connections} connections"
            lines += rows_of(what, turns, base, column)
            added = turns["braces"][:, 0] - turns["executor alone"][:, 0]
            lines.append(f"| added per request | | {1000 * np.median(added):.2f} ms | | |")
    return lines


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("benchmarks.serving.speed")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--other", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.other:
        serve_other(*options.other)
        return 0
    print("\n".join(measure(options.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
