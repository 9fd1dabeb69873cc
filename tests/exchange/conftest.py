"""Tests here share a module that runs models elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["paddle_models.py"]
"""Runs in an environment with Paddle, which is not this one."""
