"""Requests to the compiling subprocess and its answers, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from braces.errors import BracesError, RunError, as_error, as_record
from braces.layout import Layout, Mesh
from braces.planning.collectives import Collective
from braces.planning.device_values import DeviceValue
from braces.planning.report import PlanReport


@dataclass(frozen=True)
class PlanRequest:
    """A request for a plan.

    Attributes:
        program: The serialized program.
        layout: The layout of values.
        fetches: The fetched names.
        sizes: Numbers for named dimensions.
    """

    program: bytes
    layout: Layout
    fetches: tuple[str, ...]
    sizes: Mapping[str, int]

    def to_json(self) -> str:
        """Return the request as JSON text."""
        layout = self.layout
        return json.dumps(
            {
                "program": base64.b64encode(self.program).decode(),
                "mesh": dict(layout.mesh.axes),
                "dims": dict(layout.dims),
                "params": dict(layout.params),
                "fsdp": layout.fsdp,
                "fetches": self.fetches,
                "sizes": dict(self.sizes),
            }
        )

    @staticmethod
    def from_json(text: str) -> PlanRequest:
        """Parse the text that `to_json` returned."""
        data = json.loads(text)
        layout = Layout(Mesh(data["mesh"]), data["dims"], data["params"], data["fsdp"])
        program = base64.b64decode(data["program"])
        return PlanRequest(program, layout, tuple(data["fetches"]), data["sizes"])


def answer_text(answer: PlanReport | BracesError) -> str:
    """Return a report or an error as one line of JSON."""
    if isinstance(answer, BracesError):
        return json.dumps(as_record(answer))
    return json.dumps(answer.data())


def read_answer(text: str) -> PlanReport:
    """Parse the text that `answer_text` returned.

    Raises:
        BracesError: If planning failed.
    """
    data = json.loads(text)
    if "error" in data:
        raise as_error(data, RunError)
    plain_fields = {item.name for item in fields(PlanReport)} - {
        "values",
        "collectives",
        "notes",
    }
    return PlanReport(
        **{name: value for name, value in data.items() if name in plain_fields},
        values=tuple(DeviceValue(**item) for item in data["values"]),
        collectives=tuple(map(_read_collective, data["collectives"])),
        notes=tuple(data["notes"]),
    )


def _read_collective(data: Mapping[str, Any]) -> Collective:
    named = {field.name for field in fields(Collective)}
    listed = {"operators", "types", "sources", "axes"}
    return Collective(
        **{name: tuple(data[name]) for name in listed},
        **{name: data[name] for name in named - listed},
    )
