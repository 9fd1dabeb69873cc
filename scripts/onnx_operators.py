"""Operators that `br.to_onnx` does not support: `docs/tables/onnx_operators.md`.

python scripts/onnx_operators.py            write it; tests check each row
python scripts/onnx_operators.py --check    check that it is up to date
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tables" / "onnx_operators.md"
REASON = re.compile(r"\d+ (\S+) \((.*?)\), built at")

HEAD = """# Operators without an ONNX form

`python scripts/onnx_operators.py` writes this page from the first example of each operator;
tests check each row.

`br.to_onnx` exports {written} of {total} values and gradients of operators. The others, with
the reason:

| operator | part | reason |
|---|---|---|
{rows}
"""


def refusal(built: Any, fetch: list[Any], sizes: dict[str, int], path: Path) -> str:
    """The reason against the export of an example; empty if it is exported."""
    import braces as br

    found = ""
    for fixed in (None, sizes):
        try:
            br.to_onnx(built.program, path, fetches=fetch, sizes=fixed, updates=True)
        except br.ProgramError as error:
            found = str(error)
        else:
            return ""
        if "expected static sizes" not in found:
            break
    return "; ".join(dict.fromkeys(why for _, why in REASON.findall(found))) or found


def outcomes(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Each operator, its unsupported part, and the reason."""
    sys.path.insert(0, str(ROOT))
    from tests.ops.cases import build, cases, differentiable_cases
    from tests.ops.contract.exporting import fetches, first_of_each

    for what, some in (("values", cases()), ("gradients", differentiable_cases())):
        for case in first_of_each(tuple(some)):
            built = build(case)
            fetch = fetches(built, what == "gradients")
            if fetch:
                why = refusal(built, fetch, case.sizes(), folder / "model.onnx")
                yield case.op, what, why


def page() -> str:
    """The expected page."""
    with tempfile.TemporaryDirectory() as folder:
        found = sorted(outcomes(Path(folder)), key=lambda one: (one[0], one[1] != "values"))
    refused = [one for one in found if one[2]]
    rows = (f"| `{name}` | {what} | {why} |" for name, what, why in refused)
    written = len(found) - len(refused)
    return HEAD.format(total=len(found), written=written, rows="\n".join(rows))


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="check that it is up to date")
    check, wanted = parser.parse_args().check, page()
    if not check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted)


if __name__ == "__main__":
    sys.exit(main())
