"""What a client sends to a worker: a program or a block with its values, and feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from braces.builder.builder import Builder
from braces.builder.var import Var
from braces.dims import Unifier
from braces.errors import BracesError, FeedError, ProgramError
from braces.frontend.core.random_state import RANDOM_STATE
from braces.ir.files.bounded_read import stored_path
from braces.ir.records import DATA, PARAMETER, Body, ProgramDef, Source, VarInfo
from braces.ir.walk import all_ops, free_of, producers, resolve_body
from braces.lower.interrupt.deadline import checked_seconds
from braces.lower.xla.concrete_attributes import Sizes
from braces.ops.random.stateless import runs_counted
from braces.program import Block, Program
from braces.remote.protocol.messages import LOAD, RUN, Message
from braces.remote.worker.session import DRAWN_FROM, PROGRAM
from braces.runtime.inputs.feeds import check_names, check_shape, convert
from braces.runtime.inputs.persistables import check_states, read_states, seeded
from braces.runtime.plan.plan import declared_data
from braces.scope import Scope
from braces.storage.parameters import check_stored_name, host_arrays
from braces.storage.tensor_file import Array


class Shipment:
    """A program as it is sent, again to each worker and to one that was set up anew.

    Args:
        program: A program, or a block: what it reads comes from the scope, or else from feeds.
        scope: Where persistable variables have their values, which are copied.
        mode: How the worker runs it.
        device: Where the worker runs it.

    Attributes:
        message: The request that loads it.
        moves: The persistable variables to which a run gives other values; not the state of
            random numbers, for each run is sent its own.

    Raises:
        ProgramError: `program` is neither.
        UninitializedError: A persistable variable has no value.
        ShapeError: A value is not of the declared type.
    """

    def __init__(
        self, program: Builder | Block, scope: Scope | None, mode: str, device: str | None
    ) -> None:
        scope = Scope() if scope is None else scope
        whole = _definition(program, scope)
        values = _values(whole, scope)
        self._runs = _runs_counted(whole)
        self._state = values.get(RANDOM_STATE)
        counted = set[str]() if self._runs is None else {RANDOM_STATE}
        self.moves = sorted(whole.updates.keys() - counted)
        self._main = whole.main
        self._data = declared_data(whole.main)
        stored = np.frombuffer(Program(whole).to_bytes(), np.uint8)
        record = {"mode": mode, "device": device}
        self.message = Message(LOAD, record, {**values, PROGRAM: stored})

    def state(self, run: int, seed: int | None = None) -> Array | None:
        """The random state that a run has in the scope of an executor; `None` without draws.

        Args:
            run: How many runs were before it.
            seed: As if `Executor.init` had been given it; what the scope had unless said.
        """
        first = self._state
        if first is None or self._runs is None:
            return None
        if seed is not None:
            first = seeded([RANDOM_STATE], seed)[RANDOM_STATE]
        return first + np.array([0, run * self._runs % 2**32], first.dtype)

    def request(
        self,
        feed: Mapping[Any, Any] | None,
        names: Sequence[str],
        timeout_s: float | None,
    ) -> Message:
        """A run, as it is sent but for what it draws from; the feeds are copied.

        Raises:
            FeedError: The feed is no dict, or has data that is unknown or of another type.
            ProgramError: `timeout_s` is no time.
        """
        arrays = self._fed({} if feed is None else feed)
        if timeout_s is not None:
            checked_seconds(timeout_s)
        return Message(RUN, {"fetch": list(names), "timeout_s": timeout_s}, arrays)

    def drawing(self, request: Message, run: int, seed: int | None = None) -> Message:
        """A run that draws what one draws in the scope of an executor; see `state`."""
        state = self.state(run, seed)
        if state is None:
            return request
        return replace(request, arrays={**request.arrays, DRAWN_FROM: state})

    def placed(self, error: BracesError) -> BracesError:
        """An error of a worker, with the path of the user's file as it is here."""
        before, mark, place = (error.at or "").rpartition("built at ")
        sources = (op.source for _, op in all_ops(self._main)) if mark else ()
        for own in filter(None, sources):
            if place == str(Source(stored_path(own.file), own.line)):
                error.at = f"{before}{mark}{own}"
                break
        return error

    def _fed(self, feed: Mapping[Any, Any]) -> dict[str, Array]:
        if not isinstance(feed, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise FeedError(f"{feed!r:.80} is no dict.", fix="Pass feed={'x': array, …}.")
        named = {key.name if isinstance(key, Var) else key: x for key, x in feed.items()}
        check_names(named, {}, self._data, dict)
        return {
            check_stored_name(name): np.array(convert(self._data[name], value))
            for name, value in named.items()
        }


def _definition(program: Any, scope: Scope) -> ProgramDef:
    if isinstance(program, Block):
        return _closed(program, scope)
    if isinstance(program, Builder):
        return program.definition
    raise ProgramError(
        f"{program!r:.80} is no program.", fix="Load a br.Program, or a block of one."
    )


def _values(whole: ProgramDef, scope: Scope) -> dict[str, Array]:
    """The values of what a program keeps from run to run, copied."""
    kept = (info for info in whole.main.vars.values() if info.persistable)
    infos = {check_stored_name(info.name): info for info in kept}
    check_states(infos, read_states(infos, scope), Sizes())
    return host_arrays(scope, infos, copy=True)


def _runs_counted(whole: ProgramDef) -> int | None:
    """By how much a run raises the counter of the random state, if that is all it does."""
    if RANDOM_STATE not in whole.updates:
        return 0
    maker = producers(whole.main.ops).get(whole.updates[RANDOM_STATE])
    if maker is None or [*maker.reads()] != [RANDOM_STATE]:
        return None
    return runs_counted(maker)


def _closed(block: Block, scope: Scope) -> ProgramDef:
    """A block as a program: what it reads and the scope has is kept, the rest is fed."""
    bound = {name for op in block.ops for name in op.binds()}
    names = free_of(block.ops, block.desc.results, bound)
    values = dict(zip(names, scope.raws(names), strict=True))
    inputs, sizes = dict[str, VarInfo](), Sizes()
    for name, value in values.items():
        info = block.symbol_table.get_var(name)
        kind = DATA if value is None else PARAMETER
        inputs[name] = VarInfo(name, info.type, kind, axes=info.axes)
        if value is not None:
            check_shape(info, value, sizes)
    unifier = Unifier()
    unifier.known.update(sizes)
    body = Body((), block.desc.results, {**block.vars, **inputs}, block.ops)
    return ProgramDef(resolve_body(body, unifier.resolve), {})
