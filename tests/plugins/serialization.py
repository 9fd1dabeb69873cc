"""Every program that a test runs or saves survives text -> parse -> bytes -> load -> text.

So do its constructs when they are taken apart and put together again.

What the tests build is noted while they run, and sent through both forms when they end, once
for each fingerprint; a program that comes back otherwise fails the test that built it.
"""

from __future__ import annotations

import functools
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import braces as br
from braces import fingerprint
from braces.extend.constructs import view_of
from braces.extend.programs import ProgramDef, all_ops, print_program
from braces.ir.serde import program_to_bytes
from braces.passes.core.untrusted_input import op_versions


class Noted:
    """The programs that were run or saved, until they are checked.

    Attributes:
        checked: Fingerprints of what survived.
        waiting: What has not been checked yet, by identity.
    """

    def __init__(self) -> None:
        self.checked: set[str] = set()
        self.waiting: dict[int, ProgramDef] = {}

    def note(self, program: br.Program) -> None:
        """Check this program, as it is now, when the test has ended."""
        definition = program.definition
        self.waiting[id(definition)] = definition

    @contextmanager
    def watching(self) -> Generator[None]:
        """Inside, programs that run or are saved are noted."""
        run, write = br.Executor.run, br.Program.to_bytes

        @functools.wraps(run)
        def noted_run(executor: br.Executor, program: br.Program, *args: Any, **kw: Any) -> Any:
            results = run(executor, program, *args, **kw)
            self.note(program)
            return results

        @functools.wraps(write)
        def noted_write(program: br.Program) -> bytes:
            data = write(program)
            self.note(program)
            return data

        with (
            mock.patch.object(br.Executor, "run", noted_run),
            mock.patch.object(br.Program, "to_bytes", noted_write),
        ):
            yield

    def check(self) -> None:
        """Send what was noted through both forms."""
        programs, self.waiting = self.waiting, {}
        for program in programs.values():
            meaning = fingerprint(program)
            if meaning not in self.checked:
                self.checked.add(meaning)
                check_survival(program, meaning)


def check_survival(program: ProgramDef, meaning: str) -> None:
    """Hold a program against what comes back from its text, and from its bytes after that."""
    text = print_program(program)
    parsed = br.parse(text).definition
    assert print_program(parsed) == text, text
    assert fingerprint(parsed) == meaning, text
    loaded = br.Program.from_bytes(program_to_bytes(parsed, None, op_versions())).definition
    assert print_program(loaded) == text, text
    assert fingerprint(loaded) == meaning, text
    check_views(loaded)


def check_views(program: ProgramDef) -> None:
    """Take each construct of a program apart, and hold what comes back against it."""
    for path, op in all_ops(program.main):
        view = view_of(op)
        assert view is None or view.to_op() == op, (path, op)
