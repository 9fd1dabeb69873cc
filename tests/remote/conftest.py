"""One worker for the tests of a file."""

from __future__ import annotations

from collections.abc import Generator

import pytest

import braces as br
from tests.remote.workers import connected, listening


@pytest.fixture(scope="module")
def server() -> Generator[br.remote.Server]:
    """A worker that listens."""
    with listening() as found:
        yield found


@pytest.fixture
def one(server: br.remote.Server) -> Generator[br.remote.Worker]:
    """A client of it."""
    with connected(server) as found:
        yield found
