"""Programs as data in other systems: the table of `docs/guides/surgery/peers.md`.

python -m benchmarks.surgery_peers            run every entry, and write the page
python -m benchmarks.surgery_peers --print    run every entry, and print the table

Requirements, in an environment of its own with Braces on `PYTHONPATH`:

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 onnxscript==0.7.2 penzai==0.2.5 nnsight==0.8.1 \
        onnxruntime==1.32.0 "jax>=0.10.2,<0.11" optax rich safetensors

Each entry is the result of the function that computes it. No entry is written by hand.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.surgery_peers.braces_programs import Braces
from benchmarks.surgery_peers.common import NONE
from benchmarks.surgery_peers.nnsight_modules import NnSight
from benchmarks.surgery_peers.onnx_script import OnnxScript
from benchmarks.surgery_peers.penzai_trees import Penzai
from benchmarks.surgery_peers.torch_fx import TorchFx

FAILED = "**failed**"
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "surgery" / "peers.md"
ROWS = {
    "find": "find: one `tanh` outside and one inside a loop or branch",
    "pattern": "pattern as a function",
    "commuted": "its commuted operands",
    "inside": "pattern outside and inside a loop or branch",
    "elsewhere": "inner value read elsewhere",
    "parameters": "parameters of a replacement, 2 places",
    "gradients": "gradient after a replacement",
    "step": "a parameter inserted into a training step, 1 there before",
    "failing": "two edits, the second of which fails",
    "near": "reason of a near miss",
    "read": "read an activation",
    "thrice": "activation in a loop of 3 iterations",
    "patch": "patch a value",
    "order": "order of reads does not matter",
    "cut": "cut in two",
    "diff": "differences of programs; first differing value",
    "cost": "time with an activation read / without",
}
SYSTEMS = (TorchFx, OnnxScript, Penzai, NnSight, Braces)
HEAD = """# Programs as data in other systems

`python -m benchmarks.surgery_peers` runs every entry and writes this page, in an environment of
its own. The versions are {versions}. {none} means that the system has
no such notion. Counts are numbers of matches or values that the run gave. Times are those of
one small model on a CPU, with the time without the activation in parentheses.

"""


def entry(system: Any, row: str) -> str:
    """Return an entry of the table; the error of one that fails."""
    try:
        return getattr(system, row)()
    except Exception as error:
        return f"{FAILED}: {type(error).__name__}: {error!s:.80}"


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    systems = [kind() for kind in SYSTEMS]
    yield f"| | {' | '.join(kind.title for kind in SYSTEMS)} |"
    yield "|---" * (len(SYSTEMS) + 1) + "|"
    for row, title in ROWS.items():
        cells = (entry(system, row).replace("|", "\\|") for system in systems)
        yield f"| {title} | {' | '.join(cells)} |"


def versions() -> Mapping[str, str]:
    """Return the versions of the other systems."""
    packages = [kind.package for kind in SYSTEMS if kind is not Braces]
    return {package: importlib.metadata.version(package) for package in packages}


def main() -> None:
    """Run every entry."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--print", action="store_true", help="print the table only")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    lines = "\n".join(table())
    print(lines)
    if FAILED in lines:
        raise SystemExit("An entry failed; the page is not written.")
    if not arguments.print:
        shown = ", ".join(f"{name} {version}" for name, version in versions().items())
        PAGE.write_text(HEAD.format(versions=shown, none=NONE) + lines + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
