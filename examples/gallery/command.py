"""The command line of an example of the gallery."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path


def run_example(doc: str, example: Callable[[bool], tuple[str, str]]) -> None:
    """Run an example, print its result and its run time, and write its picture.

    Args:
        doc: The docstring of the module; its first line describes the command.
        example: From whether the small version is wanted to the result, as text, and the
            picture, as SVG.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a version of seconds")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="write the picture")
    options = parser.parse_args()
    start = time.perf_counter()
    result, picture = example(options.small)
    print(result)
    print(f"{time.perf_counter() - start:.0f} s on {os.cpu_count()} cores")
    if options.picture:
        options.picture.write_text(picture, encoding="utf-8")
