"""Measurements in a new interpreter."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import MappingProxyType

from benchmarks.case import Measure

ROOT = Path(__file__).resolve().parents[1]


BRACES_FOLDER, JAX_FOLDER = "BRACES_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"
"""What names the folder in which what XLA compiled is kept for later interpreters."""
KEEP_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
"""What JAX is told, which else keeps only what took it a second."""
LEFT_OUT = JAX_FOLDER, "PYTHONDONTWRITEBYTECODE"
"""What interpreters are not told: where Python keeps no bytecode, a checkout is compiled from
its sources each time, and an installed peer is not."""


def folder_for_now() -> str:
    """An empty folder, which is deleted when this process ends."""
    folder = mkdtemp()
    atexit.register(rmtree, folder, ignore_errors=True)
    return folder


def fresh(script: str, kept: Mapping[str, str] = MappingProxyType({})) -> Measure:
    """A measurement by a script that prints a number, such as seconds.

    Args:
        script: The program of the interpreter.
        kept: Names the folder of compiled code; where it does not, nothing is read that an
            earlier interpreter compiled.
    """
    outside = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}

    def measure() -> float:
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**outside, BRACES_FOLDER: "", **KEEP_ALL, **kept},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return float(done.stdout)

    return measure
