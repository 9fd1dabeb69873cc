"""`br.plan`: cost of a program on devices that are not present."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from threading import TIMEOUT_MAX
from typing import Any

from braces.builder.program_argument import ProgramHolder
from braces.define.axes.axis_map import shape_of
from braces.errors import DeviceError, LayoutError, ProgramError, RunError, ShapeError
from braces.ir.records import ProgramDef, VarInfo
from braces.ir.walk import dimensions
from braces.keywords import hint_keywords
from braces.layout import Layout
from braces.lower.sharding.sharding import stored_variables
from braces.lower.xla.concrete_attributes import size_number
from braces.passes.analysis.flops import check_sizes
from braces.passes.cleanup.dead_code import DCE
from braces.planning.device_specs import DEVICES, find_device_specs
from braces.planning.report import PlanReport
from braces.planning.request import PlanRequest, read_answer
from braces.program import Program
from braces.runtime.devices.device_placement import check_layout
from braces.runtime.inputs.fetches import read_fetch
from braces.runtime.plan.plan import Plan
from braces.scope import Scope

MAX_DEVICES, TIMEOUT_S, LAST_LINES = 4096, 900.0, 5
_VIRTUAL = re.compile(r"--xla_force_host_platform_device_count=\d+")


@hint_keywords
def plan(
    program: Program | ProgramHolder,
    layout: Layout,
    sizes: Mapping[str, int] | None = None,
    fetch: Any = (),
    *,
    device: str | Sequence[str] = (),
    timeout_s: float = TIMEOUT_S,
) -> PlanReport:
    """Report the cost of a run of a program on each device of a mesh that need not exist.

    The run is compiled as `Executor(layout=...)` compiles it, from the types of values alone:
    no value is allocated, however large the model. A subprocess compiles it, with as many
    virtual CPUs as the mesh has devices. Bytes held by each device are exact, and so are
    collectives on CPUs. Temporary memory, operations and times are estimates
    (`braces.planning.time_estimate` lists the omissions).

    Args:
        program: The program that would run; or a model of `br.load_model`.
        layout: The layout of values; each axis of its mesh has a known size.
        sizes: Numbers for named dimensions of data, as `{"batch": 128}`: global sizes, over all
            devices.
        fetch: As for `Executor.run`; all updates are planned anyway.
        device: The kinds of devices to estimate times for; by default all of the table
            (`braces.planning.device_specs`).
        timeout_s: Time limit of planning, in seconds.

    Returns:
        A report that prints as tables, has them as fields, and can be saved as a page.

    Raises:
        LayoutError: If the layout does not match the program, or its mesh contains -1 or too
            many devices.
        ShapeError: If a size is missing, is not a number, or is not divisible among the
            devices.
        UnknownNameError: If a size or fetch does not exist.
        DeviceError: If the table has no device of this name.
        RunError: If the planning exceeds `timeout_s`, or its process ended.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x = br.data("x", ["batch", 64])
        ...     loss = br.mean(br.fc(x, 64, name="up"))
        ...     _ = br.optimizer.sgd(0.1).minimize(loss)
        >>> layout = br.Layout(br.Mesh({"data": 4}), {"batch": "data"})
        >>> found = br.plan(prog, layout, {"batch": 32})
        >>> found.counts
        {'all-reduce': 1}
        >>> next(one.device_bytes for one in found.values if one.name == "x")
        2048
    """
    kinds = tuple(map(_device_name, [device] if isinstance(device, str) else device)) or (
        *DEVICES,
    )
    planned: Any = program
    if isinstance(program, ProgramHolder):
        planned, fetch = program.program(), fetch or list(program.fetched().values())
    names, numbers = check(planned, layout, sizes, fetch)
    question = PlanRequest(planned.to_bytes(), layout, names, numbers)
    report = read_answer(_run_worker(question, checked_timeout(timeout_s)))
    return replace(report, kinds=kinds, _program=planned)


def _device_name(name: str) -> str:
    return find_device_specs(name).name


def checked_timeout(timeout_s: Any) -> float:
    """Return a timeout in seconds as a float.

    Raises:
        ProgramError: If `timeout_s` is not a positive number of seconds.
    """
    if type(timeout_s) not in (int, float) or not 0 < timeout_s <= TIMEOUT_MAX:
        raise ProgramError(
            f"invalid timeout_s={timeout_s!r:.40}; expected a positive number of seconds.",
            fix="Use seconds, such as timeout_s=60.",
        )
    return float(timeout_s)


# ---- checks before compilation ---------------------------------------------------------------


def check(
    program: Any, layout: Any, sizes: Any, fetch: Any
) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Return the fetched names and the sizes; raises the errors listed in `plan`."""
    if not isinstance(program, Program) or not isinstance(layout, Layout):
        raise ProgramError(
            "br.plan: expected a program, then a layout.",
            given=f"{type(program).__name__}, {type(layout).__name__}",
            fix='Write br.plan(prog, br.Layout(br.Mesh({"data": 8}), {"batch": "data"})).',
        )
    _check_mesh(layout)
    definition, (names, _) = program.definition, read_fetch(fetch, program)
    check_layout(layout, definition.main, Scope())
    layout.of_stored(stored_variables(definition.main))
    numbers = check_sizes(definition, sizes)
    _check_values(definition, layout, names, numbers)
    return names, numbers


def _check_mesh(layout: Layout) -> None:
    count = prod(layout.mesh.axes.values())
    if -1 in layout.mesh.axes.values() or count > MAX_DEVICES:
        raise LayoutError(
            f"unsupported mesh for a plan: {layout.mesh!r}.",
            given=f"an axis of size -1, or more than {MAX_DEVICES:,} devices",
            fix="Give each axis a size. To plan fewer devices, divide the batch and a mesh "
            "axis that shards only the batch by the same number: the cost per device is equal.",
        )


def _check_values(
    definition: ProgramDef, layout: Layout, names: Sequence[str], sizes: Mapping[str, int]
) -> None:
    pruned = Plan.of(definition, names, (DCE,))
    if not pruned.fetches and not pruned.updates:
        raise ProgramError(
            "the run has no fetches and no updates.", fix="Pass the variables to fetch."
        )
    for info in (*pruned.feeds.values(), *pruned.states.values()):
        _check_value(info, layout, sizes)


def _check_value(info: VarInfo, layout: Layout, sizes: Mapping[str, int]) -> None:
    shape = shape_of(info.type)
    missing = sorted(dimensions(shape) - sizes.keys())
    if missing:
        raise ShapeError(
            f"missing value of the size `{missing[0]}` of `{info.name}`.",
            given=f"{info.name}: {info.type}",
            fix=f"Pass sizes={{{missing[0]!r}: 32}}, or --size {missing[0]}=32.",
        )
    if info.persistable:
        return
    for size, axes in zip(shape, layout.of_value(shape, info.axes), strict=True):
        number = size_number(size, sizes)
        if not layout.divides(number, axes):
            raise ShapeError(
                f"`{info.name}` cannot be sharded evenly: {size}={number} on "
                f"{layout.mesh.size(axes)} devices.",
                given=f"{info.name}: {info.type}, {layout.mesh!r}",
                fix=f"Use a multiple of {layout.mesh.size(axes)}; the size is the global one.",
            )


# ---- the compiling subprocess ----------------------------------------------------------------


def _run_worker(question: PlanRequest, timeout_s: float) -> str:
    """Return the answer of a worker process.

    Raises:
        RunError: If the worker exceeds `timeout_s`, or ended without an answer.
        DeviceError: If the worker cannot be started.
    """
    devices = prod(question.layout.mesh.axes.values())
    try:
        process = subprocess.run(
            [sys.executable, "-m", "braces.planning.worker"],
            input=question.to_json(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=_environment(devices),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(
            f"planning for {devices} devices took longer than {timeout_s:g} s.",
            fix="Increase timeout_s (--timeout), or plan fewer devices.",
        ) from None
    except OSError as error:
        raise DeviceError(f"cannot start the planning process: {error.strerror}.") from None
    if process.returncode or not process.stdout.strip():
        raise _exit_error(process.returncode, process.stderr, devices)
    return process.stdout.splitlines()[-1]


def _environment(devices: int) -> dict[str, str]:
    """Return this process's environment, with the given number of virtual CPUs only."""
    paths = [path for path in sys.path if path]
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        "XLA_FLAGS": _VIRTUAL.sub("", os.environ.get("XLA_FLAGS", "")),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _exit_error(status: int, stderr: str, devices: int) -> RunError:
    how = f"with status {status}"
    if status < 0:
        how = f"by {signal.Signals(-status).name}"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    killed = status == -signal.SIGKILL
    return RunError(
        f"the planning process for {devices} devices ended {how}.",
        given=" | ".join(lines[-LAST_LINES:]) or None,
        fix="Plan fewer devices; the process probably ran out of memory." if killed else None,
    )
