"""What an executor asks of a way to run: to make a plan ready, and then to run it."""

from __future__ import annotations

from typing import Any, Protocol

from braces.runtime.compile.executable_cache import Notice, Recent
from braces.runtime.devices.device import Devices
from braces.runtime.inputs.persistables import Run
from braces.runtime.plan.plan import Plan


class Runnable(Protocol):
    """A plan that is ready to run.

    Attributes:
        plan: What is run.
        notice: Says for what the program is compiled.
        used: When it was used last, by the clock of the executor.
    """

    plan: Plan
    notice: Notice
    used: int

    def run(self, run: Run) -> list[Any]:
        """Run, commit the next values of persistable variables, and return what is fetched."""
        ...

    def compile(self, run: Run) -> None:
        """Refuse what the run would refuse before it computes, and make its code."""
        ...


class Backend(Protocol):
    """Makes a plan ready for some devices."""

    @staticmethod
    def open(name: str | None) -> Devices:
        """The device that `"cpu:0"` and the like mean, or `None` for the default one.

        Raises:
            DeviceError: There is no such device.
        """
        ...

    @staticmethod
    def prepare_process() -> None:
        """Make the settings of the process that must be there before JAX computes anything."""
        ...

    def __call__(
        self, plan: Plan, devices: Devices, check_nan: bool, recent: Recent, notice: Notice
    ) -> Runnable:
        """A plan that is ready to run.

        Args:
            plan: What is to run.
            devices: Where.
            check_nan: Whether a NaN fails the run.
            recent: Keeps the number of executables bounded, over all plans of an executor.
            notice: Says for what the program is compiled.
        """
        ...
