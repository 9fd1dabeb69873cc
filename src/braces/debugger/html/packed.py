"""Recorded runs as bytes: the answers of the server, and the content of a saved page.

Numbers are little-endian. The tables are:

    runs       int32[n, 4]: block, run of the enclosing block, index of the owner, iteration
    events     int32[n, 2]: run of the block, index of the operator or -1
    series     f64[n, 4]: min, max, mean, std; int32[n, 5]: run, time, NaNs, infinities, size
    histograms uint32[n, bins], after the series of a saved run
"""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from braces.debugger.recorded.measures import BINS, Array
from braces.debugger.recorded.recording import Recording, Series
from braces.debugger.recorded.sites import Site, VariableKey
from braces.debugger.stepped.controller import Status

_LARGEST = 2**31 - 1


def pack_runs(recording: Recording, start: int = 0) -> bytes:
    """Return the table of runs from a number on."""
    with recording.lock:
        rows = recording.runs[max(start, 0) :]
    return np.fromiter(chain.from_iterable(rows), "<i4").tobytes()


def pack_events(recording: Recording, start: int = 0) -> bytes:
    """Return the table of events from a time on."""
    start = max(start, 0)
    with recording.lock:
        pairs = np.array([recording.event_runs[start:], recording.event_ops[start:]], "<i4")
    return np.ascontiguousarray(pairs.T).tobytes()


def pack_series(recording: Recording, variable: VariableKey, with_histograms: bool) -> bytes:
    """Return the measures of a variable, with the histogram of each value if requested."""
    with recording.lock:
        series = recording.series(variable)
        parts = [_moments(series), _numbers(series)]
        if with_histograms:
            parts.append(_histograms(recording, variable, series))
    return b"".join(parts)


def _moments(series: Series) -> bytes:
    return np.array(series.moments, "<f8").tobytes()


def _numbers(series: Series) -> bytes:
    table = np.empty((len(series), 5), "<i4")
    table[:, 0], table[:, 1] = series.runs, series.times
    counts = np.array(series.counts, np.int64).reshape(-1, 3)
    table[:, 2:] = np.minimum(counts, _LARGEST)
    return table.tobytes()


def _histograms(recording: Recording, variable: VariableKey, series: Series) -> bytes:
    table = np.zeros((len(series), BINS), "<u4")
    for at, run in enumerate(series.runs):
        counts: Array | None = recording.histogram(variable, run)
        if counts is not None:
            table[at] = counts
    return table.tobytes()


def describe_state(recording: Recording, status: Status) -> dict[str, Any]:
    """Return the state of a run as plain values."""
    with recording.lock:
        seen = recording.first_nan
        nan = None if seen is None else [*seen.variable, seen.run, seen.time]
        return {
            "state": status.state,
            "reason": status.reason,
            "at": _place(status.site, status.run),
            "failed": _place(recording.failed, recording.failed_run),
            "error": recording.error,
            "firstNaN": nan,
            "runs": len(recording.runs),
            "events": len(recording.event_runs),
            "full": recording.is_full,
        }


def _place(site: Site | None, run: int) -> list[int] | None:
    return None if site is None else [*site, run]
