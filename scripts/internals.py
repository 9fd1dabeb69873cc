"""Run the programs of `docs/internals`, and write their output below them.

    python scripts/internals.py [WORDS]

The `python` blocks of a page run from top to bottom and share names. The `text` block behind a
`python` block holds its output, and is rewritten. WORDS select pages by their names.
`tests/docs/test_internals.py` compares the pages with their programs.

Programs of pages find these names:

    br, np        Braces and NumPy
    show(x)       print a program, or its operators of some types, without source lines and
                  without attributes that have their default values
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from braces.define.core.signature import REQUIRED
from braces.define.decorator import OPS
from braces.ir.records import Body, Op, ProgramDef
from braces.ir.text.printer import print_body, print_program
from braces.ir.walk import map_bodies
from pass_files import bare
from size import ROOT

FOLDER = ROOT / "docs" / "internals"
BLOCKS = re.compile(
    r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL
)


def show(program: br.Program | ProgramDef, *types: str) -> None:
    """Print a program; with types, only the operators of these types in the main block."""
    definition = program if isinstance(program, ProgramDef) else program.definition
    shown = without_defaults(bare(definition).main)
    if not types:
        print(print_program(definition.with_(main=shown)), end="")
        return
    ops = tuple(op for op in shown.ops if op.type in types)
    infos = {name: shown.vars[name] for op in ops for name in op.binds()}
    lines = print_body(Body((), (), infos, ops)).splitlines()[1:-1]
    print("\n".join(line.removeprefix("  ") for line in lines))


def without_defaults(body: Body) -> Body:
    """A block without the attributes that have their default values."""

    def shorter(op: Op) -> Op:
        defaults = {spec.name: spec.default for spec in OPS.get(op.type).attrs}
        attrs = {n: v for n, v in op.attrs.items() if v != defaults.get(n, REQUIRED)}
        return map_bodies(op.with_(attrs=attrs), without_defaults)

    return body.with_(ops=tuple(map(shorter, body.ops)))


def run_page(text: str, name: str) -> str:
    """Return the text of a page with the output of each of its programs below it."""
    names: dict[str, Any] = {"br": br, "np": np, "show": show}

    def with_output(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start("code"))
        code = "\n" * line + match["code"]
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, name, "exec"), names)
        shown = f"\n```text\n{output.getvalue()}```\n" if output.getvalue() else ""
        return f"```python\n{match['code']}```\n{shown}"

    return BLOCKS.sub(with_output, text)


def pages() -> list[Path]:
    """All pages with programs, in order."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.md")))
    return [path for path, text in texts if BLOCKS.search(text)]


def main(words: list[str]) -> None:
    """Write the pages whose names have these words."""
    for path in pages():
        if all(word in path.name for word in words):
            text = path.read_text(encoding="utf-8")
            path.write_text(run_page(text, path.name), encoding="utf-8")
            print(path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
