"""A recorded run as one HTML file that opens from disk."""

from __future__ import annotations

import base64
import gzip
import io
from typing import Any

from braces.builder.builder import Builder
from braces.debugger.html.packed import describe_state, pack_events, pack_runs, pack_series
from braces.debugger.html.page import debugger_page
from braces.debugger.recorded.measures import portable
from braces.debugger.recorded.recording import Recording
from braces.debugger.recorded.slices import Flow
from braces.debugger.stepped.controller import Status

VALUES_BYTES = 8_000_000
"""The bound of the values in the file; the latest values are preferred."""
LARGEST_VALUE = 1_000_000
"""The bound of a single value in the file, in bytes; of a larger one, the measures remain."""
_ALIGNED = 8


def saved_page(program: Builder, recording: Recording, flow: Flow, status: Status) -> str:
    """Return the page of a recording, with its measures, histograms and latest values."""
    with recording.lock:
        blob = Blob()
        index = {
            "runs": blob.add(pack_runs(recording)),
            "events": blob.add(pack_events(recording)),
            "series": [
                [*variable, *blob.add(pack_series(recording, variable, with_histograms=True))]
                for variable in recording.variables
            ],
            "values": _add_values(blob, recording),
            "rows": [[run, *blob.add(rows.tobytes())] for run, rows in recording.rows.items()],
        }
        extra = {
            "saved": {**index, "bytes": blob.text()},
            "state": describe_state(recording, status),
        }
    return debugger_page(program, recording.sites, flow, extra, connects=False)


def _add_values(blob: Blob, recording: Recording) -> list[list[Any]]:
    """Add the latest values up to a bound; return block, name, run, dtype, shape and place."""
    left, rows = VALUES_BYTES, list[list[Any]]()
    for variable, run, array in recording.latest_kept():
        if array.nbytes > LARGEST_VALUE:
            continue
        code, numbers = portable(array)
        left -= numbers.nbytes
        if left < 0:
            break
        rows.append([*variable, run, code, list(array.shape), *blob.add(numbers.tobytes())])
    return rows


class Blob:
    """Tables one after the other, each at a multiple of eight bytes."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()

    def add(self, data: bytes) -> tuple[int, int]:
        """Append a table; return its position and length."""
        start = self._buffer.tell()
        self._buffer.write(data)
        self._buffer.write(bytes(-len(data) % _ALIGNED))
        return start, len(data)

    def text(self) -> str:
        """Return all tables, compressed and base64-encoded."""
        return base64.b64encode(gzip.compress(self._buffer.getvalue(), mtime=0)).decode()
