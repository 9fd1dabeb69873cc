"""Write requirements.lock: the exact versions of all development requirements.

pip resolves the requirements of `pyproject.toml` (build, run, extras, groups) as if nothing
were installed; the file has only the names and versions of its answer.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

HEADER = """\
# Exact versions for development and the demo, for Python {python} on Linux.
# Written by `make lock`, which takes the newest versions that pyproject.toml allows.
"""
LEFT_OUT = ("examples", "parquet", "ray")
"""Extras that development does without; what tests them is skipped there."""


def wanted(pyproject: dict[str, Any]) -> list[str]:
    """Every requirement that `pyproject.toml` names, sorted.

    The data of examples, Arrow, Ray, and the peers of benchmarks are excluded.
    """
    project = pyproject["project"]
    extras = project["optional-dependencies"].items()
    groups = [
        pyproject["build-system"]["requires"],
        project["dependencies"],
        *(requirements for name, requirements in extras if name not in LEFT_OUT),
        pyproject["dependency-groups"]["dev"],
    ]
    return sorted({requirement for group in groups for requirement in group})


def resolve(requirements: list[str]) -> list[str]:
    """The packages that pip would install for `requirements`, as sorted `name==version` lines.

    Raises:
        CalledProcessError: If pip finds no compatible set of versions.
    """
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    command = [sys.executable, "-m", "pip", "install", *options, *requirements]
    report = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [package["metadata"] for package in json.loads(report)["install"]]
    return sorted(f"{normal(data['name'])}=={data['version']}" for data in found)


def with_markers(pins: list[str], requirements: list[str]) -> list[str]:
    """The pins, each with the environment marker of its requirement.

    Example:
        >>> with_markers(["a==1", "b==2"], ["a", "b>=1; python_version < '3.14'"])
        ['a==1', "b==2; python_version < '3.14'"]
    """
    marked = [line.partition(";") for line in requirements if ";" in line]
    markers = {normal(re.split("[<>=!~ ]", name)[0]): marker for name, _, marker in marked}
    names = [pin.partition("==")[0] for pin in pins]
    return [
        f"{pin};{markers[name]}" if name in markers else pin
        for pin, name in zip(pins, names, strict=True)
    ]


def normal(name: str) -> str:
    """A package name in its normal form.

    Example:
        >>> normal("ml_dtypes")
        'ml-dtypes'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Resolve, then replace the lock file."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = wanted(pyproject)
    lines = with_markers(resolve(requirements), requirements)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = HEADER.format(python=python) + "\n".join(lines) + "\n"
    (ROOT / "requirements.lock").write_text(text)
    print(f"requirements.lock: {len(lines)} packages")


if __name__ == "__main__":
    main()
