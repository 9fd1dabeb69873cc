"""Update the results of passes in the programs under `tests/passes/files/`.

    python scripts/pass_files.py [WORDS]

Each file `PASS/CASE.braces` has a program, and below `---- after` the result of the pass:
another program, `unchanged`, or an error. Its notes follow `---- notes`. A line `# with: ...`
has the arguments of a pass. The script rewrites the lower parts of the files with all WORDS in
their paths; git shows the differences. `tests/passes/test_files.py` compares the passes with
all files.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from braces.errors import BracesError
from braces.ir.records import Body, ProgramDef
from braces.ir.text.parser import parse_program
from braces.ir.text.printer import print_program
from braces.ir.walk import map_bodies
from braces.passes.core.pipeline import Pass, collect_notes, run_pass
from braces.passes.core.untrusted_input import complete_attributes
from braces.passes.registry import MAKERS, PASSES

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "passes" / "files"
AFTER, NOTES, WITH = "---- after\n", "---- notes\n", "# with: "
UNCHANGED = "unchanged\n"


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        path: Its path.
        text: The program before the pass, as text.
    """

    path: Path
    text: str

    @property
    def before(self) -> ProgramDef:
        """The program before the pass; it may be malformed."""
        return complete_attributes(parse_program(self.text))

    @property
    def used(self) -> Pass:
        """The pass, with its arguments."""
        name, lines = self.path.parent.name, self.text.splitlines()
        words = [line.removeprefix(WITH).split() for line in lines if line.startswith(WITH)]
        if not words:
            return PASSES[name]
        return MAKERS[name](*(int(word) if word.isdigit() else word for word in words[0]))

    def written(self) -> str:
        """The whole file with the present result."""
        before = self.before
        with collect_notes() as notes:
            try:
                made = run_pass(self.used, before)
                after = UNCHANGED if made == before else print_program(bare(made))
            except BracesError as error:
                after = f"{type(error).__name__}: {error}\n"
        said = "".join(f"{one.where}: {one.what}\n" for one in notes)
        return self.text + AFTER + after + (NOTES + said if said else "")


def bare(program: ProgramDef) -> ProgramDef:
    """A program without the source lines of operators, which are this script's for new ones."""

    def without(body: Body) -> Body:
        ops = (map_bodies(op, without).with_(source=None) for op in body.ops)
        return body.with_(ops=tuple(ops))

    return program.with_(main=without(program.main))


def cases() -> list[Case]:
    """All files, in the order of their paths."""
    paths = sorted(FOLDER.rglob("*.braces"))
    return [Case(path, path.read_text(encoding="utf-8").partition(AFTER)[0]) for path in paths]


def main(words: list[str]) -> None:
    """Write the files whose paths have these words."""
    for case in cases():
        if all(word in case.path.as_posix() for word in words):
            case.path.write_text(case.written(), encoding="utf-8")
            print(case.path.relative_to(FOLDER))


if __name__ == "__main__":
    main(sys.argv[1:])
