"""What `br.to_onnx` does not write, and why: the table in `docs/onnx_operators.md`.

python scripts/onnx_operators.py            write it; tests hold each row
python scripts/onnx_operators.py --check    say whether it is as written
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
PAGE = ROOT / "docs" / "onnx_operators.md"
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
    """Why an example is not written; nothing where it is."""
    import braces as br

    found = ""
    for fixed in (None, sizes):
        try:
            br.to_onnx(built.program, path, fetches=fetch, sizes=fixed)
        except br.ProgramError as error:
            found = str(error)
        else:
            return ""
        if "expected static sizes" not in found:
            break
    return "; ".join(dict.fromkeys(why for _, why in REASON.findall(found))) or found


def outcomes(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Each operator, what of it, and why that is not written."""
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
    """The page as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        found = sorted(outcomes(Path(folder)), key=lambda one: (one[0], one[1] != "values"))
    refused = [one for one in found if one[2]]
    rows = (f"| `{name}` | {what} | {why} |" for name, what, why in refused)
    written = len(found) - len(refused)
    return HEAD.format(total=len(found), written=written, rows="\n".join(rows))


def main() -> int:
    """Write the page, or look at it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="say whether it is as written")
    check, wanted = parser.parse_args().check, page()
    if not check:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted)


if __name__ == "__main__":
    sys.exit(main())
