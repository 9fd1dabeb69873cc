"""Every public function of JAX's array libraries, imported by `br.from_jax` and compared.

python scripts/jax_functions.py               all of them; writes docs/tables/jax_functions.md
python scripts/jax_functions.py jax.numpy     those of some modules; print the differences
"""

from __future__ import annotations

import sys
from collections import defaultdict

from jax_cases import MODULES, PAGE, calls, outcome, reason_of

HEAD = """# Functions of JAX

`python scripts/jax_functions.py` writes this page. It calls every public function of these
modules that takes arrays once, imports the call with `br.from_jax`, runs it with the
interpreter, and compares the result with JAX's. Functions that JAX itself cannot trace do not
count. [JAX import](../guides/interchange.md#jax-import) describes the import.

| module | functions | equal results |
|---|--:|--:|
"""


def results(module: str) -> dict[str, str]:
    """The failure of each function of a module; empty if it equals JAX."""
    return {name: outcome(call) for name, call in calls(module).items()}


def page(found: dict[str, dict[str, str]]) -> str:
    """The page."""
    grouped, rows = defaultdict[str, list[str]](list), ""
    for module, outcomes in found.items():
        wrong = {name: why for name, why in outcomes.items() if why}
        rows += f"| `{module}` | {len(outcomes)} | {len(outcomes) - len(wrong)} |\n"
        for name, why in wrong.items():
            grouped[reason_of(why)].append(f"`{module}.{name}`")
    table = "".join(
        f"| {why} | {', '.join(names)} |\n" for why, names in sorted(grouped.items())
    )
    return f"{HEAD}{rows}\nRefused functions:\n\n| reason | functions |\n|---|---|\n{table}"


def main(modules: list[str]) -> int:
    """Run the command line."""
    found = {module: results(module) for module in modules or MODULES}
    if not modules:
        PAGE.write_text(page(found), encoding="utf-8")
    for module, outcomes in found.items():
        wrong = {name: why for name, why in outcomes.items() if why}
        print(f"{module}: {len(outcomes) - len(wrong)} of {len(outcomes)}")
        for name, why in wrong.items():
            print(f"    {name}: {reason_of(why)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
