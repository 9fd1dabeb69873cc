"""`python -m braces.planning.worker`: a question on standard input, an answer as the last line.

A process of its own, for JAX is told of virtual devices before it starts, and a process that
has used JAX has as many as it has.
"""

from __future__ import annotations

import sys

from braces.errors import BracesError
from braces.planning.compiling import planned
from braces.planning.question import Question, answer_text
from braces.program import Program


def main() -> None:
    """Answer one question."""
    asked = Question.from_json(sys.stdin.read())
    try:
        program = Program.from_bytes(asked.program)
        answer = planned(program.definition, asked.layout, asked.fetches, asked.sizes)
    except BracesError as error:
        answer = error
    print(answer_text(answer))


if __name__ == "__main__":
    main()
