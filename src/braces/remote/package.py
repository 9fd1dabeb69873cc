"""Packages that a client sends to a worker: a program or a block with its values, and feeds."""

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
from braces.ir.walk import all_ops, free_names_of, names_bound_by, producers, resolve_body
from braces.lower.interrupt.deadline import validate_seconds
from braces.lower.xla.concrete_attributes import Sizes
from braces.ops.random.stateless import runs_counted
from braces.program import Block, Program
from braces.remote.protocol.messages import LOAD, RUN, Message
from braces.remote.serving.session import DRAWN_FROM, PROGRAM, fetch_record
from braces.runtime.inputs.feeds import check_names, check_shape, convert_feed
from braces.runtime.inputs.persistables import check_states, read_states, seed_random_states
from braces.runtime.plan.plan import declared_data
from braces.scope import Scope
from braces.storage.parameters import check_variable_name, host_arrays
from braces.storage.tensor_file import Array


class Package:
    """A program in its serialized form, for several workers and for restarts.

    Args:
        program: A program, or a block: its inputs come from the scope, or else from feeds.
        scope: The scope of persistable variables, whose values are copied.
        mode: The mode of the worker's executor.
        device: The worker's device.

    Attributes:
        message: The load request.
        moves: The persistable variables that a run updates, without the state of random
            numbers, which each request contains.

    Raises:
        ProgramError: If `program` is neither a program nor a block.
        UninitializedError: If a persistable variable has no value.
        ShapeError: If the type of a value differs from the declared type.
    """

    def __init__(
        self, program: Builder | Block, scope: Scope | None, mode: str, device: str | None
    ) -> None:
        scope = Scope() if scope is None else scope
        definition = _definition(program, scope)
        values = _values(definition, scope)
        self._runs = _runs_counted(definition)
        self._state = values.get(RANDOM_STATE)
        counted = set[str]() if self._runs is None else {RANDOM_STATE}
        self.moves = sorted(definition.updates.keys() - counted)
        self._main = definition.main
        self._data = declared_data(definition.main)
        stored = np.frombuffer(Program(definition).to_bytes(), np.uint8)
        record = {"mode": mode, "device": device}
        self.message = Message(LOAD, record, {**values, PROGRAM: stored})

    def state(self, run: int, seed: int | None = None) -> Array | None:
        """Return the random state of a run in the scope of an executor; `None` without draws.

        Args:
            run: The number of earlier runs.
            seed: The seed of `Executor.init`; by default, the state of the scope is used.
        """
        first = self._state
        if first is None or self._runs is None:
            return None
        if seed is not None:
            first = seed_random_states([RANDOM_STATE], seed)[RANDOM_STATE]
        return first + np.array([0, run * self._runs % 2**32], first.dtype)

    def request(
        self,
        feed: Mapping[Any, Any] | None,
        names: Sequence[str],
        timeout_s: float | None,
    ) -> Message:
        """Build the request of a run without its random state; the feeds are copied.

        Raises:
            FeedError: If the feed is not a dict, or contains unknown data or data of a
                different type.
            ProgramError: If `timeout_s` is not a time.
        """
        arrays = self._fed({} if feed is None else feed)
        if timeout_s is not None:
            validate_seconds(timeout_s)
        fetches = [fetch_record(name) for name in names]
        return Message(RUN, {"fetch": fetches, "timeout_s": timeout_s}, arrays)

    def drawing(self, request: Message, run: int, seed: int | None = None) -> Message:
        """Add the random state of a run to its request; see `state`."""
        state = self.state(run, seed)
        if state is None:
            return request
        return replace(request, arrays={**request.arrays, DRAWN_FROM: state})

    def placed(self, error: BracesError) -> BracesError:
        """Replace the source path of a worker's error by the local path."""
        before, mark, location = (error.at or "").rpartition("built at ")
        sources = (op.source for _, op in all_ops(self._main)) if mark else ()
        for own in filter(None, sources):
            if location == str(Source(stored_path(own.file), own.line)):
                error.at = f"{before}{mark}{own}"
                break
        return error

    def _fed(self, feed: Mapping[Any, Any]) -> dict[str, Array]:
        if not isinstance(feed, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise FeedError(
                f"expected a dict of feeds, got {feed!r:.80}.", fix="Pass feed={'x': array, …}."
            )
        named = {key.name if isinstance(key, Var) else key: x for key, x in feed.items()}
        check_names(named, {}, self._data, dict)
        return {
            check_variable_name(name): np.array(convert_feed(self._data[name], value))
            for name, value in named.items()
        }


def _definition(program: Any, scope: Scope) -> ProgramDef:
    if isinstance(program, Block):
        return _close_block(program, scope)
    if isinstance(program, Builder):
        return program.definition
    raise ProgramError(
        f"expected a program, got {program!r:.80}.",
        fix="Load a br.Program, or a block of one.",
    )


def _values(definition: ProgramDef, scope: Scope) -> dict[str, Array]:
    """Return copies of the persistable values of a program."""
    kept = (info for info in definition.main.vars.values() if info.persistable)
    infos = {check_variable_name(info.name): info for info in kept}
    check_states(infos, read_states(infos, scope), Sizes())
    return host_arrays(scope, infos, copy=True)


def _runs_counted(definition: ProgramDef) -> int | None:
    """Return the increment of the random state's counter by a run.

    It is `None` if a run updates the state in another way.
    """
    if RANDOM_STATE not in definition.updates:
        return 0
    maker = producers(definition.main.ops).get(definition.updates[RANDOM_STATE])
    if maker is None or [*maker.reads()] != [RANDOM_STATE]:
        return None
    return runs_counted(maker)


def _close_block(block: Block, scope: Scope) -> ProgramDef:
    """Convert a block to a program: its inputs are kept if the scope has them, else fed."""
    bound = names_bound_by(block.ops)
    names = free_names_of(block.ops, block.desc.results, bound)
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
