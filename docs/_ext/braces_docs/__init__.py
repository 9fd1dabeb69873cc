"""The parts of Braces' documentation that Sphinx does not have."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect all parts with Sphinx; a change of one of them builds all pages again."""
    from braces.hints.table_files import FOLDER
    from braces_docs import (
        aliases,
        docstrings,
        files,
        names,
        notebooks,
        reference,
        sidebar,
    )

    for part in (reference, files, sidebar, docstrings, names, notebooks, aliases):
        part.setup(app)
    inputs = [*sorted(Path(__file__).parent.iterdir()), FOLDER / "classes.txt"]
    content = b"".join(file.read_bytes() for file in inputs if file.is_file())
    app.add_config_value("braces_docs", hashlib.sha256(content).hexdigest(), "env")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
