"""Traces of runs in other systems, for `br.compare_values`.

A tracer returns the `Trace` of a run: every array by key, and the operators that computed them
as `Event`s in order. It returns `None` for models of other systems.
"""

from braces.surgery.compare import ForeignTracer as ForeignTracer
from braces.surgery.comparison.value_trace import (
    NEXT as NEXT,
    Event as Event,
    Key as Key,
    Trace as Trace,
    trace_program as trace_program,
)
