"""What is asked of the process that compiles, and what it answers: as JSON, both ways."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from braces import errors
from braces.errors import BracesError, RunError
from braces.layout import Layout, Mesh
from braces.planning.collectives import Collective
from braces.planning.device_values import Held
from braces.planning.report import PlanReport

ERROR = "error"
_TOLD = "what", "at", "given", "fix"


@dataclass(frozen=True)
class Question:
    """What is planned.

    Attributes:
        program: The bytes of the program.
        layout: How values lie.
        fetches: What is fetched.
        sizes: Numbers for the names of sizes.
    """

    program: bytes
    layout: Layout
    fetches: tuple[str, ...]
    sizes: Mapping[str, int]

    def to_json(self) -> str:
        """The question as text."""
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
    def from_json(text: str) -> Question:
        """The question that `to_json` made a text of."""
        told = json.loads(text)
        layout = Layout(Mesh(told["mesh"]), told["dims"], told["params"], told["fsdp"])
        program = base64.b64decode(told["program"])
        return Question(program, layout, tuple(told["fetches"]), told["sizes"])


def answer_text(answer: PlanReport | BracesError) -> str:
    """What was found, or why nothing was, as one line."""
    if isinstance(answer, BracesError):
        told = {name: getattr(answer, name) for name in _TOLD}
        return json.dumps({ERROR: {"class": type(answer).__name__, **told}})
    return json.dumps(answer.data())


def read_answer(text: str) -> PlanReport:
    """What `answer_text` made a text of.

    Raises:
        BracesError: Nothing was found.
    """
    told = json.loads(text)
    if ERROR in told:
        raise _error(told[ERROR])
    own = {one.name for one in fields(PlanReport)} - {"values", "collectives", "notes"}
    return PlanReport(
        **{name: value for name, value in told.items() if name in own},
        values=tuple(Held(**one) for one in told["values"]),
        collectives=tuple(map(_collective, told["collectives"])),
        notes=tuple(told["notes"]),
    )


def _collective(told: Mapping[str, Any]) -> Collective:
    named = {one.name for one in fields(Collective)}
    listed = {"operators", "types", "sources", "axes"}
    return Collective(
        **{name: tuple(told[name]) for name in listed},
        **{name: told[name] for name in named - listed},
    )


def _error(told: Mapping[str, Any]) -> BracesError:
    """The error of the other process, of the same class."""
    name = told["class"]
    made = getattr(errors, name) if name in errors.__all__ else RunError
    error: BracesError = made.__new__(made)
    BracesError.__init__(error, *(told[one] for one in _TOLD[:1]), **_details(told))
    return error


def _details(told: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told[name] for name in _TOLD[1:]}
