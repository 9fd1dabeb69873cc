"""Rules of the verifier, by their stable codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from braces.errors import VerifyError

CODES: Final[dict[str, str]] = {
    # ---- operators ----
    "B101": "Each operator has a known type.",
    "B102": "An operator has only the slots of its definition.",
    "B103": "Each required slot is present.",
    "B104": "A slot for one variable has exactly one.",
    "B105": "Attributes have the names and kinds of the definition.",
    "B106": "A sub-block has as many parameters as its owner binds.",
    "B107": "A sub-block has as many results as its owner reads.",
    "B108": "Sub-blocks satisfy the further conditions of their owner.",
    "B109": "No two operators of a block share a name.",
    # ---- names ----
    "B201": "A name that an operator binds is declared in its block.",
    "B202": "A name that is read is declared in this block or an outer one.",
    "B203": "A name is bound before it is read.",
    "B204": "A name is bound once in a block.",
    "B205": "Operators bind only values.",
    "B206": "A declared value is bound.",
    "B207": "The arguments of a block are its parameters, each declared once.",
    "B208": "`captures` lists the outer names that the sub-blocks read.",
    # ---- declarations ----
    "B301": "Data and persistable variables are declared in block 0.",
    "B302": "Data and persistable variables are arrays.",
    "B303": "Only a parameter of a float dtype is trainable.",
    "B304": "Block 0 has no parameters.",
    "B305": "An array of known sizes takes less than 2^63 bytes.",
    "B306": "Axis names correspond to the axes of an array; only axes with a number have one.",
    # ---- updates ----
    "B401": "The target of an update is a persistable variable of block 0.",
    "B402": "The next value is a variable of block 0.",
    "B403": "The next value has the type of the variable that it updates.",
    "B404": "Variables have the same type in the program and its startup program.",
    # ---- types ----
    "B501": "A variable has the type that its operator infers.",
    "B502": "An operator accepts its inputs and attributes.",
    "B503": "The parameter of a sub-block has the type of what its owner binds to it.",
}
"""Rules by code. A code never changes its meaning; a new rule gets a new code."""


class Report:
    """Collects errors, or raises the first one.

    Attributes:
        errors: In program order.
        modules: Defining modules of operators, according to the file of the program.
    """

    def __init__(self, all: bool, modules: Mapping[str, str] | None = None) -> None:
        self.all = all
        self.modules = modules or {}
        self.errors: list[VerifyError] = []

    def say(
        self, code: str, what: str, *, at: str, given: str | None = None, fix: str | None = None
    ) -> None:
        """Record that a rule is broken.

        Raises:
            VerifyError: If the errors are not collected.
        """
        assert code in CODES, code
        error = VerifyError(code, what, at=at, given=given, fix=fix)
        if not self.all:
            raise error
        self.errors.append(error)
