"""Counters of a model, and histograms with fixed bounds."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latencies."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
"""Upper bounds of the numbers of requests in a batch."""


class Histogram:
    """Counts of observations by upper bounds.

    Example:
        >>> histogram = Histogram((1.0, 2.0))
        >>> histogram.add(1.5)
        >>> histogram.counts, histogram.total
        ([0, 1, 0], 1.5)
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass
class ModelMetrics:
    """Counters of a model since its start.

    Attributes:
        responses: Responses by HTTP status.
        latency: Seconds from the request to the response.
        batch_requests: Requests in a batch.
        run_seconds: Seconds in which the model ran.
        elements: Batch elements that were computed.
        padded: Batch elements of padding.
        refused: Requests that found the queue full.
        dropped: Requests whose client left, or whose time was over, before their run.
        repeated: Batches that failed, and were repeated one by one.
        tokens: Tokens that were streamed.
    """

    responses: dict[int, int] = field(default_factory=dict[int, int])
    latency: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    batch_requests: Histogram = field(default_factory=lambda: Histogram(SIZES))
    run_seconds: float = 0.0
    elements: int = 0
    padded: int = 0
    refused: int = 0
    dropped: int = 0
    repeated: int = 0
    tokens: int = 0

    def count_response(self, status: int, seconds: float) -> None:
        """Count a response."""
        self.responses[status] = self.responses.get(status, 0) + 1
        self.latency.add(seconds)

    def count_batch(self, requests: int, seconds: float) -> None:
        """Count a run of the model."""
        self.batch_requests.add(requests)
        self.run_seconds += seconds
