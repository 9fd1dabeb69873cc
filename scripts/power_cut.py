"""Cut the power after each save, on a file system that delays unsynchronised data.

    sudo python scripts/power_cut.py [--rounds 5]

Needs Linux, root, mkfs.ext4 and loop devices. An image of ext4 is mounted with
`noauto_da_alloc` and a commit interval of five minutes, so that unsynchronised data is not on
the disk when a save returns. After each save the image is copied, and the copy is mounted,
which replays its journal. It must contain exactly the last saved file, complete.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import braces as br

SIZE_MIB = 64
OPTIONS = "loop,noauto_da_alloc,commit=300"


@contextmanager
def mounted(image: Path, place: Path) -> Generator[Path]:
    """An image of a file system, mounted at a folder."""
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", OPTIONS, str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def make_image(path: Path) -> None:
    """An empty file system."""
    with open(path, "wb") as file:
        file.truncate(SIZE_MIB << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True)


# ---- what is saved ---------------------------------------------------------------------------


def _program(round_: int) -> tuple[br.Program, br.Scope, br.Var]:
    with br.Program() as program:
        w = br.parameter("w", [100_000], init=float(round_))
        y = br.data("x", [100_000]) * w
    scope = br.Scope()
    br.Executor().init(program, scope)
    return program, scope, y


def save_program(folder: Path, round_: int) -> None:
    """A program with a variable that names the round."""
    with br.Program() as program:
        br.tanh(br.constant(np.full(50_000, float(round_))), name=f"round_{round_}")
    program.save(folder / "p.braces")


def check_program(folder: Path, round_: int) -> bool:
    """Return whether it belongs to the round."""
    return f"round_{round_}" in br.Program.load(folder / "p.braces").vars


def save_parameters(folder: Path, round_: int) -> None:
    """Parameters with the number of the round as values."""
    br.save_parameters(_program(round_)[1], folder / "w.safetensors")


def check_parameters(folder: Path, round_: int) -> bool:
    """Return whether they belong to the round."""
    scope = br.Scope()
    br.load_parameters(scope, folder / "w.safetensors")
    return bool(np.all(scope.var("w").value == round_))


def save_model(folder: Path, round_: int) -> None:
    """A model with the number of the round as parameters."""
    program, scope, y = _program(round_)
    br.save_model(folder / "m.model", program, scope, feeds=["x"], fetches=[y])


def check_model(folder: Path, round_: int) -> bool:
    """Return whether it belongs to the round."""
    found = br.load_model(folder / "m.model").run(x=np.ones(100_000, "float32"))
    return bool(np.all(found == round_))


def save_checkpoint(folder: Path, round_: int) -> None:
    """A checkpoint, which replaces the previous one."""
    with br.Checkpoint(folder / "job", keep=1) as job:
        job.save_now(_program(round_)[1], round_)


def check_checkpoint(folder: Path, round_: int) -> bool:
    """Return whether it belongs to the round."""
    scope = br.Scope()
    with br.Checkpoint(folder / "job") as job:
        found = job.restore(scope)
    return found is not None and found.step == round_ == scope.var("w").value[-1]


KINDS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path, int], bool]]] = {
    "program": (save_program, check_program),
    "parameters": (save_parameters, check_parameters),
    "model": (save_model, check_model),
    "checkpoint": (save_checkpoint, check_checkpoint),
}


# ---- cutting the power -----------------------------------------------------------------------


def survives(image: Path, top: Path, kind: str, round_: int) -> bool:
    """Return whether a copy of the image has the last saved file."""
    copy = top / "copy.img"
    shutil.copyfile(image, copy)
    try:
        with mounted(copy, top / "copy") as folder:
            strays = [path.name for path in folder.rglob("*.braces-tmp")]
            return KINDS[kind][1](folder, round_) and not strays
    except (OSError, ValueError) as error:
        print(f"  {kind} {round_}: {error}".splitlines()[0])
        return False


def attack(top: Path, rounds: int) -> int:
    """Save each kind repeatedly; return the number of losses after a power cut."""
    image, lost = top / "disk.img", 0
    make_image(image)
    with mounted(image, top / "disk") as folder:
        for kind, (save, _) in KINDS.items():
            good = 0
            for round_ in range(1, rounds + 1):
                save(folder, round_)
                good += survives(image, top, kind, round_)
            print(f"{kind}: {good} of {rounds} saves were there, and whole", flush=True)
            lost += rounds - good
    return lost


def main() -> int:
    """Run the command line; the exit status is 1 after a loss."""
    parser = argparse.ArgumentParser(description="Cut the power after each save.")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 1 if attack(Path(folder), given.rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
