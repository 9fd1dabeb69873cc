"""`braces plan FILE --mesh data=64,model=8`: cost of a run on devices that are not present."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from braces.cli.common.command import YES, Command, declare, seconds
from braces.cli.common.pass_options import size
from braces.cli.common.program_selection import add_file, read_selected, shown_name, split_names
from braces.errors import BracesError, visible
from braces.ir.files.atomic_write import refuse_unwritable
from braces.layout import Layout, Mesh
from braces.planning.device_specs import DEVICES
from braces.planning.planner import TIMEOUT_S, plan

_USAGE = f"""\
--mesh AXES                the mesh, such as data=64,model=8
--dims NAME=AXES ...       the mesh axes along which sizes of this name are sharded, such as
                           batch=data or batch=data+model; separate several with commas
--params PATTERN=AXES ...  the same for each axis of the matching variables, such as
                           '*.up.w=,model'
--fsdp AXES                the mesh axes to shard all parameters along
--size NAME=N ...          the value of a symbolic size, such as batch=128
--fetch NAMES ...          fetches, such as y or y,z
--device ...               a device to estimate times for
--timeout SECONDS          the time limit (default: {TIMEOUT_S:g})
--rows N                   maximum rows of a table
--json                     print JSON
-o --html PAGE.html        write a page with the tables and the program
"""


def _arguments(parser: ArgumentParser) -> None:
    add_file(parser)
    mesh = {"required": True, "type": _mesh}
    sharding = {"dims": _dims, "params": _params, "fsdp": _axes}
    timeout = {"type": seconds, "default": TIMEOUT_S}
    table = {"device": list(DEVICES), "timeout": timeout, "rows": int, "html": _page}
    declare(parser, _USAGE, mesh=mesh, **sharding, size=size, **table)


def _run(options: Namespace) -> int:
    picked = read_selected(options)
    names = [picked.variable(name) for name in split_names(options.fetch or [])]
    names = names or ([] if picked.program.updates else [*picked.gives.values()])
    layout = Layout(
        options.mesh,
        dict(chain.from_iterable(options.dims or [])),
        dict(options.params or []),
        options.fsdp,
    )
    report = plan(
        picked.program,
        layout,
        dict(options.size or []),
        names,
        device=options.device or (),
        timeout_s=options.timeout,
    )
    if options.html:
        report.save(options.html)
    if options.json:
        print(json.dumps(report.data()))
    else:
        report.show(limit=options.rows)
    if options.html and not options.json:
        print(f"page: {visible(options.html)}, of {shown_name(options.file)}")
    return YES


# ---- option values ---------------------------------------------------------------------------


def _pairs(text: str, example: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not name or not equals:
            raise ArgumentTypeError(
                f"invalid value {part!r}; expected NAME=VALUE, such as {example}"
            )
        yield name, value


def _checked_option(make: Callable[[], Any]) -> Any:
    """Return the result of `make`; its errors are reported as bad usage."""
    try:
        return make()
    except BracesError as error:
        raise ArgumentTypeError(f"{error.what} {error.fix or ''}") from None


def _mesh(text: str) -> Mesh:
    axes = dict[str, int]()
    for name, number in _pairs(text, "data=64,model=8"):
        if not number.isdecimal() or len(number) > 9 or name in axes:
            raise ArgumentTypeError(
                f"invalid or duplicate axis {name}={number}; expected NAME=N, such as "
                "data=64,model=8"
            )
        axes[name] = int(number)
    return _checked_option(lambda: Mesh(axes))


def _dims(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, _axes(axes)) for name, axes in _pairs(text, "batch=data")]


def _axes(text: str) -> tuple[str, ...]:
    return tuple(text.split("+")) if text else ()


def _params(text: str) -> tuple[str, list[tuple[str, ...]]]:
    pattern, equals, axes_text = text.partition("=")
    if not pattern or not equals:
        raise ArgumentTypeError(
            f"invalid value {text!r}; expected PATTERN=AXES, such as '*.up.w=,model'"
        )
    return pattern, [_axes(axes) for axes in axes_text.split(",")]


def _page(text: str) -> str:
    """Return a path that the page can be written to; planning takes too long to fail later."""
    try:
        refuse_unwritable(text)
    except OSError as error:
        raise ArgumentTypeError(f"{text}: {error.strerror}") from None
    return text


COMMAND = Command(
    "plan",
    "estimate memory, collectives and times of a run on devices that are not present",
    "braces plan train.braces --mesh data=64,model=8 --dims batch=data --size batch=512",
    _arguments,
    _run,
)
