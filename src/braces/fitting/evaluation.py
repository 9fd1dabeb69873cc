"""Measurements of a training and of an evaluation: losses, metrics and logged values."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from braces.builder.builder import Builder
from braces.builder.user_functions import located
from braces.builder.var import Var
from braces.dtypes import TensorType, is_float
from braces.errors import FeedError, ProgramError, UnknownNameError, suggest
from braces.fitting.steps.batch_stream import Range, stream_batches
from braces.fitting.steps.data_sets import (
    DataNames,
    Feed,
    Mark,
    as_data_set,
    length_of,
    named_batch,
    padding_of,
    weight_of,
)
from braces.fitting.steps.position import Position, Row
from braces.frontend.metrics.base import Better, Metric
from braces.ir.records import STATE
from braces.keywords import hint_keywords
from braces.loaders.core.data_set import Batches
from braces.passes.training.inference_mode import cached_inference_form
from braces.runtime.executor import Executor
from braces.runtime.inputs.fetches import read_fetch
from braces.scope import Scope
from braces.storage.parameters import check_scope

LOSS, RATE = "loss", "learning_rate"


@dataclass(frozen=True)
class Measures:
    """The measurements of each epoch.

    Attributes:
        metrics: Metrics by name, whose sums are states of the scope.
        means: Names of scalar variables; their mean over the rows of the epoch is measured.
        last: Names of variables; their value in the last step is measured.
        losses: The names of those means that are losses of `minimize`.
    """

    metrics: Mapping[str, Metric]
    means: Mapping[str, str]
    last: Mapping[str, str]
    losses: frozenset[str] = frozenset()

    @staticmethod
    def of(program: Builder, metrics: Any = None, log: Any = None) -> Measures:
        """Return the measurements of a program: its losses, metrics and logged values.

        Raises:
            ProgramError: If a metric or a logged value has another type.
            UnknownNameError: If a variable does not exist.
        """
        chosen, logged = _as_mapping(metrics, "metrics"), _as_mapping(log, "log")
        own = {n: m for n, m in chosen.items() if isinstance(m, Metric)}
        means = {n: _scalar_name(program, n, m) for n, m in chosen.items() if n not in own}
        losses = _losses(program)
        means = {n: v for n, v in losses.items() if n not in chosen} | means
        last = {name: _logged_name(program, var) for name, var in logged.items()}
        minimized = frozenset(n for n, v in means.items() if v in losses.values())
        return Measures(own, means, last, minimized)

    @property
    def fetch(self) -> dict[str, Any]:
        """The fetches of a step by name."""
        values = {name: metric.value for name, metric in self.metrics.items()}
        return {**self.means, **values, **self.last}

    def better(self, name: str) -> Better | None:
        """Return the direction in which a measurement improves; `None` if it is unknown."""
        if name in self.losses:
            return "min"
        return self.metrics[name].better if name in self.metrics else None

    def without_logged(self) -> Measures:
        """Return the measurements of an evaluation."""
        return replace(self, last={})

    def add(self, position: Position, results: list[Any], weight: float) -> None:
        """Add the values of a step to the sums of the epoch."""
        sums = position.sums
        for name, result in zip(self.means, results, strict=False):
            entry = sums.get(name)
            if entry is None:
                entry = sums[name] = [0.0, 0.0]
            entry[0] += float(result) * weight
            entry[1] += weight

    def row(self, position: Position, results: list[Any]) -> Row:
        """Return the measurements at the end of an epoch."""
        sums = position.sums
        means = {n: s[0] / s[1] if s[1] else float("nan") for n, s in sums.items()}
        others = dict(zip(self.fetch, results, strict=True))
        return {name: means.get(name, plain_number(value)) for name, value in others.items()}


def plain_number(value: Any) -> Any:
    """Return an array as a number, or as nested lists; float32 0.003 becomes 0.003."""
    if value.dtype == np.float32 and not value.ndim:
        return float(str(value))
    return np.asarray(value).astype(np.float64).tolist()


def _as_mapping(values: Any, name: str) -> dict[str, Any]:
    if values is None:
        return {}
    if isinstance(values, Mapping):
        return dict(values)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    raise ProgramError(
        f"expected a dict for `{name}`, got {type(values).__name__}.",
        fix=f'Pass {name}={{"name": ...}}.',
    )


def _scalar_name(program: Builder, name: str, value: Any) -> str:
    if not isinstance(value, Var | str):
        raise ProgramError(
            f"expected a metric or a scalar variable for `{name}`, got {value!r:.60}.",
            fix='Pass metrics={"accuracy": br.metrics.accuracy(logits, labels)}.',
        )
    variable = _variable(program, value)
    if variable.type.shape:  # pyright: ignore[reportAttributeAccessIssue]
        raise ProgramError(
            f"the metric `{name}` is an array, {variable.type}; expected a scalar.",
            fix="Pass br.mean(x), or br.metrics.mean(x).",
        )
    return variable.name


def _variable(program: Builder, value: Any) -> Any:
    (name,), _ = read_fetch(value, program)
    infos = program.definition.main.vars
    if name not in infos:
        raise UnknownNameError(f"unknown variable `{name}`.", fix=suggest(name, infos))
    return infos[name]


def _logged_name(program: Builder, value: Any) -> str:
    """Return the name of a logged variable; `"learning_rate"` is that of the optimizer.

    A scheduled rate is computed by the step, so its name is that of the next value.
    """
    infos = program.definition.main.vars
    if isinstance(value, str) and value == RATE and RATE not in infos:
        rates = [n for n, v in infos.items() if v.kind == STATE and n.endswith(f"/{RATE}")]
        if len(rates) == 1:
            return program.updates.get(rates[0], rates[0])
        raise UnknownNameError(
            f"the program has {len(rates)} learning rates; expected 1.",
            given=", ".join(rates) or None,
            fix='Pass the name of the variable: log={"rate": "adam/learning_rate"}.',
        )
    return _variable(program, value).name


def _losses(program: Builder) -> dict[str, str]:
    """Return the float scalars among the default fetches: the losses of `minimize`."""
    main = program.definition.main
    types = {name: main.vars[name].type for name in main.results}
    names = [
        name
        for name, type_ in types.items()
        if isinstance(type_, TensorType) and not type_.shape and is_float(type_.dtype)
    ]
    return {LOSS: names[0]} if len(names) == 1 else {name: name for name in names}


# ---- evaluation ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """An evaluation of a program, which changes nothing in the scope.

    Attributes:
        program: The program as it is trained.
        exe: The executor.
        measures: The measurements.
        limit: The most batches; `None` for all.
        checks: The checks of values, as arguments of `Executor.evaluate`.
        pad_to: Multiples of the sizes of named dimensions, up to which batches are padded.
    """

    program: Builder
    exe: Executor
    measures: Measures
    limit: int | None = None
    checks: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pad_to: Mapping[str, int] | None = None

    def measure(self, scope: Scope, data: Any, place: str = "evaluation") -> Row:
        """Return the measurements over all batches.

        Raises:
            FeedError: If there are no batches, or a batch does not fit the program.
        """
        fetch, position, results = list(self.measures.fetch.values()), Position(), None
        marks = deque[Mark]()
        with located(place), closing(self._feeds(data, marks)) as feeds:
            child = self._child(scope)
            for i, feed in enumerate(feeds, start=1):
                with located(f"batch {i}"):
                    results = self.exe.evaluate(self.program, child, feed, fetch, **self.checks)
                self.measures.add(position, results, weight_of(marks.popleft(), feed))
        assert results is not None
        return self.measures.row(position, results)

    def _child(self, scope: Scope) -> Scope:
        """Return a child scope with sums and random states of its own."""
        child = scope.new_scope()
        for name in cached_inference_form(self.program).updates:
            if name in scope:  # a metric added after `init` has no sums yet
                child.var(name).set(scope[name])
        for metric in self.measures.metrics.values():
            metric.reset(child)
        return child

    def _feeds(self, data: Any, marks: deque[Mark]) -> Generator[Feed]:
        names = DataNames.of(self.program, read_fetch(self.measures.fetch, self.program)[0])
        name_batch = partial(_evaluated_batch, names=names)
        remaining, padding = Range(0, 0, 1, self.limit), padding_of(self.program, self.pad_to)
        return stream_batches(as_data_set(data), remaining, name_batch, marks, padding)


def _evaluated_batch(batch: Any, names: DataNames) -> Feed:
    """Return a batch by name; a dict may lack data that the measurements do not need."""
    return dict(batch) if isinstance(batch, Mapping) else named_batch(batch, names)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def trial_data(data: Any) -> Any:
    """Return validation data whose first batch is read at once; `None` for other data."""
    if isinstance(data, Batches):
        return data.trial()
    known: Any = data
    return known if isinstance(data, list | tuple) or hasattr(known, "epoch") else None


def check_validation(data: Any) -> None:
    """Refuse validation data that is not a data set, or is empty.

    Raises:
        FeedError: If the data is not iterable, or has no batches.
    """
    with located("validation"):
        if length_of(as_data_set(data)) == 0:
            raise FeedError(
                "the data has no batches.", fix="Pass data with at least one batch."
            )


@hint_keywords
def evaluate(
    program: Builder,
    data: Any,
    scope: Scope,
    *,
    metrics: Mapping[str, Any] | None = None,
    exe: Executor | None = None,
    steps: int | None = None,
    pad_to: Mapping[str, int] | None = None,
    check_nan: bool = False,
    check_inf: bool = False,
) -> Row:
    """Evaluate a program on a data set, without training.

    Dropout and normalization are in inference mode, as in `exe.evaluate`. No value of the scope
    changes: sums of metrics and random states are those of a child scope.

    Args:
        program: The program, as it is trained.
        data: The data set, or an iterable of batches; see `br.training`.
        scope: The scope of the parameters.
        metrics: Metrics by name, as of `br.metrics`; or scalar variables, whose mean over the
            rows is returned. The loss of `minimize` is added as `loss`.
        exe: The executor; by default a new one.
        steps: The maximum number of batches.
        pad_to: Multiples of the sizes of named dimensions; see `br.training`.
        check_nan: Fail at the first operator that produces a NaN, as for `exe.run`.
        check_inf: Fail at the first operator that produces an infinity, as for `exe.run`.

    Returns:
        A number for each measurement; nested lists for an array.

    Raises:
        FeedError: If the data is not iterable or has no batches, or a batch does not fit.
        ProgramError: If there is nothing to measure, or a multiple of `pad_to` is invalid.
        UnknownNameError: If no data has a dimension named in `pad_to`.

    Example:
        >>> import numpy as np
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, y = br.data("x", ["n", 2]), br.data("y", ["n"], dtype="int32")
        ...     accuracy = br.metrics.accuracy(br.fc(x, 3, name="fc"), y)
        >>> scope = br.Executor().init(prog)
        >>> data = br.batches((np.ones((10, 2)), np.zeros(10, "int32")), 4)
        >>> sorted(br.evaluate(prog, data, scope, metrics={"accuracy": accuracy}))
        ['accuracy']
    """
    check_scope("br.evaluate(prog, data, scope)", scope)
    measures = Measures.of(program, metrics)
    if not measures.fetch:
        raise ProgramError(
            "the evaluation has no metrics, and the program has no loss.",
            fix='Pass metrics={"accuracy": br.metrics.accuracy(logits, labels)}.',
        )
    run_by = Executor() if exe is None else exe
    checks = {"check_nan": check_nan, "check_inf": check_inf}
    evaluation = Evaluation(program, run_by, measures, steps, checks, pad_to)
    return evaluation.measure(scope, data)
