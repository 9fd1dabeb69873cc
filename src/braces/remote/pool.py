"""A worker pool: batches over several workers, with results in order and none lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from braces.builder.builder import Builder
from braces.errors import ProgramError, RemoteError
from braces.program import Block
from braces.remote.client import MOST_SHOWN, Worker, endpoint_of
from braces.remote.package import Package
from braces.remote.protocol.messages import Message
from braces.runtime.inputs.fetches import read_fetch
from braces.runtime.inputs.persistables import check_seed
from braces.runtime.prefetch import check_prefetch_count
from braces.scope import Scope
from braces.storage.tensor_file import Array


class Workers:
    """Several workers with the same program, which share batches.

    Args:
        workers: The number of processes to start on this machine, or the addresses of workers.
        token: The key of the workers at addresses; the same for all.
        mode: As for `br.remote.worker`.
        device: As for `br.remote.worker`.
        timeout_s: The time limit of a connection or reconnection.
        env: Extra environment variables of processes that are started.

    Raises:
        RemoteError: If a worker does not start, cannot be reached, or does not have the token.
        ProgramError: If there are no workers, or an address is invalid.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.sum(br.data("x", ["batch"]))
        >>> with br.remote.Workers(2) as workers:  # doctest: +SKIP
        ...     workers.load(prog)
        ...     [float(y) for y in workers.map(({"x": np.ones(n)} for n in range(4)), y)]
        [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        workers: int | Sequence[str],
        token: str | None = None,
        *,
        mode: str = "compile",
        device: str | None = None,
        timeout_s: float = 30.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        addresses = _addresses(workers)
        endpoints = [endpoint_of(address, token, timeout_s, env) for address in addresses]
        self._how = mode, device
        self._pool = ThreadPoolExecutor(len(endpoints), "braces-workers")
        self._shipment: Package | None = None
        self._ran = 0
        futures = [self._pool.submit(Worker, place, mode, device) for place in endpoints]
        try:
            self.workers: list[Worker] = [future_.result() for future_ in futures]
        except BaseException:
            self._pool.shutdown()
            for future_ in futures:
                if not future_.exception():
                    future_.result().close()
            raise

    def __repr__(self) -> str:
        return f"<Workers: {len(self.workers)}>"

    def load(self, program: Builder | Block, scope: Scope | None = None) -> None:
        """Load a program or a block with its values into all workers; see `Worker.load`."""
        shipment = Package(program, scope, *self._how)
        for load_future in [
            self._pool.submit(member.hold, shipment) for member in self.workers
        ]:
            load_future.result()
        self._shipment, self._ran = shipment, 0

    def map(
        self,
        batches: Iterable[Mapping[Any, Any]],
        fetch: Any = (),
        *,
        seed: int | None = None,
        timeout_s: float | None = None,
        ahead: int = 2,
    ) -> Iterator[Any]:
        """Run the program for each batch; yield results in the order of the batches.

        A batch goes to any idle worker. If that dies, it is restarted and the batch is
        repeated; if it cannot be restarted, another worker takes the batch. Random numbers
        depend on the number of a batch. The results therefore equal those of one executor that
        runs all batches in order, for any number of workers and any failures.

        Args:
            batches: The feeds of each run, as for `Executor.run`; read lazily, and copied.
            fetch: The fetches of each run.
            seed: Draw as after `Executor.init` with this seed, with the batches run in order.
            timeout_s: The time limit of each run.
            ahead: The largest number of pending batches per worker, including those whose
                results wait for their turn.

        Returns:
            An iterator of results. A failed batch raises in its place, after the results before
            it, and so does `batches` itself; then the iterator ends.

        Raises:
            ProgramError: If no program is loaded, or runs depend on each other because the
                program updates variables.
        """
        shipment = self._independent()
        if seed is not None:
            check_seed(seed)
        names, shape_up = read_fetch(fetch)
        max_pending = check_prefetch_count(ahead) * len(self.workers)
        first = self._ran if seed is None else 0

        def request(number: int, batch: Any) -> Message:
            run_request = shipment.request(batch, names, timeout_s)
            return shipment.drawing(run_request, first + number, seed)

        return self._mapped(batches, request, shape_up, max_pending, seed is None)

    def _independent(self) -> Package:
        shipment = self._shipment
        if shipment is None:
            raise ProgramError(
                "the workers have no program.", fix="Load one: workers.load(program, scope)."
            )
        if shipment.moves:
            shown = ", ".join(f"`{name}`" for name in shipment.moves[:MOST_SHOWN])
            raise ProgramError(
                f"batches of this program depend on each other: a run updates {shown}.",
                fix="Load br.prune(program.for_test(), targets), or call one worker's run.",
            )
        return shipment

    def _mapped(
        self,
        batches: Iterable[Any],
        request: Callable[[int, Any], Message],
        shape_up: Callable[[list[Any]], Any],
        most: int,
        counted: bool,
    ) -> Generator[Any]:
        """Yield results in order, with at most `most` pending batches."""
        waiting = deque[Future[list[Array]]]()
        try:
            for future in self._futures(iter(batches), request):
                waiting.append(future)
                if len(waiting) >= most:
                    yield shape_up(waiting.popleft().result())
                    self._ran += counted
            while waiting:
                yield shape_up(waiting.popleft().result())
                self._ran += counted
        finally:
            for future in waiting:
                future.cancel()

    def _futures(
        self, batches: Iterator[Any], request: Callable[[int, Any], Message]
    ) -> Iterator[Future[list[Array]]]:
        """Yield a future for each batch; errors before sending are futures, too."""
        idle = _Idle(self.workers)
        number = 0
        while True:
            try:
                run_request = request(number, next(batches))
            except StopIteration:
                return
            except Exception as error:
                failed_future = Future[list[Array]]()
                failed_future.set_exception(error)
                yield failed_future
                return
            number += 1
            yield self._pool.submit(idle.ask, run_request)

    def close(self) -> None:
        """Close all workers; idempotent."""
        for worker in self.workers:
            worker.close()
        self._pool.shutdown(cancel_futures=True)

    def __len__(self) -> int:
        return len(self.workers)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Idle:
    """The idle workers; one that cannot be restarted does not return."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._left = len(workers)
        self._queue = SimpleQueue[Worker | None]()
        for worker in workers:
            self._queue.put(worker)

    def ask(self, request: Message) -> list[Array]:
        """Return the answer of the first idle worker that can be reached."""
        while (worker := self._queue.get()) is not None:
            try:
                return worker.ask(request)
            except RemoteError:
                if not worker.lost:
                    raise
            finally:
                self._release(worker)
        self._queue.put(None)  # for the next waiting thread
        raise RemoteError("all workers have ended.", fix="See their output; create others.")

    def _release(self, worker: Worker) -> None:
        if not worker.lost:
            self._queue.put(worker)
            return
        self._left -= 1
        if not self._left:
            self._queue.put(None)


def _addresses(workers: Any) -> list[str | None]:
    """Return the address of each worker; `None` for a process to start."""
    if isinstance(workers, int):
        addresses: list[str | None] = [None] * workers
    else:
        addresses = [workers] if isinstance(workers, str) else list(workers)
    if not addresses:
        raise ProgramError(
            "expected at least one worker, got none.", fix="Start some: br.remote.Workers(2)."
        )
    return addresses
