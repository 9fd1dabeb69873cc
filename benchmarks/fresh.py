"""Measurements that need a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.case import Measure

ROOT = Path(__file__).resolve().parents[1]


def fresh(script: str) -> Measure:
    """A measurement by a script that prints a number, of seconds say.

    Nothing is read that an earlier interpreter compiled.
    """

    def measure() -> float:
        command = [sys.executable, "-c", script]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "BRACES_CACHE_DIR": ""},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return float(done.stdout)

    return measure
