"""`python -m examples.real_models`: see the package."""

from __future__ import annotations

import argparse
from pathlib import Path

import braces as br
from examples.real_models import packages, romanizer, table, tune


def main(arguments: list[str] | None = None) -> None:
    """Run one of the four commands."""
    parser = argparse.ArgumentParser(prog="python -m examples.real_models", description=__doc__)
    parser.add_argument("what", choices=["fetch", "agree", "romanize", "tune"])
    parser.add_argument("names", nargs="*", help="names to romanize")
    parser.add_argument(
        "--folder", type=Path, default=packages.FOLDER, help="folder of the models"
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="the file to write: page, program or model"
    )
    options = parser.parse_intermixed_args(arguments)
    folder, output = options.folder, options.output
    if options.what == "fetch":
        packages.fetch(folder)
    elif options.what == "agree":
        (output or table.PAGE).write_text(table.page(folder), encoding="utf-8")
    elif options.what == "romanize":
        file = output or Path("romanizer.model")
        if not file.exists():
            romanizer.build(folder).save(file)
        names = options.names or romanizer.NAMES
        for name, spelled in zip(
            names, romanizer.romanize(br.load_model(file), names), strict=True
        ):
            print(name, spelled)
    else:
        before, tuned = tune.tuned(folder)
        for line in tune.told(before, tuned, output or Path("tuned.onnx")):
            print(line)


if __name__ == "__main__":
    main()
