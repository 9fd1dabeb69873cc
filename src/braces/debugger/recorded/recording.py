"""Recorded runs: the measures of every value in order of time, and the latest values."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from threading import RLock
from typing import Any, NamedTuple, final

import numpy as np

from braces.builder.checked_calls import checked_path
from braces.debugger.recorded.measures import Array, Measure, as_array, histogram, measure_any
from braces.debugger.recorded.sites import Site, Sites, VariableKey
from braces.define.core.attribute_kinds import coerce_argument
from braces.errors import ProgramError, UnknownNameError
from braces.ir.views import PartitionView, view_of

MEMORY_BYTES = 256_000_000
"""The default bound of the memory of values."""
MOST_VALUES = 1_000_000
"""The largest number of measured values; later ones are not recorded."""
ENTRY = -1
"""In place of the index of an operator: the beginning of a run of a block."""


class BlockRun(NamedTuple):
    """One run of a block.

    Attributes:
        block: The number of the block.
        outer: The number of the run of the enclosing block; -1 for block 0.
        op: The index of the owner in the enclosing block; -1 for block 0.
        iteration: The number of earlier runs of the block in this run of its owner.
    """

    block: int
    outer: int
    op: int
    iteration: int


class Seen(NamedTuple):
    """A value at a moment: its variable, the run of its block, and its time."""

    variable: VariableKey
    run: int
    time: int


@final
class Series:
    """The measures of a variable in all runs of its block.

    Attributes:
        runs: The numbers of the runs, ascending.
        times: The time of each value.
        moments: Minimum, maximum, mean and standard deviation of each.
        counts: NaNs, infinities and size of each.
        histograms: The histograms of values that are no longer kept, by run.
    """

    def __init__(self) -> None:
        self.runs, self.times = array("i"), array("i")
        self.moments, self.counts = array("d"), array("q")
        self.histograms = dict[int, Array]()

    def add(self, run: int, time: int, of: Measure) -> None:
        """Append the measures of a value."""
        self.runs.append(run)
        self.times.append(time)
        self.moments.extend(of[:4])
        self.counts.extend(of[4:])

    def __len__(self) -> int:
        return len(self.runs)

    def index(self, run: int) -> int | None:
        """Return the position of a run; `None` if there is no value."""
        at = bisect_left(self.runs, run)
        return at if at < len(self.runs) and self.runs[at] == run else None

    def measure(self, at: int) -> Measure:
        """Return the measures at a position."""
        low, high, mean, std = self.moments[4 * at : 4 * at + 4]
        return Measure(low, high, mean, std, *self.counts[3 * at : 3 * at + 3])


@final
class Recording:
    """The measures of all values of a run, and the latest values up to a bound.

    A run that another thread records can be read meanwhile.

    Attributes:
        sites: The blocks and operators of the program, by number.
        runs: The runs of blocks in order of their beginning.
        event_runs: The run of the block of each event, by time.
        event_ops: The index of the operator of each event; `ENTRY` for an entry into a block.
        first_nan: The first value with a NaN.
        failed: The operator that raised the error of the run.
        failed_run: The run of its block.
        error: The error of the run; empty if there is none.
        is_full: Whether later values are missing, because there are too many.
        rows: The batch elements of a case of a row-wise branch, by run.
    """

    def __init__(self, sites: Sites, memory_bytes: int = MEMORY_BYTES) -> None:
        self.sites = sites
        self.lock = RLock()
        self.runs = list[BlockRun]()
        self.event_runs, self.event_ops = array("i"), array("i")
        self.first_nan: Seen | None = None
        self.failed: Site | None = None
        self.failed_run = -1
        self.error = ""
        self.is_full = False
        self.rows = dict[int, Array]()
        self._series = dict[VariableKey, Series]()
        self._kept = OrderedDict[tuple[VariableKey, int], Array]()
        self._room = check_memory(memory_bytes)
        self._count = 0

    # ---- recording ---------------------------------------------------------------------------

    def enter(self, run: BlockRun, arguments: Mapping[str, Any]) -> int:
        """Record a block that begins to run, with its arguments; return the run's number."""
        with self.lock:
            self.runs.append(run)
            number = len(self.runs) - 1
            self._note_rows(number)
            self.add(number, ENTRY, arguments)
            return number

    def add(self, run: int, op: int, values: Mapping[str, Any]) -> None:
        """Record the values that an operator binds."""
        with self.lock:
            if self._count + len(values) > MOST_VALUES:
                self.is_full = True
                return
            time = len(self.event_runs)
            self.event_runs.append(run)
            self.event_ops.append(op)
            block = self.runs[run].block
            for name, value in values.items():
                self._add_value(Seen(VariableKey(block, name), run, time), value)

    def fail(self, run: int, op: int | None) -> None:
        """Record the operator that raised an error; the first, innermost, call counts."""
        with self.lock:
            if self.failed is None and op is not None:
                self.failed, self.failed_run = Site(self.runs[run].block, op), run

    def _add_value(self, seen: Seen, value: Any) -> None:
        self._count += 1
        content = as_array(value)
        measured = measure_any(value, content)
        self._series.setdefault(seen.variable, Series()).add(seen.run, seen.time, measured)
        if measured.nans and self.first_nan is None:
            self.first_nan = seen
        if content is not None:
            self._keep(seen, content)

    def _keep(self, seen: Seen, content: Array) -> None:
        self._kept[seen.variable, seen.run] = content
        self._room -= content.nbytes
        while self._room < 0:
            (variable, run), oldest = self._kept.popitem(last=False)
            self._room += oldest.nbytes
            self._series[variable].histograms[run] = histogram(oldest)

    def _note_rows(self, number: int) -> None:
        """Store the batch elements of a run of a case of a row-wise branch."""
        run = self.runs[number]
        place = self.sites.places[run.block]
        view = view_of(place.owner) if place.owner is not None else None
        if not isinstance(view, PartitionView):
            return
        case = list(place.owner.bodies()).index(place.label) if place.owner else 0
        mask = self.visible_value(run.outer, view.cases[case].mask)
        if mask is not None:
            self.rows[number] = np.flatnonzero(mask).astype("<i4")

    # ---- reading -----------------------------------------------------------------------------

    @property
    def variables(self) -> list[VariableKey]:
        """The variables with recorded values, in the order of their first value."""
        with self.lock:
            return list(self._series)

    def series(self, variable: VariableKey) -> Series:
        """Return the measures of a variable; without any, if it has no value."""
        with self.lock:
            return self._series.get(variable) or Series()

    def kept_value(self, variable: VariableKey, run: int) -> Array | None:
        """Return a value that is still kept; `None` otherwise."""
        with self.lock:
            return self._kept.get((variable, run))

    def latest_kept(self) -> list[tuple[VariableKey, int, Array]]:
        """Return all values that are kept, the latest first."""
        with self.lock:
            return [(*key, value) for key, value in reversed(self._kept.items())]

    def visible_value(self, run: int, name: str) -> Array | None:
        """Return the kept value of a name that is visible in a run of a block."""
        bound = self.sites.binder(self.runs[run].block, name)
        while bound is not None and run >= 0 and self.runs[run].block != bound.block:
            run = self.runs[run].outer
        return None if bound is None or run < 0 else self.kept_value(bound, run)

    def histogram(self, variable: VariableKey, run: int) -> Array | None:
        """Return the histogram of a value; `None` if there is no such value, and for a list."""
        with self.lock:
            value = self.kept_value(variable, run)
            if value is not None:
                return histogram(value)
            return self.series(variable).histograms.get(run)

    def iterations(self, run: int) -> tuple[int, ...]:
        """Return the number of the run of each block around, block 0 excluded."""
        numbers = [self.runs[run].iteration for run in self._around(run)]
        return tuple(reversed(numbers))

    def _around(self, run: int) -> Iterator[int]:
        while run >= 0 and self.runs[run].outer >= 0:
            yield run
            run = self.runs[run].outer

    def path(self, run: int, name: str = "") -> str:
        """Return the path of a name in a run of its block, as `loop_0/body[2]/act`."""
        parts = [name] if name else []
        for inner in self._around(run):
            place = self.sites.places[self.runs[inner].block]
            assert place.owner is not None
            number = "" if place.label.endswith("]") else f"[{self.runs[inner].iteration}]"
            parts = [place.owner.name, f"{place.label}{number}", *parts]
        return "/".join(parts)

    def latest(self) -> tuple[Site, int] | None:
        """Return the operator of the latest event and the run of its block."""
        with self.lock:
            if not self.event_ops or self.event_ops[-1] == ENTRY:
                return None
            run = self.event_runs[-1]
            return Site(self.runs[run].block, self.event_ops[-1]), run

    # ---- for people --------------------------------------------------------------------------

    @property
    def first_nan_path(self) -> str | None:
        """The path of the first value with a NaN, as `loop_0/body[3]/y`; `None` without one."""
        seen = self.first_nan
        return None if seen is None else self.path(seen.run, seen.variable.name)

    def measures(self, path: str | os.PathLike[str]) -> list[tuple[str, Measure]]:
        """Return the measures of a variable in all runs of its block, each with its path.

        Raises:
            UnknownNameError: If the variable does not exist.
        """
        variable = self.sites.variable(str(path))
        with self.lock:
            series = self.series(variable)
            return [
                (self.path(run, variable.name), series.measure(at))
                for at, run in enumerate(series.runs)
            ]

    def value(self, path: str, index: int = -1) -> Array:
        """Return the value of a variable in one of the runs of its block, in order of time.

        Raises:
            UnknownNameError: If the variable does not exist, or has no such value.
        """
        variable = self.sites.variable(checked_path(path))
        index = coerce_argument("value", "index", "int", index)
        runs = self.series(variable).runs
        is_known = -len(runs) <= index < len(runs)
        value = self.kept_value(variable, runs[index]) if is_known else None
        if value is None:
            raise UnknownNameError(
                f"no kept value {index} of `{path}`.",
                given=f"{len(runs)} values were recorded",
                fix="Pass a smaller index, or raise memory_bytes=.",
            )
        return value


def check_memory(memory_bytes: object) -> int:
    """Return a validated bound of memory.

    Raises:
        ProgramError: If `memory_bytes` is not a nonnegative integer.
    """
    if (
        isinstance(memory_bytes, int)
        and not isinstance(memory_bytes, bool)
        and memory_bytes >= 0
    ):
        return memory_bytes
    raise ProgramError(
        f"invalid memory_bytes={memory_bytes!r:.40}; expected a nonnegative integer.",
        fix="Pass a number of bytes, such as 256_000_000.",
    )
