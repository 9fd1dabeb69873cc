"""Metrics in the text format 0.0.4 of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from braces.serving.batching.batcher import Batcher
from braces.serving.batching.model_metrics import Histogram, ModelMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Batchers = Mapping[tuple[str, str], Batcher]
_COUNTERS: tuple[tuple[str, str, Callable[[ModelMetrics], float]], ...] = (
    ("elements", "Batch elements that were computed.", lambda m: m.elements),
    ("padded_elements", "Batch elements of padding.", lambda m: m.padded),
    ("run_seconds", "Seconds in which the model ran.", lambda m: m.run_seconds),
    ("refused", "Requests that found the queue full.", lambda m: m.refused),
    ("dropped", "Requests dropped from the queue.", lambda m: m.dropped),
    ("repeated_batches", "Batches repeated request by request.", lambda m: m.repeated),
    ("tokens", "Tokens that were streamed.", lambda m: m.tokens),
)
_HISTOGRAMS: tuple[tuple[str, str, Callable[[ModelMetrics], Histogram]], ...] = (
    ("request_seconds", "Seconds from a request to its response.", lambda m: m.latency),
    ("batch_requests", "Requests in a batch.", lambda m: m.batch_requests),
)


def write_metrics(batchers: Batchers, ready: bool, active: int) -> str:
    """Return the metrics of all models."""
    return "\n".join([*_lines(batchers, ready, active), ""])


def _lines(batchers: Batchers, ready: bool, active: int) -> Iterator[str]:
    yield from _head("ready", "gauge", "1 once all models are compiled.")
    yield f"braces_ready {int(ready)}"
    yield from _head("active_requests", "gauge", "Requests in progress.")
    yield f"braces_active_requests {active}"
    yield from _head("waiting_requests", "gauge", "Requests in the queue.")
    for key, batcher in batchers.items():
        yield f"braces_waiting_requests{{{_labels(key)}}} {batcher.waiting}"
    yield from _head("responses_total", "counter", "Responses by status.")
    for key, batcher in batchers.items():
        for status, count in sorted(batcher.metrics.responses.items()):
            yield f'braces_responses_total{{{_labels(key)},status="{status}"}} {count}'
    for name, text, value in _COUNTERS:
        yield from _head(f"{name}_total", "counter", text)
        for key, batcher in batchers.items():
            yield f"braces_{name}_total{{{_labels(key)}}} {value(batcher.metrics):.9g}"
    for name, text, histogram in _HISTOGRAMS:
        yield from _head(name, "histogram", text)
        for key, batcher in batchers.items():
            yield from _histogram(f"braces_{name}", _labels(key), histogram(batcher.metrics))


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP braces_{name} {text}"
    yield f"# TYPE braces_{name} {kind}"


def _labels(key: tuple[str, str]) -> str:
    return f'model="{key[0]}",version="{key[1]}"'


def _histogram(name: str, labels: str, histogram: Histogram) -> Iterator[str]:
    count = 0
    for bound, each in zip((*histogram.bounds, None), histogram.counts, strict=True):
        count += each
        edge = "+Inf" if bound is None else f"{bound:g}"
        yield f'{name}_bucket{{{labels},le="{edge}"}} {count}'
    yield f"{name}_sum{{{labels}}} {histogram.total:.9g}"
    yield f"{name}_count{{{labels}}} {count}"
