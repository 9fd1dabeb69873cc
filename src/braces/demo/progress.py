"""Training progress of the demo: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from braces.demo.train import Reporting

_LINES = 8


@contextmanager
def show_progress(stream: TextIO, epochs: int) -> Generator[Reporting]:
    """Yield a function that shows each report of an epoch on the stream."""
    if stream.isatty():
        with _bar(stream, epochs) as report:
            yield report
    else:
        yield _lines(stream, epochs)


@contextmanager
def _bar(stream: TextIO, epochs: int) -> Generator[Reporting]:
    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[measured]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=stream)) as progress:
        task = progress.add_task("", total=epochs, measured="compiling")

        def report(epoch: int, loss: float, accuracy: float) -> None:
            progress.update(task, completed=epoch, measured=_measured(loss, accuracy))

        yield report


def _lines(stream: TextIO, epochs: int) -> Reporting:
    every = max(1, epochs // _LINES)

    def report(epoch: int, loss: float, accuracy: float) -> None:
        if epoch % every == 0 or epoch in (1, epochs):
            number = f"{epoch:>{len(str(epochs))}}/{epochs}"
            line = f"epoch {number}  {_measured(loss, accuracy)}"
            print(line, file=stream, flush=True)

    return report


def _measured(loss: float, accuracy: float) -> str:
    return f"loss {loss:.4f}  accuracy {accuracy:.1%}"
