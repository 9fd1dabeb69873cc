"""A process that runs cases: names as JSON lines on its input, results on its output."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from typing import Any, TextIO

from suites.case import Check, Excluded, Group, Verdict, brief, failure


def main(module: str) -> None:
    """Serve the cases of one suite, a module, until the input ends."""
    answers = _own_output()
    warnings.simplefilter("ignore")
    groups: dict[str, Group] = importlib.import_module(module).GROUPS
    for line in sys.stdin:
        group, name = json.loads(line)
        answers.write(json.dumps(result(groups[group], group, name)) + "\n")
        answers.flush()


def _own_output() -> TextIO:
    """A stream to the parent; from now on prints of libraries go to the standard error."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def result(cases: Group, group: str, name: str) -> dict[str, Any]:
    """Run one case; the record of it."""
    start = time.perf_counter()
    checks = [list(check) for check in _checks(cases, name)]
    seconds = round(time.perf_counter() - start, 3)
    return {"group": group, "name": name, "seconds": seconds, "checks": checks}


def _checks(cases: Group, name: str) -> list[Check]:
    found: list[Check] = []
    try:
        found.extend(cases.run(name))
    except Excluded as error:
        found.append(Check("case", Verdict.EXCLUDED, brief(str(error))))
    except Exception as error:
        found.append(Check("case", Verdict.FAILED, failure(error)))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
