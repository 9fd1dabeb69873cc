"""What JAX's profiler tells of compiled code: when each instruction began and ended."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from braces.errors import RunError
from braces.lazy import jax

WHOLE = "braces: run"
"""What the profiler calls a run."""


@dataclass(slots=True)
class Event:
    """An instruction that ran, or one of our own spans.

    Attributes:
        name: The instruction, or the span.
        module: The code that it is part of; empty for our own.
        start_ns: When it began, by the clock of the profiler.
        end_ns: When it was done, by which other instructions may have begun.
        thread: Where it began.
        sure: Whether it is known when it was done; else it was so by `end_ns`.
    """

    name: str
    module: str
    start_ns: float
    end_ns: float
    thread: str
    sure: bool = True


@contextmanager
def traced(modules: Callable[[], Iterable[str]]) -> Generator[list[Event]]:
    """Inside, what runs is noted; the list is filled at the end, where nothing failed.

    Args:
        modules: The names of the code that is noted, asked for at the end.

    Raises:
        RunError: Somebody else is using the profiler, of which a process has one.
    """
    found = list[Event]()
    with TemporaryDirectory(prefix="braces-profile-") as folder:
        _start(folder)
        try:
            yield found
        finally:
            jax.profiler.stop_trace()
        for file in sorted(Path(folder).rglob("*.xplane.pb")):
            found += _events(jax.profiler.ProfileData.from_file(str(file)), set(modules()))


def _start(folder: str) -> None:
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    options.enable_hlo_proto = False
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
    except RuntimeError as error:
        raise RunError(
            "JAX's profiler cannot be started: " + str(error).partition("\n")[0],
            fix="Stop the trace that is running, or profile interpreting.",
        ) from None


def by_our_clock(events: Iterable[Event], start_ns: int, end_ns: int) -> list[Event]:
    """The instructions that ran, by the clock by which the run lasted from start to end.

    The profiler's clock begins elsewhere, and two clocks do not run quite alike. Without the
    run itself nothing is known of them.
    """
    several = list(events)
    whole = next((event for event in several if event.name == WHOLE), None)
    if whole is None:
        return []
    scale = (end_ns - start_ns) / max(whole.end_ns - whole.start_ns, 1.0)

    begun_ns = whole.start_ns

    def ours(time_ns: float) -> float:
        return start_ns + (time_ns - begun_ns) * scale

    return [
        replace(event, start_ns=ours(event.start_ns), end_ns=ours(event.end_ns))
        for event in several
        if event.module
    ]


def annotated(name: str) -> Any:
    """What is inside is a span of our own."""
    return jax.profiler.TraceAnnotation(name)


def _events(data: Any, modules: set[str]) -> list[Event]:
    """Our events.

    When an instruction is done, an event of its own says so. Where it returned before that,
    what waited for it may run first, and the event comes late or gets lost: it is not sure.
    """
    begun, ends, ours = dict[int, Event](), dict[int, float](), list[Event]()
    for plane in data.planes:
        for line in plane.lines:
            thread = f"{plane.name} {line.name}"
            for event in line.events:
                if event.name == WHOLE:
                    ours.append(_event(event.name, "", event, thread))
                    continue
                told = dict(event.stats)
                if told.get("hlo_module") in modules and "hlo_op" in told:
                    key = told.get("_p", -1 - len(begun))
                    begun[key] = _event(told["hlo_op"], told["hlo_module"], event, thread)
                elif event.name.startswith("end: "):
                    ends[told.get("_c", 0)] = event.start_ns
    for key, event in begun.items():
        if ends:
            end = ends.get(key, inf)
            event.sure, event.end_ns = end <= event.end_ns, end
    return [*ours, *begun.values()]


def _event(name: str, module: str, event: Any, thread: str) -> Event:
    return Event(name, module, event.start_ns, event.end_ns, thread)
