"""`braces plan FILE --mesh data=64,model=8`: cost of a run on devices that are not present."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from braces.cli.common.command import YES, Command, seconds
from braces.cli.common.pass_options import size
from braces.cli.common.program_selection import add_file, read_selected, shown_name, split_names
from braces.errors import BracesError, visible
from braces.ir.files.atomic_write import refuse_unwritable
from braces.layout import Layout, Mesh
from braces.planning.device_specs import DEVICES
from braces.planning.planner import TIMEOUT_S, plan


def _arguments(parser: ArgumentParser) -> None:
    add_file(parser)
    parser.add_argument(
        "--mesh", required=True, type=_mesh, metavar="AXES", help="as data=64,model=8"
    )
    parser.add_argument(
        "--dims",
        action="append",
        type=_dims,
        metavar="NAME=AXES",
        help="along which axes of the mesh sizes of this name are cut, as batch=data, or "
        "batch=data+model; several with commas between",
    )
    parser.add_argument(
        "--params",
        action="append",
        type=_params,
        metavar="PATTERN=AXES",
        help="the same for each axis of variables of this name, as '*.up.w=,model'",
    )
    parser.add_argument(
        "--fsdp", type=_axes, metavar="AXES", help="along which all parameters are cut"
    )
    parser.add_argument(
        "--size", action="append", type=size, metavar="NAME=N", help="of data, as batch=128"
    )
    parser.add_argument("--fetch", action="append", metavar="NAMES", help="as y or y,z")
    parser.add_argument(
        "--device",
        action="append",
        choices=list(DEVICES),
        help="of which kinds times are estimated",
    )
    parser.add_argument(
        "--timeout", type=seconds, default=TIMEOUT_S, metavar="SECONDS",
        help=f"how long it may take ({TIMEOUT_S:g})",
    )  # fmt: skip
    parser.add_argument("--rows", type=int, metavar="N", help="of values and of collectives")
    parser.add_argument("--json", action="store_true", help="for programs to read")
    parser.add_argument(
        "-o", "--html", type=_page, metavar="PAGE.html", help="a page with tables and program"
    )


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
            raise ArgumentTypeError(f"{part!r} says nothing; write {example}")
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
            raise ArgumentTypeError(f"{name}={number} is no axis; write data=64,model=8")
        axes[name] = int(number)
    return _checked_option(lambda: Mesh(axes))


def _dims(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, _axes(axes)) for name, axes in _pairs(text, "batch=data")]


def _axes(text: str) -> tuple[str, ...]:
    return tuple(text.split("+")) if text else ()


def _params(text: str) -> tuple[str, list[tuple[str, ...]]]:
    pattern, equals, axes_text = text.partition("=")
    if not pattern or not equals:
        raise ArgumentTypeError(f"{text!r} says nothing; write '*.up.w=,model'")
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
    "what a run takes on devices that are not there: memory, collectives, times",
    "braces plan train.braces --mesh data=64,model=8 --dims batch=data --size batch=512",
    _arguments,
    _run,
)
