"""Batches over several workers: results in the order of the batches, and none lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from braces.builder.builder import Builder
from braces.errors import ProgramError, RemoteError
from braces.program import Block
from braces.remote.client import MOST_SHOWN, Worker, place_of
from braces.remote.package import Shipment
from braces.remote.protocol.messages import Message
from braces.runtime.inputs.fetches import read_fetch
from braces.runtime.inputs.persistables import check_seed
from braces.runtime.prefetch import check_ahead
from braces.scope import Scope
from braces.storage.tensor_file import Array


class Workers:
    """Several workers with the same program, which share batches out among them.

    Args:
        workers: How many processes to start on this machine, or the addresses of workers.
        token: The key of those at addresses; the same for all.
        mode: As for `br.remote.worker`.
        device: As for `br.remote.worker`.
        timeout_s: How long to try to reach each, at first and when it was lost.
        env: Variables for the environment of processes that are started.

    Raises:
        RemoteError: One does not start, is not reached, or does not hold the token.
        ProgramError: There are none, or an address is none.

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
        places = [place_of(address, token, timeout_s, env) for address in addresses]
        self._how = mode, device
        self._pool = ThreadPoolExecutor(len(places), "braces-workers")
        self._shipment: Shipment | None = None
        self._ran = 0
        made = [self._pool.submit(Worker, place, mode, device) for place in places]
        try:
            self.workers: list[Worker] = [one.result() for one in made]
        except BaseException:
            self._pool.shutdown()
            for one in made:
                if not one.exception():
                    one.result().close()
            raise

    def load(self, program: Builder | Block, scope: Scope | None = None) -> None:
        """Send a program or a block, with its values, to all of them; see `Worker.load`."""
        shipment = Shipment(program, scope, *self._how)
        for held in [self._pool.submit(one.hold, shipment) for one in self.workers]:
            held.result()
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
        """Run the program for each batch; the results come in the order of the batches.

        A batch goes to whichever worker is free. Where that dies, it is set up again and the
        batch is sent again; where it cannot be, another one takes the batch. Draws follow from
        the number of a batch, so the results are those of one executor that runs batch after
        batch, however many workers there are and whichever die.

        Args:
            batches: What each run is fed, as for `Executor.run`; read as they are needed, and
                copied.
            fetch: What each run gives.
            seed: Draw as if `Executor.init` had been given it, and batch after batch been run.
            timeout_s: How long each run may take.
            ahead: How many batches each worker has at most, those among them whose results
                wait for their turn.

        Returns:
            An iterator of results. A batch that fails raises in its place, after the results
            before it, and so does `batches` itself; then it ends.

        Raises:
            ProgramError: Nothing is loaded; or runs would not be independent of each other,
                because the program updates something.
        """
        shipment = self._independent()
        if seed is not None:
            check_seed(seed)
        names, shape_up = read_fetch(fetch)
        most = check_ahead(ahead) * len(self.workers)
        first = self._ran if seed is None else 0

        def request(number: int, batch: Any) -> Message:
            asked = shipment.request(batch, names, timeout_s)
            return shipment.drawing(asked, first + number, seed)

        return self._mapped(batches, request, shape_up, most, seed is None)

    def _independent(self) -> Shipment:
        shipment = self._shipment
        if shipment is None:
            raise ProgramError(
                "The workers have no program.", fix="Send one: workers.load(program, scope)."
            )
        if shipment.moves:
            shown = ", ".join(f"`{name}`" for name in shipment.moves[:MOST_SHOWN])
            raise ProgramError(
                f"Batches of this program depend on each other: a run updates {shown}.",
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
        """Results in order; at most so many batches are on their way or wait for their turn."""
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
        """One for each batch; what goes wrong before it is sent is raised in its place, too."""
        idle = _Idle(self.workers)
        number = 0
        while True:
            try:
                asked = request(number, next(batches))
            except StopIteration:
                return
            except Exception as error:
                failed = Future[list[Array]]()
                failed.set_exception(error)
                yield failed
                return
            number += 1
            yield self._pool.submit(idle.ask, asked)

    def close(self) -> None:
        """Close all of them; again is fine."""
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
    """The workers that have nothing to do; one that cannot be set up again does not return."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._left = len(workers)
        self._queue = SimpleQueue[Worker | None]()
        for worker in workers:
            self._queue.put(worker)

    def ask(self, request: Message) -> list[Array]:
        """The answer of the first worker that is free and can be reached."""
        while (worker := self._queue.get()) is not None:
            try:
                return worker.ask(request)
            except RemoteError:
                if not worker.lost:
                    raise
            finally:
                self._done(worker)
        self._queue.put(None)  # for the next one who waits
        raise RemoteError("No worker is left.", fix="See why they ended; make others.")

    def _done(self, worker: Worker) -> None:
        if not worker.lost:
            self._queue.put(worker)
            return
        self._left -= 1
        if not self._left:
            self._queue.put(None)


def _addresses(workers: Any) -> list[str | None]:
    """The address of each; `None` for a process that is started."""
    if isinstance(workers, int):
        addresses: list[str | None] = [None] * workers
    else:
        addresses = [workers] if isinstance(workers, str) else list(workers)
    if not addresses:
        raise ProgramError("There are no workers.", fix="Start some: br.remote.Workers(2).")
    return addresses
