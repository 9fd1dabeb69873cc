"""ONNX Runtime as a backend of an executor.

    plan -> ONNX model in memory -> session: fetches and next values = session.run(feeds, …)

The model has symbolic sizes, so one session serves all shapes. If the export needs known sizes,
each set of sizes has its own session. Variables that a plan does not update are constants of
the session, which ONNX Runtime folds and rearranges. After they have changed repeatedly, as
between the steps of a training, they are inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import is_
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np

from braces.errors import DeviceError, FeedError, ProgramError, RunError
from braces.exchange.onnx.runtime import require_packages, session
from braces.exchange.onnx.writer.exporter import build_model
from braces.exchange.onnx.writer.graph.files import MOST_BYTES
from braces.exchange.onnx.writer.graph.graph import value_info
from braces.extend.backends import (
    Compilation,
    CompileReporter,
    Devices,
    ExecutableCache,
    Run,
    Runnable,
    Sizes,
    ValueChecks,
    detect_forks,
    from_carriers,
    observers_error,
)
from braces.extend.operators import Plan
from braces.extend.programs import resolve_body
from braces.extend.types import TensorType, substitute
from braces.lazy import onnx

NAME = "onnxruntime"
MOST_CHANGES = 2
"""After more changes of constants, they become inputs of the session."""
WITHOUT = f'Use br.Executor() without backend="{NAME}".'


@dataclass(eq=False)
class OnnxSession:
    """A session of ONNX Runtime.

    Attributes:
        run: Computes the outputs of these names from inputs by name.
        inputs: The names of its inputs.
        outputs: The names of its outputs: fetches, then next values.
        constants: The values of variables that are part of it, by name.
        used: The time of the last use, by the clock of the executor.
    """

    run: Any
    inputs: frozenset[str]
    outputs: tuple[str, ...]
    constants: Mapping[str, Any]
    used: int = 0

    def holds(self, states: Mapping[str, Any]) -> bool:
        """Return whether its constants are the current values."""
        return all(states[name] is value for name, value in self.constants.items())


@dataclass(frozen=True, eq=False)
class Inputs:
    """The checked inputs of a run.

    Attributes:
        types: The names and types of the feeds.
        values: The values of the persistable variables.
        states: The same, by name.
        sizes: The sizes that they determine.
    """

    types: list[Any]
    values: Sequence[Any]
    states: Mapping[str, Any]
    sizes: Sizes

    def equal(self, types: list[Any], values: Sequence[Any]) -> bool:
        """Return whether a run has the same types and the same persistable variables."""
        return types == self.types and all(map(is_, values, self.values))


@dataclass(frozen=True)
class OnnxRuntimeBackend:
    """The backend with its options.

    Attributes:
        threads: The number of threads of an operator; `None` for the choice of ONNX Runtime.
    """

    threads: int | None = None

    def open(self, name: str | None) -> Devices:
        """Return the CPU.

        Raises:
            DeviceError: If the device is not a CPU.
            MissingPackageError: If ONNX or ONNX Runtime is not installed.
        """
        if name is not None and not name.startswith("cpu"):
            raise DeviceError(
                f"the backend {NAME} is unsupported on {name}.", fix='Use device="cpu:0".'
            )
        require_packages()
        return Devices()

    def prepare_process(self) -> None:
        """Detect forks of this process."""
        detect_forks()

    def __call__(
        self,
        plan: Plan,
        devices: Devices,
        checks: ValueChecks,
        recent: ExecutableCache,
        notice: CompileReporter,
    ) -> Runnable:
        """Return a runnable plan.

        Raises:
            ProgramError: If the run checks for NaNs or infinities.
        """
        del devices
        if checks:
            raise ProgramError(
                f"check_nan and check_inf are unsupported by the backend {NAME}.", fix=WITHOUT
            )
        return OnnxRuntimePlan(plan, recent, notice, self.threads)


class OnnxRuntimePlan:
    """A plan that runs in ONNX Runtime; see `braces.runtime.backend.interface`."""

    def __init__(
        self,
        plan: Plan,
        recent: ExecutableCache,
        notice: CompileReporter,
        threads: int | None,
    ) -> None:
        self.plan, self.notice, self.threads = plan, notice, threads
        self.used = 0
        self.executables: dict[Any, OnnxSession] = {}
        self.recent = recent
        self.recent.own(self)
        self.exact = False
        self.changes = 0
        self.latest: Inputs | None = None
        self.turn = Lock()

    def run(self, run: Run) -> list[Any]:
        """Run and commit; runs that update states are serialized.

        Raises:
            ProgramError: If the run has listeners, kept scopes or a time limit, or ONNX Runtime
                cannot run the program.
            RunError: If ONNX Runtime fails.
        """
        _refuse_options(run)
        if self.plan.updates:
            with run.scope.turn:
                results = self._transact(run)
        else:
            results = self._compute(run)[0]
        return from_carriers(self.plan.wanted, results, self.plan.narrow)

    def compile(self, run: Run) -> None:
        """Create the session that a run with these types needs, if there is none yet."""
        with run.scope.turn:
            self._session(run, self._check_inputs(run))

    def forget(self, key: Any) -> None:
        """Evict a session."""
        self.executables.pop(key, None)

    def _transact(self, run: Run) -> list[Any]:
        """Compute, and commit the next values of all variables that the run may change."""
        results, values = self._compute(run)
        changed = {
            name: value
            for name, value in zip(self.plan.updates, values, strict=True)
            if name not in run.given
        }
        committed = from_carriers(tuple(changed), list(changed.values()), self.plan.narrow)
        run.scope.put_all(changed, committed)
        return results

    def _compute(self, run: Run) -> tuple[list[Any], list[Any]]:
        """Return the fetches and the next values."""
        with run.scope.turn:
            inputs = self._check_inputs(run)
            opened = self._session(run, inputs)
        arrays_by_name = {**inputs.states, **run.feeds}
        missing = [name for name in opened.inputs if name not in arrays_by_name]
        if missing:
            raise FeedError(
                f"missing feeds: {', '.join(sorted(missing))}, which determine sizes.",
                fix=f"Pass feed={{{missing[0]!r}: array, …}}.",
            )
        arrays = {name: np.asarray(arrays_by_name[name]) for name in opened.inputs}
        try:
            outputs = opened.run(opened.outputs, arrays)
        except Exception as error:  # ONNX Runtime raises classes of its own
            raise RunError("ONNX Runtime failed.", given=f"{error!s:.500}") from None
        fetched = len(self.plan.fetches)
        return list(map(np.asarray, outputs[:fetched])), outputs[fetched:]

    def _check_inputs(self, run: Run) -> Inputs:
        """Return the checked inputs of a run, often those of the last run."""
        run.read(self.plan.states, self.plan.narrow)
        types = [(*run.feeds,), *((x.shape, x.dtype) for x in run.feeds.values())]
        latest = self.latest
        if latest is None or not latest.equal(types, run.states):
            sizes = run.sizes(self.plan.data, self.plan.states)
            named = run.named(self.plan.states)
            latest = Inputs(types, run.states, named, sizes)
            self.latest = None if self.plan.updates else latest
        return latest

    # ---- sessions ----------------------------------------------------------------------------

    def _session(self, run: Run, inputs: Inputs) -> OnnxSession:
        """Return the session for the inputs of a run; create it if there is none."""
        with self.turn:
            opened = self.executables.get(self._key(inputs))
            if opened is not None and not opened.holds(inputs.states):
                self.changes += 1
                opened = None
            if opened is None:
                opened = self._counted(run, inputs)
                self.executables[self._key(inputs)] = opened
        opened.used = self.recent.now()
        return opened

    def _key(self, inputs: Inputs) -> Any:
        """Return the sizes for which a session is created; empty if it serves all."""
        return tuple(sorted(inputs.sizes.items())) if self.exact else ()

    def _counted(self, run: Run, inputs: Inputs) -> OnnxSession:
        """Create a session, measure the time, and report it."""
        self.recent.make_room()
        begun = perf_counter()
        opened = self._opened(inputs)
        form = "inputs" if self.changes > MOST_CHANGES else f"constants, version {self.changes}"
        facts = {"the form of parameters": form}
        change = self.notice.change(run.feeds, inputs.states, facts)
        compilation = Compilation(self.notice.program, change, perf_counter() - begun, False)
        self.recent.counters.add(compilation)
        self.notice.tell(compilation)
        return opened

    def _opened(self, inputs: Inputs) -> OnnxSession:
        model, weights = self._model(inputs.sizes)
        constants = self._constants(inputs.states, weights)
        for name, value in constants.items():
            array = np.ascontiguousarray(value).reshape(value.shape)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        for name in weights:
            if name not in constants and name not in self.plan.updates:
                model.graph.input.append(value_info(name, self.plan.states[name].type))
        unread = self.plan.updates.keys() - set(self.plan.replaced)
        for entry in [entry for entry in model.graph.input if entry.name in unread]:
            model.graph.input.remove(entry)
        outputs = tuple(entry.name for entry in model.graph.output)
        try:
            opened = session(model.SerializeToString(), threads=self.threads, waits=True)
        except Exception as error:  # ONNX Runtime raises classes of its own
            raise ProgramError(
                "ONNX Runtime cannot run the program.", given=f"{error!s:.500}", fix=WITHOUT
            ) from None
        names = frozenset(entry.name for entry in opened.get_inputs())
        return OnnxSession(opened.run, names, outputs, constants)

    def _constants(self, states: Mapping[str, Any], weights: Sequence[str]) -> dict[str, Any]:
        """Return the variables that become constants of the session."""
        kept = {name: states[name] for name in weights if name not in self.plan.updates}
        small = sum(value.nbytes for value in kept.values()) <= MOST_BYTES
        return kept if small and self.changes <= MOST_CHANGES else {}

    def _model(self, sizes: Sizes) -> tuple[Any, list[str]]:
        """Return the model and its weights, with known sizes if the export needs them."""
        try:
            return _build(self.plan)
        except ProgramError as error:
            if not sizes:
                raise _unsupported(error) from None
        body = resolve_body(self.plan.body, lambda size: substitute(size, sizes))
        try:
            built = _build(replace(self.plan, body=body))
        except ProgramError as error:
            raise _unsupported(error) from None
        self.exact = True
        return built


def _build(plan: Plan) -> tuple[Any, list[str]]:
    data = {name: info.type for name, info in plan.data.items() if name not in plan.feeds}
    spare = {name: type_ for name, type_ in data.items() if isinstance(type_, TensorType)}
    return build_model(plan, spare, plan.fetches)


def _unsupported(error: ProgramError) -> ProgramError:
    """Return the error for a program that cannot be exported."""
    return ProgramError(
        f"the backend {NAME} cannot run the program: {error.what}",
        given=error.given,
        fix=WITHOUT,
    )


def _refuse_options(run: Run) -> None:
    """Refuse options of a run that ONNX Runtime has no form of.

    Raises:
        ProgramError: If the run has listeners, kept scopes or a time limit.
    """
    if run.listeners or run.kept is not None:
        raise observers_error()
    if run.watch.deadline is not None:
        raise ProgramError(f"timeout_s is unsupported by the backend {NAME}.", fix=WITHOUT)
