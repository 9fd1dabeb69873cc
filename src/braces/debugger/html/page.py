"""The page of the debugger: the page of a program, with scripts and styles of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from linecache import cache as known_sources, getline
from typing import Any

from braces.builder.builder import Builder
from braces.debugger.recorded.measures import BINS
from braces.debugger.recorded.sites import Sites
from braces.debugger.recorded.slices import Flow
from braces.ir.records import Op, Source
from braces.viewer.html import page
from braces.viewer.payload import payload
from braces.web.assets import read_asset

_asset = partial(read_asset, "braces.debugger.html")
STYLES = ("debugger.css",)
SCRIPTS = ("recording.js", "sources.js", "values.js", "debugger.js")
"""The scripts in the order of their concatenation, after those of the page of a program."""
_LONGEST_LINE = 240


def debugger_page(
    program: Builder, sites: Sites, flow: Flow, extra: Mapping[str, Any], connects: bool
) -> str:
    """Return the page of a run.

    Args:
        program: The program.
        sites: Its blocks and operators.
        flow: Its data flow.
        extra: The fields of the content that describe the run.
        connects: Whether the page may connect to its server.
    """
    content = payload(program, "Debugger")
    count = len(sites.places)
    content["programs"], content["blocks"] = content["programs"][:1], content["blocks"][:count]
    content["debugger"] = {
        "bins": BINS,
        "edges": [[*edge.source, *edge.target, edge.kind] for edge in flow.edges],
        "lines": source_lines(sites),
        "loops": sorted(sites.loops),
        **extra,
    }
    return page(
        content,
        more_styles=tuple(map(_asset, STYLES)),
        more_scripts=tuple(map(_asset, SCRIPTS)),
        connects=connects,
    )


def source_lines(sites: Sites) -> dict[str, str]:
    """Return the text of the user's line of each operator by block and index, as `0.3`."""
    lines = dict[str, str]()
    for number, place in enumerate(sites.places):
        for index, op in enumerate(place.body.ops):
            text = source_text(op)
            if text:
                lines[f"{number}.{index}"] = text
    return lines


def source_text(op: Op) -> str:
    """Return the user's line that created an operator; empty if its file is not at hand.

    Only Python files and cells of notebooks are read: a program may come from a stranger.
    """
    return "" if op.source is None else _line(op.source)


@cache
def _line(source: Source) -> str:
    file = source.file
    if not file.endswith(".py") and file not in known_sources:
        return ""
    return getline(file, source.line).strip()[:_LONGEST_LINE]
