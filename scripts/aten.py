"""Core operators of torch that `br.from_torch` supports: `docs/tables/aten.md`.

python scripts/aten.py            write it; needs torch
python scripts/aten.py --check    check that it is up to date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from braces.exchange.torch.reader import advice_for, rule_of
from braces.exchange.torch.rules import RULES

PAGE = Path(__file__).parents[1] / "docs" / "tables" / "aten.md"


HEAD = """# Core operators of PyTorch

`python scripts/aten.py` writes this page.

PyTorch {version} tags {total} operators of ATen as core. `br.from_torch` imports {passed} of
them. It has rules for {rules} operators of ATen in all, so layers, losses and recurrent
layers need no decomposition. An operator without a rule is decomposed by PyTorch first.
[PyTorch import](../guides/interchange.md#pytorch-import) describes the import.
{refused}"""


OTHERS = ("python.", "transformers.")
"""The beginnings of names of rules for operators of other packages."""


def names_of(torch: Any) -> set[str]:
    """The names of all operators of aten, without their overloads."""
    whole = (
        name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")
    )
    return {name.removeprefix("aten::").partition(".")[0] for name in whole}


def core_of(torch: Any) -> list[str]:
    """The operators that torch itself tags as its core, without the word `aten`."""
    found = set[str]()
    for packet in (getattr(torch.ops.aten, name, None) for name in names_of(torch)):
        for overload in getattr(packet, "overloads", list)():
            operator = getattr(packet, overload)
            if torch.Tag.core in operator.tags:
                found.add(str(operator).removeprefix("aten."))
    return sorted(found)


def table_of(refused: list[str]) -> str:
    """The unsupported operators as text; empty without any."""
    rows = "".join(f"| `{name}` | {advice_for(name)} |\n" for name in refused)
    return f"\n| refused | what to do |\n|---|---|\n{rows}" if rows else ""


def page(torch: Any) -> str:
    """The expected page."""
    core = core_of(torch)
    refused = [name for name in core if rule_of(name) is None]
    own = {name.partition(".")[0] for name in RULES if not name.startswith(OTHERS)}
    return HEAD.format(
        version=torch.__version__.partition("+")[0],
        total=len(core),
        passed=len(core) - len(refused),
        refused=table_of(refused),
        rules=len(own),
    )


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="check that it is up to date")
    check = parser.parse_args().check
    import torch

    wanted = page(torch)
    if not check:
        PAGE.write_text(wanted)
        return 0
    return int(not PAGE.exists() or PAGE.read_text() != wanted)


if __name__ == "__main__":
    sys.exit(main())
