"""A load test: well-formed requests among clients that are killed, slow, or send garbage.

python -m benchmarks.serving.load                  ten minutes
python -m benchmarks.serving.load --seconds 30

Each well-formed request must get the right answer; 503 asks for a repetition. Damaged bodies
must be refused with a status from 400 to 499 (or be valid by chance), slow ones within the
time limit of bodies. At the end no request may be left, and SIGTERM must end the server with
status 0 and no traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving.http_client import Link, binary_request, head, json_request
from benchmarks.serving.models import (
    counted,
    random_rows,
    save_counter,
    save_sums,
    served,
    sums,
)

INFER, STREAM = "/v2/models/sums/infer", "/v2/models/counter/generate_stream"
BODY_TIMEOUT_S, LONGEST_ANSWER_S = 1.0, 30.0
MOST_TOKENS = 40
GONE = (ConnectionError, asyncio.IncompleteReadError, ValueError)


class Load:
    """The clients of one server.

    Attributes:
        counts: Numbers of events by name.
        faults: Descriptions of lost and wrong answers.
        latencies: Seconds of well-formed requests.
    """

    def __init__(self, port: int, seconds: float, seed: int) -> None:
        self.port, self.end = port, time.monotonic() + seconds
        self.rng = np.random.default_rng(seed)
        self.counts = Counter[str]()
        self.faults: list[str] = []
        self.latencies: list[float] = []

    async def run(self, scale: int = 1) -> None:
        """Run all clients until the end."""
        clients = {self.good: 8, self.stream: 2, self.damaged: 2, self.leaving: 2, self.slow: 2}
        tasks = [
            self._repeat(client)
            for client, count in clients.items()
            for _ in range(count * scale)
        ]
        await asyncio.gather(*tasks, self._killed())

    async def run_good(self) -> None:
        """Run clients that behave, in a process that will be killed."""
        await asyncio.gather(
            *(self._repeat(self.good) for _ in range(8)), self._repeat(self.stream)
        )

    async def _repeat(self, client: Any) -> None:
        link = Link(self.port)
        while time.monotonic() < self.end:
            try:
                async with asyncio.timeout(LONGEST_ANSWER_S):
                    await client(link)
            except TimeoutError:
                self._fault(client, "no answer in time")
            except GONE as error:
                self._fault(client, f"connection lost: {error!r}")
            if self.rng.random() < 0.02:
                link.close()
        link.close()

    def _fault(self, client: Any, text: str) -> None:
        self.faults.append(f"{client.__name__}: {text}")

    # ---- clients that behave -----------------------------------------------------------------

    async def good(self, link: Link) -> None:
        """Ask in JSON or binary, and check the answer."""
        x = random_rows(self.rng, 6)
        is_binary = self.rng.random() < 0.5
        sent, headers = binary_request("x", x) if is_binary else (json_request("x", x), {})
        started = time.perf_counter()
        await link.send(INFER, sent, headers)
        status, answered, body = await link.receive()
        if status == 503:
            self.counts["good: asked again"] += 1
            await asyncio.sleep(0.01)
            return
        self.latencies.append(time.perf_counter() - started)
        self.counts["good"] += 1
        if status != 200:
            self._fault(self.good, f"status {status}: {body[:200]!r}")
        elif not np.array_equal(_values(answered, body, x.shape), sums(x)):
            self._fault(self.good, "wrong values")

    async def stream(self, link: Link) -> None:
        """Read a stream to its end, or leave it."""
        first, count = int(self.rng.integers(1000)), int(self.rng.integers(1, MOST_TOKENS))
        asked = {"state": first, "parameters": {"max_tokens": count}}
        await link.send(STREAM, json.dumps(asked).encode())
        status, _ = await link.head()
        if status != 200:
            self._fault(self.stream, f"status {status}")
            link.close()
            return
        tokens, leaves = list[int](), self.rng.random() < 0.3
        async for chunk in link.chunks():
            tokens += [json.loads(line[6:])["tokens"][0] for line in chunk.splitlines() if line]
            if leaves:
                link.close(reset=True)
                self.counts["streams left"] += 1
                return
        self.counts["streams"] += 1
        if tokens != counted(first, count):
            self._fault(self.stream, "wrong tokens")

    # ---- clients that do not -----------------------------------------------------------------

    async def damaged(self, link: Link) -> None:
        """Send a damaged body, which must be refused, or answered if it is valid by chance."""
        sent, headers = binary_request("x", random_rows(self.rng, 3))
        if self.rng.random() < 0.5:
            sent, headers = json_request("x", random_rows(self.rng, 3)), {}
        data = bytearray(sent)
        for _ in range(int(self.rng.integers(1, 6))):
            data[int(self.rng.integers(len(data)))] = int(self.rng.integers(256))
        if self.rng.random() < 0.3:
            del data[int(self.rng.integers(1, len(data))) :]
        await link.send(INFER, bytes(data), headers)
        status, _, body = await link.receive()
        self.counts[f"damaged: {status}"] += 1
        if not (status in (200, 503) or 400 <= status < 500):
            self._fault(self.damaged, f"status {status}: {body[:200]!r}")

    async def leaving(self, link: Link) -> None:
        """Disconnect in the middle of a request, or before its answer."""
        sent = json_request("x", random_rows(self.rng, 3))
        whole = head(INFER, len(sent)) + sent
        writer = await link.open()
        writer.write(whole[: int(self.rng.integers(1, len(whole) + 1))])
        await writer.drain()
        link.close(reset=self.rng.random() < 0.5)
        self.counts["left"] += 1
        await asyncio.sleep(0.005)

    async def slow(self, link: Link) -> None:
        """Send a body in two parts, in time or not.

        The server's time begins with its `100 Continue`, which may come late on a busy machine.
        """
        link.close()
        x = random_rows(self.rng, 2)
        sent = json_request("x", x)
        is_late = self.rng.random() < 0.3
        writer = await link.open()
        writer.write(head(INFER, len(sent), {"expect": "100-continue"}))
        begun, _ = await link.head()
        if begun != 100:
            self._fault(self.slow, f"status {begun} instead of 100")
            return
        writer.write(sent[:10])
        await asyncio.sleep(1.5 * BODY_TIMEOUT_S if is_late else 0.3 * BODY_TIMEOUT_S)
        writer.write(sent[10:])
        status, answered, body = await link.receive()
        self.counts[f"slow: {status}"] += 1
        if is_late != (status == 408):
            self._fault(self.slow, f"status {status} of a body that is late: {is_late}")
        elif status == 200 and not np.array_equal(_values(answered, body, x.shape), sums(x)):
            self._fault(self.slow, "wrong values")

    async def _killed(self) -> None:
        """Start a process of clients, and kill it, again and again."""
        while time.monotonic() < self.end - 3.0:
            line = [
                sys.executable,
                "-m",
                "benchmarks.serving.load",
                "--clients",
                str(self.port),
            ]
            process = await asyncio.create_subprocess_exec(
                *line, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            assert process.stdout is not None
            await process.stdout.readline()  # its clients run
            await asyncio.sleep(float(self.rng.uniform(0.2, 2.0)))
            process.kill()
            await process.wait()
            self.counts["processes killed"] += 1


def _values(headers: dict[str, str], body: bytes, shape: tuple[int, ...]) -> Any:
    length = headers.get("inference-header-content-length")
    if length is not None:
        return np.frombuffer(body[int(length) :], np.float32).reshape(shape)
    return np.array(json.loads(body)["outputs"][0]["data"], np.float32).reshape(shape)


def memory_mib(process: int) -> float:
    """Return the resident memory of a process; 0 where the system does not show it."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def measure(seconds: float, seed: int) -> tuple[Load, list[str]]:
    """Run the load test, and return its counts and faults with a description."""
    with tempfile.TemporaryDirectory() as folder:
        save_sums(Path(folder, "sums.model"))
        save_counter(Path(folder, "counter.model"))
        arguments = [f"{folder}/sums.model", f"{folder}/counter.model", "--port", 0]
        limits = ["--max-batch", 16, "--body-timeout-s", BODY_TIMEOUT_S, "--max-queue", 64]
        with served("-m", "braces", "serve", *arguments, *limits) as (process, port):
            asyncio.run(Load(port, min(2.0, seconds / 4), seed + 1).run())  # memory settles
            before = memory_mib(process.pid)
            load = Load(port, seconds, seed)
            asyncio.run(load.run())
            load.faults += leftovers(port)
            after = memory_mib(process.pid)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=30)
        if process.returncode != 0:
            load.faults.append(f"the server ended with status {process.returncode}")
        if "Traceback" in errors:
            load.faults.append(errors[-2000:])
    return load, [f"memory {before:.0f} → {after:.0f} MiB"]


def leftovers(port: int) -> list[str]:
    """Return descriptions of requests that are left after all clients are gone."""
    text = ""
    for _ in range(50):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        lines = [line for line in text.splitlines() if line[0] != "#"]
        samples = dict(line.rsplit(" ", 1) for line in lines)
        waiting = [v for k, v in samples.items() if k.startswith("braces_waiting")]
        if samples["braces_active_requests"] == "1" and set(waiting) == {"0"}:
            return []
        time.sleep(0.1)
    return [f"requests are left: {text[:600]}"]


def describe(load: Load, notes: list[str]) -> str:
    """Return a report."""
    lines = [f"{name:24} {count}" for name, count in sorted(load.counts.items())]
    if load.latencies:
        quantiles = 1000 * np.quantile(load.latencies, [0.5, 0.99])
        lines.append(
            f"latency                  median {quantiles[0]:.2f} ms, p99 {quantiles[1]:.2f} ms"
        )
    return "\n".join([*lines, *notes, f"faults                   {len(load.faults)}"])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser("benchmarks.serving.load")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.clients is not None:
        print("ready", flush=True)
        asyncio.run(Load(options.clients, 60.0, time.time_ns()).run_good())
        return 0
    load, notes = measure(options.seconds, options.seed)
    print(describe(load, notes))
    for fault in load.faults[:20]:
        print(fault)
    return int(bool(load.faults))


if __name__ == "__main__":
    sys.exit(main())
