"""Fixtures of the tests of monitoring."""

from tests.lower.cache.conftest import folder as folder
