"""Commands of the page: JSON objects, checked field by field.

The commands are:

{"command": "step"}, over, out, continue, pause
{"command": "run_to", "block": 1, "op": 3}
{"command": "break", "text": "loop_0/body/act if max > 10"}, or with "block" and "op"
{"command": "unbreak", "number": 2}
{"command": "restart", "paused": true}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from braces.debugger.recorded.sites import Site
from braces.debugger.session import DebugSession
from braces.debugger.stepped.controller import CONTINUE, OUT, OVER, STEP


class CommandError(ValueError):
    """A request that is not a command."""


def run_command(session: DebugSession, body: bytes) -> None:
    """Run a command.

    Raises:
        CommandError: If the body is not a command.
        BracesError: If the command is refused, as a breakpoint with an invalid condition.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise CommandError("a command is JSON") from None
    if not isinstance(fields, dict):
        raise CommandError("a command is a JSON object")
    fields = cast("dict[str, Any]", fields)
    name = fields.get("command")
    action = _ACTIONS.get(name) if isinstance(name, str) else None
    if action is None:
        raise CommandError("unknown command")
    action(session, fields)


def _steps(command: str) -> Callable[[DebugSession, Mapping[str, Any]], None]:
    return lambda session, fields: session.controller.go(command)


def _run_to(session: DebugSession, fields: Mapping[str, Any]) -> None:
    session.controller.go("run_to", _site(session, fields))


def _pause(session: DebugSession, fields: Mapping[str, Any]) -> None:
    del fields
    session.controller.pause()


def _break(session: DebugSession, fields: Mapping[str, Any]) -> None:
    if "text" in fields:
        session.stop_at(_field(fields, "text", str))
        return
    path = session.sites.path_of(_site(session, fields))
    session.breakpoints.add(path)
    session.controller.touch()


def _unbreak(session: DebugSession, fields: Mapping[str, Any]) -> None:
    session.breakpoints.remove(_field(fields, "number", int))
    session.controller.touch()


def _restart(session: DebugSession, fields: Mapping[str, Any]) -> None:
    session.restart(paused=_field(fields, "paused", bool))


_ACTIONS: dict[str, Callable[[DebugSession, Mapping[str, Any]], None]] = {
    **{command: _steps(command) for command in (STEP, OVER, OUT, CONTINUE)},
    "run_to": _run_to,
    "pause": _pause,
    "break": _break,
    "unbreak": _unbreak,
    "restart": _restart,
}


def _site(session: DebugSession, fields: Mapping[str, Any]) -> Site:
    block, op = _field(fields, "block", int), _field(fields, "op", int)
    if not session.sites.has(Site(block, op)):
        raise CommandError("there is no such operator")
    return Site(block, op)


def _field(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if type(value) is not kind:
        raise CommandError(f"`{name}` is missing or has the wrong type")
    return value
