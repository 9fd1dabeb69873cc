"""Trace of JAX's profiler: the start and end of each instruction of compiled code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from braces.errors import RunError
from braces.lazy import jax

RUN_ANNOTATION = "braces: run"
"""The annotation of a run."""


@dataclass(slots=True)
class TraceEvent:
    """An executed instruction, or a span of Braces.

    Attributes:
        name: The instruction, or the span.
        module: The module that contains it; empty for a span of Braces.
        start_ns: Its start, by the clock of the profiler.
        end_ns: Its end, after which dependent instructions may start.
        thread: The thread in which it started.
        sure: Whether `end_ns` is exact; otherwise it is an upper bound.
    """

    name: str
    module: str
    start_ns: float
    end_ns: float
    thread: str
    sure: bool = True


@contextmanager
def record_trace(modules: Callable[[], Iterable[str]]) -> Generator[list[TraceEvent]]:
    """Record execution in a block; the list is filled at the end, unless an error occurred.

    Args:
        modules: Returns the names of the modules to record, at the end.

    Raises:
        RunError: If the profiler is in use; a process has only one.
    """
    events = list[TraceEvent]()
    with TemporaryDirectory(prefix="braces-profile-") as folder:
        _start(folder)
        try:
            yield events
        finally:
            jax.profiler.stop_trace()
        for file in sorted(Path(folder).rglob("*.xplane.pb")):
            # Where warnings are errors, this one of Python 3.14 would abort the process.
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                data = jax.profiler.ProfileData.from_file(str(file))
                events += _read_events(data, set(modules()))


def _start(folder: str) -> None:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.enable_hlo_proto = False
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
    except RuntimeError as error:
        raise RunError(
            "the profiler of JAX cannot be started: " + str(error).partition("\n")[0],
            fix="Stop the running trace, or profile with interpretation.",
        ) from None


def convert_clock(events: Iterable[TraceEvent], start_ns: int, end_ns: int) -> list[TraceEvent]:
    """Return the executed instructions, in the time of the run from `start_ns` to `end_ns`.

    The clock of the profiler has another origin and a slightly different rate. Without the span
    of the run there is no conversion, and the result is empty.
    """
    all_events = list(events)
    run_span = next((event for event in all_events if event.name == RUN_ANNOTATION), None)
    if run_span is None:
        return []
    scale = (end_ns - start_ns) / max(run_span.end_ns - run_span.start_ns, 1.0)

    begun_ns = run_span.start_ns

    def ours(time_ns: float) -> float:
        return start_ns + (time_ns - begun_ns) * scale

    return [
        replace(event, start_ns=ours(event.start_ns), end_ns=ours(event.end_ns))
        for event in all_events
        if event.module
    ]


def annotate_span(name: str) -> Any:
    """Return a context that records a span of Braces."""
    return jax.profiler.TraceAnnotation(name)


def _read_events(data: Any, modules: set[str]) -> list[TraceEvent]:
    """Return the relevant events.

    The end of an instruction is a separate event. If the instruction returned earlier, its
    dependents may run first, and the event is late or lost: the end is not exact.
    """
    begun, ends, ours = dict[int, TraceEvent](), dict[int, float](), list[TraceEvent]()
    for plane in data.planes:
        for line in plane.lines:
            thread = f"{plane.name} {line.name}"
            for event in line.events:
                if event.name == RUN_ANNOTATION:
                    ours.append(_make_event(event.name, "", event, thread))
                    continue
                facts = dict(event.stats)
                if facts.get("hlo_module") in modules and "hlo_op" in facts:
                    key = facts.get("_p", -1 - len(begun))
                    begun[key] = _make_event(
                        facts["hlo_op"], facts["hlo_module"], event, thread
                    )
                elif event.name.startswith("end: "):
                    ends[facts.get("_c", 0)] = event.start_ns
    for key, event in begun.items():
        if ends:
            end = ends.get(key, inf)
            event.sure, event.end_ns = end <= event.end_ns, end
    return [*ours, *begun.values()]


def _make_event(name: str, module: str, event: Any, thread: str) -> TraceEvent:
    return TraceEvent(name, module, event.start_ns, event.end_ns, thread)
