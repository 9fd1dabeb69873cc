"""The client side of a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

from braces.builder.builder import Builder
from braces.errors import ProgramError, RemoteError, RunError, as_error
from braces.frontend.core.random_state import RANDOM_STATE
from braces.lower.interrupt.deadline import validate_seconds
from braces.program import Block
from braces.remote.endpoints import Connection, Endpoint, LocalEndpoint, RemoteEndpoint
from braces.remote.package import Package
from braces.remote.protocol.connection import LONGEST_S
from braces.remote.protocol.messages import ERROR, VALUES, Message
from braces.remote.serving.ray_actor import RAY, RayEndpoint
from braces.remote.serving.session import fetch_name
from braces.runtime.inputs.fetches import read_fetch
from braces.scope import Scope
from braces.storage.tensor_file import Array

TIMES = 3
"""The number of attempts of a run."""
GRACE_S = 5.0
"""The extra time after `timeout_s` before a worker counts as stuck."""

MOST_SHOWN = 8


def worker(
    address: str | None = None,
    token: str | None = None,
    *,
    mode: str = "compile",
    device: str | None = None,
    timeout_s: float = 30.0,
    env: Mapping[str, str] | None = None,
) -> Worker:
    """Connect to a worker process, and start one if there is no address.

    A worker without an address is started on this machine, with a private key, and ends with
    this process at the latest. An address belongs to a worker that `braces worker` started.
    Messages contain the bytes of a program and arrays: no code, and nothing pickled.

    Args:
        address: `HOST:PORT` of a listening worker; `"ray"` or `"ray://HOST:PORT"` for a Ray
            actor, which needs no token.
        token: Its key, the contents of its token file.
        mode: The mode of its executor: `"compile"` or `"interpret"`.
        device: The device: `"cpu:0"`, `"gpu:0"`, … of its machine.
        timeout_s: The time limit of a connection or reconnection.
        env: Extra environment variables of a started process, as `{"CUDA_VISIBLE_DEVICES":
            "1"}`.

    Raises:
        RemoteError: If the worker does not start, cannot be reached, or does not have the
            token.
        ProgramError: If the address is invalid, or has no token.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 2])
        ...     y = br.matmul(x, br.parameter("w", [2, 1], init=[[2.0], [3.0]]))
        >>> scope = br.Scope()
        >>> _ = br.Executor().init(prog, scope)
        >>> with br.remote.worker() as one:  # doctest: +SKIP
        ...     one.load(br.prune(prog, [y]), scope)
        ...     print(one.run({"x": [[1.0, 10.0]]}, y))
        [[32.]]
    """
    return Worker(endpoint_of(address, token, timeout_s, env), mode, device)


def endpoint_of(
    address: str | None, token: str | None, timeout_s: float, env: Mapping[str, str] | None
) -> Endpoint:
    """Return the endpoint of a worker.

    Raises:
        ProgramError: If the address is invalid or has no token; `timeout_s` is not a time.
    """
    patience_s = min(validate_seconds(timeout_s), LONGEST_S)
    if address is None:
        return LocalEndpoint(env, patience_s)
    if address == RAY or str(address).startswith(f"{RAY}://"):
        return RayEndpoint(address, env, patience_s)
    if token is None:
        raise ProgramError(
            f"the worker at {address} requires a token.",
            fix='Pass token=, such as pathlib.Path("worker.token").read_text().',
        )
    return RemoteEndpoint(address, token, patience_s)


class Worker:
    """A remote process with one program and its values; `br.remote.worker` creates it.

    Runs are executed one by one in the order of the calls, also from several threads. If the
    worker dies, it is restarted with the program and the values as they were loaded, and the
    run is repeated. It draws the same random numbers, so the result is the same. This does not
    hold for a program that updates more than the state of random numbers: its run raises, and
    the worker has no program until one is loaded.

    Args:
        place: The endpoint.
        mode: The mode of its executor.
        device: The device.

    Attributes:
        lost: Whether it could not be restarted when it was last needed.
    """

    def __init__(
        self, place: Endpoint, mode: str = "compile", device: str | None = None
    ) -> None:
        self._place = place
        self._how = mode, device
        self._closed = Event()
        self._pool = ThreadPoolExecutor(1, "braces-remote")
        self._asked: Connection | None = None
        self._shipment: Package | None = None
        self._ran = 0
        self.lost = False
        try:
            self._soon(self._ready).result()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """The address where it listens; it changes when the process is restarted."""
        return self._place.address

    def load(self, program: Builder | Block, scope: Scope | None = None) -> None:
        """Load a program or a block with its values, in place of the previous one.

        Args:
            program: A program, preferably pruned by `br.prune`; or a block, as
                `prog.blocks[1]`: its inputs come from the scope if present there, else from
                feeds.
            scope: The scope of persistable variables. Their values are copied: later changes of
                either side are not shared.

        Raises:
            UninitializedError: If a persistable variable has no value.
            VerifyError: If the worker rejects the program as not well formed.
            RemoteError: If the worker is not reachable.
        """
        self.hold(Package(program, scope, *self._how))

    def hold(self, shipment: Package) -> None:
        """Load a package that other workers may share."""
        self._soon(self._load, shipment).result()

    def run(
        self,
        feed: Mapping[Any, Any] | None = None,
        fetch: Any = (),
        *,
        seed: int | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        """Run the program as `Executor.run` does, and return the fetches.

        Args:
            feed: Name of a data variable, or the variable, to its value.
            fetch: A variable or name, a sequence of them, or a dict with them as values.
            seed: Draw the random numbers of the first run after `init` with this seed. By
                default, runs continue the random state of the scope.
            timeout_s: The time limit of the run in seconds. A worker that has not answered five
                seconds later is abandoned, and restarted for the next run.

        Raises:
            BracesError: If the run fails; class and text are those of a local run.
            RemoteError: If the worker ended and cannot be restarted, ended three times in this
                run, or lost the updates of the program.
        """
        return self.submit(feed, fetch, seed=seed, timeout_s=timeout_s).result()

    def submit(
        self,
        feed: Mapping[Any, Any] | None = None,
        fetch: Any = (),
        *,
        seed: int | None = None,
        timeout_s: float | None = None,
    ) -> Future[Any]:
        """Start a run, and return a future of its result; the feeds are copied."""
        shipment = self._loaded()
        names, shape_up = read_fetch(fetch)
        request = shipment.request(feed, names, timeout_s)
        if seed is not None:
            request = shipment.drawing(request, 0, seed)
            return self._soon(lambda: shape_up(self._fetched(request)))
        return self._soon(lambda: shape_up(self._next_results(shipment, request)))

    def ask(self, request: Message) -> list[Array]:
        """Return the results of a run request, as `Package.request` builds it."""
        return self._soon(self._fetched, request).result()

    def values(self) -> dict[str, Array]:
        """Return the current persistable values of the worker: `scope.update(one.values())`.

        Raises:
            RemoteError: If the worker is not reachable.
        """
        return self._soon(self._receive, self._loaded()).result()

    def close(self) -> None:
        """Close the connection, and end a process that was started; idempotent.

        A pending run raises `RemoteError`; queued runs are cancelled.
        """
        self._closed.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._asked is not None:
            self._asked.close()
        self._pool.shutdown()
        self._drop()
        self._place.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Worker at {self.address}{', closed' * self._closed.is_set()}>"

    # ---- executed in the worker's thread -----------------------------------------------------

    def _soon(self, do: Any, *arguments: Any) -> Future[Any]:
        if self._closed.is_set():
            raise _closed()
        return self._pool.submit(do, *arguments)

    def _loaded(self) -> Package:
        if self._shipment is None:
            raise ProgramError(
                "the worker has no program.", fix="Load one: worker.load(program, scope)."
            )
        return self._shipment

    def _load(self, shipment: Package) -> None:
        self._shipment = None
        self._call(shipment.message)
        self._shipment, self._ran = shipment, 0

    def _next_results(self, shipment: Package, request: Message) -> list[Array]:
        """Return the results of the next run; a failed run does not count."""
        results = self._fetched(shipment.drawing(request, self._ran))
        self._ran += 1
        return results

    def _receive(self, shipment: Package) -> dict[str, Array]:
        values_, state = self._call(Message(VALUES)).arrays, shipment.state(self._ran)
        return {**values_, **({} if state is None else {RANDOM_STATE: state})}

    def _fetched(self, request: Message) -> list[Array]:
        arrays = self._call(request, request.record["timeout_s"]).arrays
        return [arrays[fetch_name(number)] for number in range(len(request.record["fetch"]))]

    def _call(self, request: Message, timeout_s: float | None = None) -> Message:
        """Return the answer to a request; repeat it if the worker died and that is safe."""
        moves = self._shipment.moves if self._shipment is not None else []
        limit_s = None if timeout_s is None else timeout_s + GRACE_S
        for _ in range(1 if moves else TIMES):
            try:
                return self._good(self._ready().ask(request, limit_s))
            except OSError as error:
                self._drop()
                if moves:
                    self._shipment = None
                if self._closed.is_set():
                    raise _closed() from None
                if timeout_s is not None and isinstance(error, TimeoutError):
                    raise _stuck_error(timeout_s) from None
        raise _died_error(self._place.describe_end(), moves)

    def _ready(self) -> Connection:
        """Return a connection to a worker that has the program."""
        if self._asked is None:
            self.lost = True
            self._asked = self._place.open(self._closed)
            self.lost = False
            if self._shipment is not None:
                self._load_again(self._asked, self._shipment)
        if self._closed.is_set():
            raise _closed()
        return self._asked

    def _load_again(self, connection: Connection, shipment: Package) -> None:
        try:
            self._good(connection.ask(shipment.message))
        except BaseException:
            self._drop()
            raise

    def _good(self, answer: Message) -> Message:
        if answer.kind == ERROR:
            error = as_error(answer.record, RemoteError)
            raise error if self._shipment is None else self._shipment.placed(error)
        return answer

    def _drop(self) -> None:
        if self._asked is not None:
            self._asked.close()
        self._asked = None


def _closed() -> RemoteError:
    return RemoteError("the worker was closed.", fix="Create another: br.remote.worker().")


def _stuck_error(timeout_s: float) -> RunError:
    return RunError(
        f"the run took longer than timeout_s={timeout_s:g}, and the worker did not answer.",
        fix="Increase timeout_s; the worker is set up again for the next run.",
    )


def _died_error(ending: str, moves: Sequence[str]) -> RemoteError:
    if not moves:
        return RemoteError(
            f"the worker {ending}, {TIMES} times in this run.",
            fix="See its output; a smaller batch may fit into its memory.",
        )
    shown = ", ".join(f"`{name}`" for name in moves[:MOST_SHOWN])
    return RemoteError(
        f"the worker {ending}, and the values that it had updated are lost: {shown}"
        f"{', …' if len(moves) > MOST_SHOWN else ''}.",
        fix="Load the last saved values: worker.load(program, scope).",
    )
