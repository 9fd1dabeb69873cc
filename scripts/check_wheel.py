"""Build the wheel and the source archive, check both, and run the demo from the wheel.

    python scripts/check_wheel.py                 # make check-wheel
    python scripts/check_wheel.py --tag v0.1.0    # refuse a tag of another version

The checked files are in `dist/` afterwards. The demo runs in a new
environment in a temporary folder, without access to this checkout.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import braces
from lock import normal

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "braces"
LEFT_OUT = {"__pycache__"}
IN_SOURCE_ARCHIVE = (
    "CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md", "pyproject.toml",
    "requirements.lock", "docs/about/stability.md", "scripts/check_wheel.py",
    "src/braces/__init__.py", "tests/conftest.py",
)  # fmt: skip
"""Some of the files with which a source archive can be built and tested."""


def build(folder: Path) -> tuple[Path, Path]:
    """Build into a folder, and return the paths of the wheel and of the source archive."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    stem = f"braces-{braces.__version__}"
    return folder / f"{stem}-py3-none-any.whl", folder / f"{stem}.tar.gz"


def package_files() -> set[str]:
    """Return the files of the package, by their paths in a wheel."""
    paths = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {
        path.relative_to(PACKAGE.parent).as_posix()
        for path in paths
        if not LEFT_OUT & {*path.parts}
    }


def wheel_problems(wheel: Path) -> list[str]:
    """Return the differences of a wheel from the sources and from pyproject.toml."""
    info = f"braces-{braces.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        found = [*_file_problems(names, info)]
        if f"{info}/METADATA" in names:
            metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
            found += _metadata_problems(metadata)
        if f"{info}/entry_points.txt" in names:
            text = archive.read(f"{info}/entry_points.txt").decode()
            found += _entry_point_problems(text)
    return found


def _file_problems(names: set[str], info: str) -> Iterator[str]:
    own = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    expected = package_files() | {f"{info}/{name}" for name in own}
    yield from (f"missing: {name}" for name in sorted(expected - names))
    yield from (f"unexpected: {name}" for name in sorted(names - expected))


def _metadata_problems(metadata: Message) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = {
        "Name": "braces",
        "Version": braces.__version__,
        "License-Expression": project["license"],
        "License-File": "LICENSE",
        "Requires-Python": project["requires-python"],
        "Summary": project["description"],
    }
    for field, value in expected.items():
        if metadata[field] != value:
            yield f"{field} is {metadata[field]!r}, not {value!r}"
    if [*metadata.get_all("Classifier", ())] != project["classifiers"]:
        yield "the classifiers are not those of pyproject.toml"
    extras = {*metadata.get_all("Provides-Extra", ())}
    if extras != {*project["optional-dependencies"]}:
        yield f"the extras are {sorted(extras)}"
    required = [Requirement(text) for text in metadata.get_all("Requires-Dist", ())]
    always = [one for one in required if one.marker is None]
    if _bounds(always) != _bounds(map(Requirement, project["dependencies"])):
        yield "the dependencies are not those of pyproject.toml"


def _bounds(requirements: Iterable[Requirement]) -> set[tuple[str, SpecifierSet]]:
    return {(normal(one.name), one.specifier) for one in requirements}


def _entry_point_problems(text: str) -> Iterator[str]:
    if text.split() != ["[console_scripts]", "braces", "=", "braces.cli.main:main"]:
        yield f"the entry points are {text!r}"


def source_problems(archive: Path) -> list[str]:
    """Return the files that a source archive lacks, or should not have."""
    top = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as file:
        names = {name.removeprefix(f"{top}/") for name in file.getnames()}
    hidden = {name for name in names if name.startswith(".") and name != ".gitignore"}
    missing = [f"missing: {name}" for name in IN_SOURCE_ARCHIVE if name not in names]
    return missing + [f"unexpected: {name}" for name in sorted(hidden)]


def run_demo(wheel: Path, folder: Path) -> None:
    """Install a wheel into a new environment in a folder, and run the demo there.

    Raises:
        CalledProcessError: If the wheel cannot be installed, or the demo fails.
    """
    environment = folder / "environment"
    tool = [sys.executable, "-m", "uv", "--quiet"]
    python = ["--python", sys.executable, "--no-python-downloads"]
    subprocess.run([*tool, "venv", *python, str(environment)], check=True)
    inside = ["--python", str(environment / "bin" / "python")]
    subprocess.run([*tool, "pip", "install", *inside, f"{wheel}[demo]"], check=True)
    command = [str(environment / "bin" / "braces"), "demo", "--out", "demo"]
    subprocess.run(command, cwd=folder, check=True, env={"PATH": "", "HOME": str(folder)})


def main() -> int:
    """Build, check, and run the demo; exit status 1 for a problem."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", default="", help="the tag that will be published")
    tag = parser.parse_args().tag
    if tag not in ("", f"v{braces.__version__}"):
        print(f"The tag {tag} is not the version {braces.__version__}.", file=sys.stderr)
        return 1
    wheel, archive = build(ROOT / "dist")
    problems = [f"{wheel.name}: {problem}" for problem in wheel_problems(wheel)]
    problems += [f"{archive.name}: {problem}" for problem in source_problems(archive)]
    print(*problems, sep="\n", file=sys.stderr)
    if problems:
        return 1
    with tempfile.TemporaryDirectory() as folder:
        run_demo(wheel, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
