"""`python -m examples.chinese`: see the package."""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.chinese import fetch, table
from examples.chinese.lac import Lac, Net, weights


def main(arguments: list[str] | None = None) -> None:
    """Run one of the five commands."""
    parser = argparse.ArgumentParser(prog="python -m examples.chinese", description=__doc__)
    parser.add_argument("what", choices=["fetch", "cut", "tag", "weigh", "agree"])
    parser.add_argument("texts", nargs="*", help="sentences (default: those of the page)")
    parser.add_argument(
        "--folder", type=Path, default=fetch.FOLDER, help="folder of the models"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=table.PAGE, help="path of the page"
    )
    options = parser.parse_args(arguments)
    folder, texts = options.folder, options.texts or list(table.TEXTS)
    if options.what == "fetch":
        fetch.fetch(folder)
    elif options.what == "agree":
        options.output.write_text(table.page(folder), encoding="utf-8")
    elif options.what == "cut":
        for words in Lac.read("seg", folder).words(texts):
            print(" ".join(word for word, _ in words))
    elif options.what == "tag":
        for words in Lac.read("lac", folder).words(texts):
            print(" ".join(f"{word}/{kind}" for word, kind in words))
    else:
        rank = Net.read(fetch.get("rank", folder) / "model")
        for ranked in weights(Lac.read("lac", folder), rank, texts):
            print(" ".join(f"{word}/{weight}" for word, weight in ranked))


if __name__ == "__main__":
    main()
