"""`python -m braces.planning.worker`: a request on standard input, the answer as the last line.

It is a separate process because the number of JAX's virtual devices is fixed at start-up.
"""

from __future__ import annotations

import os
import sys
from threading import Thread
from time import sleep

from braces.errors import BracesError
from braces.planning.compiled_run import compile_and_report
from braces.planning.request import PlanRequest, answer_text
from braces.program import Program

PARENT_POLL_S = 0.5


def _end_with_parent(parent: int) -> None:
    """End this process once its parent, the reader of the answer, is gone."""
    while os.getppid() == parent:
        sleep(PARENT_POLL_S)
    os._exit(1)


def main() -> None:
    """Answer one request."""
    Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    question = PlanRequest.from_json(sys.stdin.read())
    try:
        program = Program.from_bytes(question.program)
        answer = compile_and_report(
            program.definition, question.layout, question.fetches, question.sizes
        )
    except BracesError as error:
        answer = error
    print(answer_text(answer))


if __name__ == "__main__":
    main()
