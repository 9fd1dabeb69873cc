"""Damage Paddle programs in many ways, and import them: each is refused, or becomes a program.

    python scripts/fuzz_paddle.py --count 50000 --seed 0
    python scripts/fuzz_paddle.py --models FOLDER        also those of its folders

The programs are small and cover all constructs; their files of arrays are damaged, too.
An exception other than `BracesError` is a finding, and so is a case that runs long, takes much
memory, or opens another file than those of its folder. `--first N --count 1` repeats a case.
The exit status is 1 if there are findings, else 0.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import braces as br
import fuzz_files as f
import mutations as m
from fuzz_onnx import reading
from paddle_programs import PROGRAMS

LARGEST = 200_000
"""Programs of more bytes are left out: most damage would hit no operator."""
WAYS = (*m.BYTES, *[m.mutate_fields] * 12)


def write_seeds(folder: Path, models: Path | None) -> None:
    """A folder for each program."""
    for write in PROGRAMS:
        write().save(folder / write.__name__)
    for found in sorted(models.glob("*/*.pdmodel")) if models else ():
        if found.stat().st_size <= LARGEST:
            place = folder / f"given {found.parent.name}"
            place.mkdir()
            for suffix in (".pdmodel", ".pdiparams"):
                if found.with_suffix(suffix).exists():
                    shutil.copy(found.with_suffix(suffix), place / f"net{suffix}")


def load(path: Path) -> None:
    """Read a program one of whose files was damaged."""
    program = br.from_paddle(path.parent)[0]
    br.verify(program, all=True)
    assert str(br.Program.from_bytes(program.to_bytes())) == str(program)


def fuzz(first: int, count: int, seed: int, limit_s: float, models: Path | None) -> f.Outcome:
    """Run cases in a folder that contains only the programs."""
    outcome = f.Outcome()
    warnings.simplefilter("ignore")  # NumPy tells of numbers that overflow
    with tempfile.TemporaryDirectory() as made:
        write_seeds(Path(made), models)
        files = sorted(Path(made).glob("*/*"))
        sound = {path: path.read_bytes() for path in files if path.stat().st_size <= LARGEST}
        for path in sound:  # imports all that reading programs imports
            with suppress(br.BracesError):
                load(path)
        sys.addaudithook(reading(made))
        f.limit_memory()
        for number in range(first, first + count):
            path = files[number % len(files)]
            if path in sound:
                kind = path.suffix[1:]
                seeds, loaders = [(kind, sound[path])], {kind: (load, WAYS)}
                f.run_case(number, seed, seeds, path, limit_s, outcome, loaders)
                path.write_bytes(sound[path])
            if number % 5_000 == 4_999:
                f.tell(outcome, number + 1)
    return outcome


def main() -> int:
    """Run the command line."""
    parser = f.command_line(__doc__, count=5_000, limit_s=10.0)
    parser.add_argument("--models", type=Path, help="a folder of folders with programs")
    options = parser.parse_args()
    outcome = fuzz(options.first, options.count, options.seed, options.limit, options.models)
    return f.report(outcome, options.first + options.count)


if __name__ == "__main__":
    sys.exit(main())
