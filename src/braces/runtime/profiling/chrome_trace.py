"""Chrome trace events in JSON, for Perfetto.

Complete events (`X`) of one track are disjoint or nested. Metadata events (`M`) name process
and tracks, and counter events (`C`) have the number of live bytes. Times are in microseconds
since the first event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from braces.errors import visible
from braces.lower.interpret.operator_timing import Span

ChromeEvent: TypeAlias = dict[str, Any]

_PROCESS, _MICROSECOND = 1, 1000.0


def build_trace(
    mode: str, device: str, spans: Sequence[Span], levels: Sequence[tuple[int, int]]
) -> dict[str, Any]:
    """Return the trace of some spans, and of the live bytes over time."""
    first = min((span.start_ns for span in spans), default=0)
    tracks = {track: n for n, track in enumerate(dict.fromkeys(s.track for s in spans), 1)}
    begun = sorted(spans, key=lambda span: (span.start_ns, -span.end_ns))
    events = [
        *_names(f"braces, {mode}, {device}", tracks),
        *(_complete(span, tracks[span.track], first) for span in begun),
        *(_counter(when - first, size) for when, size in levels),
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _names(process: str, tracks: dict[str, int]) -> Iterator[ChromeEvent]:
    yield _metadata("process_name", 0, {"name": process})
    for track, number in tracks.items():
        yield _metadata("thread_name", number, {"name": visible(track)})
        yield _metadata("thread_sort_index", number, {"sort_index": number})


def _metadata(name: str, thread: int, args: dict[str, Any]) -> ChromeEvent:
    return {"name": name, "ph": "M", "pid": _PROCESS, "tid": thread, "args": args}


def _complete(span: Span, thread: int, first: int) -> ChromeEvent:
    return {
        "name": visible(span.name),
        "cat": "braces",
        "ph": "X",
        "ts": (span.start_ns - first) / _MICROSECOND,
        "dur": (span.end_ns - span.start_ns) / _MICROSECOND,
        "pid": _PROCESS,
        "tid": thread,
        "args": {name: visible(told) for name, told in span.told.items()},
    }


def _counter(since_ns: int, size_bytes: int) -> ChromeEvent:
    return {
        "name": "live bytes",
        "ph": "C",
        "ts": since_ns / _MICROSECOND,
        "pid": _PROCESS,
        "args": {"bytes": size_bytes},
    }
