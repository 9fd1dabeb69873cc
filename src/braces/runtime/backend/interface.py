"""Backend interface: prepares plans and runs them."""

from __future__ import annotations

from typing import Any, Protocol

from braces.errors import ProgramError
from braces.lower.checks.value_checks import ValueChecks
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.devices.device import Devices
from braces.runtime.inputs.persistables import Run
from braces.runtime.plan.plan import Plan


class Runnable(Protocol):
    """A plan that is ready to run.

    Attributes:
        plan: The plan.
        notice: Reports compilations.
        used: The time of the last use, by the clock of the executor.
    """

    plan: Plan
    notice: CompileReporter
    used: int

    def run(self, run: Run) -> list[Any]:
        """Run, commit the next values of persistable variables, and return the fetches."""
        ...

    def compile(self, run: Run) -> None:
        """Raise the errors that a run raises before it computes, and compile its code."""
        ...


class Backend(Protocol):
    """Factory of runnable plans for some devices."""

    def open(self, name: str | None) -> Devices:
        """Return the device with a name such as `"cpu:0"`, or `None` for the default one.

        Raises:
            DeviceError: If the device does not exist.
        """
        ...

    def prepare_process(self) -> None:
        """Make the settings of the process that must precede any computation of JAX."""
        ...

    def __call__(
        self,
        plan: Plan,
        devices: Devices,
        checks: ValueChecks,
        recent: ExecutableCache,
        notice: CompileReporter,
    ) -> Runnable:
        """Return a runnable plan.

        Args:
            plan: The plan.
            devices: The devices.
            checks: The values that fail the run: NaNs, infinities.
            recent: The LRU cache of executables, shared by all plans of an executor.
            notice: Reports compilations.
        """
        ...


def observers_error() -> ProgramError:
    """The error for options of a run that compiled code does not support."""
    return ProgramError(
        "listeners and keep_scopes=True require interpretation.",
        fix='Use br.Executor(mode="interpret").',
    )
