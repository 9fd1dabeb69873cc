"""Run the tests that touch dependencies with the newest or the oldest versions allowed.

    python scripts/check_versions.py oldest            # make check-oldest
    python scripts/check_versions.py newest --share    # the short share in `make check`

uv resolves all requirements of `pyproject.toml`, extras included, and fills an environment of
its own, `.venv-newest` or `.venv-oldest`. The first tests run with the dependencies only,
the others with the extras. The oldest versions must equal the bounds of `pyproject.toml`, so
that each lower bound is tested, and run on this Python. The newest versions need a new Python:
they run on the newest release that uv finds, or on that of `--python`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
RESOLUTIONS = {"newest": "highest", "oldest": "lowest-direct"}
TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
"""What runs the tests, in the versions of requirements.lock."""
LEFT_TO_ALL = ("examples", "ray")
"""Extras that the share leaves out: large, and each is one package."""

PLAIN = ("tests/test_packages.py", "src/braces/exchange/stablehlo.py")
"""Tests that need no extra."""
SHARE = (
    "tests/exchange/onnx/reader/test_from_onnx.py",
    "tests/exchange/onnx/reader/test_onnx_examples.py",
    "tests/exchange/onnx/reader/rules/test_onnx_tables.py",
    "tests/frontend/optimizer/test_from_optax.py",
    "tests/golden",
    "tests/storage/test_parameters.py",
    "src/braces/demo",
    "src/braces/exchange",
    "src/braces/runtime/profiling",
)
"""A few tests of each dependency."""
ALL = (
    "tests/cli",
    "tests/cluster/test_ray.py",
    "tests/control",
    "tests/demo",
    "tests/exchange",
    "tests/frontend",
    "tests/golden",
    "tests/ir",
    "tests/jaxpr",
    "tests/lower",
    "tests/ops/contract/test_contract.py",
    "tests/remote/test_ray.py",
    "tests/runtime",
    "tests/storage",
    "tests/examples/test_bundled_examples.py",
    "tests/docs/test_docs.py",
    "tests/examples/test_examples.py",
    "src",
)
"""Tests of all that reaches a dependency."""


class BoundError(Exception):
    """A bound of `pyproject.toml` that was not tested."""


def requirements(project: Mapping[str, Any], extras: Sequence[str]) -> list[Requirement]:
    """The requirements of a project with these extras."""
    optional = [one for extra in extras for one in project["optional-dependencies"][extra]]
    return [*map(Requirement, [*project["dependencies"], *optional])]


def tools(lock: str) -> list[str]:
    r"""The lines of a lock file that pin the tools.

    Example:
        >>> tools("numpy==2.4.6\npytest==9.2.0\npytest-cov==7.0\n")
        ['pytest==9.2.0']
    """
    return [line for line in lock.splitlines() if line.partition("==")[0] in TOOLS]


def untested(required: Sequence[Requirement], pins: Mapping[str, str]) -> Iterator[str]:
    """The lower bounds that are below the oldest version that can be installed.

    Example:
        >>> list(untested([Requirement("numpy>=2.0")], {"numpy": "2.0.2"}))
        ['numpy>=2.0 installs 2.0.2: declare that']
        >>> list(untested([Requirement("numpy>=2.0,<3")], {"numpy": "2.0.0"}))
        []
    """
    for one in required:
        lowest = [Version(s.version) for s in one.specifier if s.operator == ">="]
        found = pins[one.name.lower().replace("_", "-")]
        if lowest != [Version(found)]:
            yield f"{one} installs {found}: declare that"


def uv(*arguments: str, **options: Any) -> str:
    """The output of uv; an error contains its message."""
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, **options
    ).stdout


def newest_python(found: Sequence[Mapping[str, Any]]) -> str:
    """The path of the newest Python release in a list of `uv python list`.

    Example:
        >>> names = ["3.9.2", "3.14.0", "3.15.0a1"]
        >>> newest_python([{"version": name, "path": f"/bin/{name}"} for name in names])
        '/bin/3.14.0'
    """
    releases = [one for one in found if not Version(one["version"]).is_prerelease]
    return max(releases, key=lambda one: Version(one["version"]))["path"]


def found_pythons() -> list[dict[str, Any]]:
    """This Python, and those that uv finds; free-threaded ones are left out."""
    options = ["--only-installed", "--no-python-downloads", "--output-format", "json"]
    command = [sys.executable, "-m", "uv", "python", "list", *options, "cpython"]
    # With `--quiet` uv prints no list; its warnings concern Pythons that cannot run.
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    usual = [one for one in json.loads(listed) if one.get("variant", "default") == "default"]
    return [{"version": platform.python_version(), "path": sys.executable}, *usual]


def resolve(python: str, which: str, extras: Sequence[str]) -> dict[str, str]:
    """The versions of all packages by name, for a Python."""
    options = ["--resolution", RESOLUTIONS[which], "--no-build", "--no-header", "--no-annotate"]
    options += ["--python", python]
    chosen = [word for extra in extras for word in ("--extra", extra)]
    pinned = "\n".join(tools((ROOT / "requirements.lock").read_text(encoding="utf-8")))
    files = [str(ROOT / "pyproject.toml"), "-"]
    found = uv("pip", "compile", *options, *chosen, *files, input=pinned)
    return dict(line.split("==", 1) for line in found.splitlines())


def install(folder: Path, which: str, extras: Sequence[str]) -> dict[str, str]:
    """Fill an environment with this project and exactly what it requires.

    Raises:
        BoundError: If a lower bound is not the oldest version that installs.
    """
    python = str(folder / "bin" / "python")
    pins = resolve(python, which, extras)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wrong = [*untested(requirements(project, extras), pins)] if which == "oldest" else []
    if wrong:
        raise BoundError("\n".join(wrong))
    inside = ["--python", python]
    listed = "".join(f"{name}=={version}\n" for name, version in pins.items())
    uv("pip", "sync", *inside, "-", input=listed)
    uv("pip", "install", *inside, "--no-deps", "--editable", str(ROOT))
    return pins


def run(folder: Path, tests: Sequence[str], workers: int) -> bool:
    """Return whether these tests pass in an environment."""
    spread = ["-n", str(workers), "--dist", "worksteal"] if workers > 1 else ["-n0"]
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-q", *spread]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    chosen = ["-m", "not thorough", *tests]
    return (
        subprocess.run([*command, *chosen], cwd=ROOT, env=environment, check=False).returncode
        == 0
    )


def check(which: str, share: bool, workers: int, python: str | None = None) -> bool:
    """Return whether all tests pass, first without extras, then with them."""
    folder = ROOT / f".venv-{which}"
    every = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [e for e in every["optional-dependencies"] if not (share and e in LEFT_TO_ALL)]
    newest = python or newest_python(found_pythons())
    chosen = ["--python", newest if which == "newest" else sys.executable]
    uv("venv", "--allow-existing", "--no-python-downloads", *chosen, str(folder))
    install(folder, which, ())
    passed = run(folder, PLAIN, 1)
    pins = install(folder, which, extras)
    print(
        f"The {which} versions:", *(f"{name} {pins[name]}" for name in sorted(pins)), flush=True
    )
    return run(folder, SHARE if share else ALL, workers) and passed


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", nargs="+", choices=RESOLUTIONS)
    parser.add_argument("--share", action="store_true", help="a few tests of each dependency")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--python", help="Python for the newest versions, as uv names it")
    options = parser.parse_args()
    settings = options.share, options.workers, options.python
    try:
        passed = [check(which, *settings) for which in options.which]
    except (BoundError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
