"""Rules of the verifier, by their stable codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from braces.errors import VerifyError

CODES: Final[dict[str, str]] = {
    # ---- operators ----
    "B101": "The type of every operator is known.",
    "B102": "An operator has no slots but those of its definition.",
    "B103": "A slot that is not optional is there.",
    "B104": "A slot for one variable has just one.",
    "B105": "Attributes are those of the definition, each of its kind.",
    "B106": "A sub-block has as many parameters as its owner binds.",
    "B107": "A sub-block has as many results as its owner reads.",
    "B108": "What else the owner of sub-blocks asks of them holds.",
    "B109": "No two operators of a block share a name.",
    # ---- names ----
    "B201": "What an operator binds is declared in its block.",
    "B202": "What is read is declared in this block or around it.",
    "B203": "What is read was bound before.",
    "B204": "A name is bound once in a block.",
    "B205": "Operators bind values, and nothing else.",
    "B206": "A declared value is bound.",
    "B207": "The arguments of a block are its parameters, each named once.",
    "B208": "`captures` lists just what the sub-blocks read from outside.",
    # ---- declarations ----
    "B301": "Data and persistable variables are declared in block 0.",
    "B302": "Data and persistable variables are arrays.",
    "B303": "Nothing but a parameter of a float dtype is trainable.",
    "B304": "Block 0 has no parameters.",
    "B305": "An array of known sizes takes less than 2^63 bytes.",
    "B306": "Names of axes are one for each axis of an array, beside numbers alone.",
    # ---- updates ----
    "B401": "What is updated is a persistable variable of block 0.",
    "B402": "The next value is a variable of block 0.",
    "B403": "The next value has the type of the variable that it updates.",
    "B404": "The startup program sets variables of the types that the program declares.",
    # ---- types ----
    "B501": "A variable has the type that its operator gives it.",
    "B502": "An operator can take its inputs.",
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
            VerifyError: Unless all errors are collected.
        """
        assert code in CODES, code
        error = VerifyError(code, what, at=at, given=given, fix=fix)
        if not self.all:
            raise error
        self.errors.append(error)
