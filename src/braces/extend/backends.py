"""Backends of an executor: the classes by which another runtime runs the plans of programs.

A backend is a factory of runnable plans (`Backend`, `Runnable`). `Run` has the feeds, the scope
and the options of one run. `ExecutableCache` counts and bounds compiled code, and
`CompileReporter` describes its causes.
"""

from braces.lower.checks.value_checks import ValueChecks as ValueChecks
from braces.lower.xla.concrete_attributes import Sizes as Sizes
from braces.lower.xla.narrow_dtypes import from_carriers as from_carriers
from braces.runtime.backend.interface import (
    Backend as Backend,
    Runnable as Runnable,
    observers_error as observers_error,
)
from braces.runtime.compile.executable_cache import (
    CompileReporter as CompileReporter,
    ExecutableCache as ExecutableCache,
)
from braces.runtime.devices.device import Devices as Devices, detect_forks as detect_forks
from braces.runtime.inputs.persistables import Run as Run
from braces.runtime.monitoring.stats import Compilation as Compilation
