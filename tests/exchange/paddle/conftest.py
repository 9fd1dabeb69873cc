"""A script of another environment is no test."""

from __future__ import annotations

collect_ignore = ["paddle_models.py"]
"""Runs in an environment with Paddle, which is not this one."""
