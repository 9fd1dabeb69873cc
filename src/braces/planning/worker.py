"""`python -m braces.planning.worker`: a question on standard input, an answer as the last line.

A process of its own, for JAX is told of virtual devices before it starts, and a process that
has used JAX has as many as it has.
"""

from __future__ import annotations

import os
import sys
from threading import Thread
from time import sleep

from braces.errors import BracesError
from braces.planning.compiled_run import planned
from braces.planning.request import Question, answer_text
from braces.program import Program

LOOKS_EACH_S = 0.5


def _end_with_parent(parent: int) -> None:
    """End this process once nobody is there who would read its answer."""
    while os.getppid() == parent:
        sleep(LOOKS_EACH_S)
    os._exit(1)


def main() -> None:
    """Answer one question."""
    Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    asked = Question.from_json(sys.stdin.read())
    try:
        program = Program.from_bytes(asked.program)
        answer = planned(program.definition, asked.layout, asked.fetches, asked.sizes)
    except BracesError as error:
        answer = error
    print(answer_text(answer))


if __name__ == "__main__":
    main()
