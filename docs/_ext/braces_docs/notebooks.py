"""Notebooks: settings of the kernel that executes them at each build.

The kernel imports Braces from this source tree, and writes nothing outside of docs/_build/.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from braces_docs.files import DOCS, ROOT

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SUFFIX = ".ipynb"
KERNEL = """\
c.IPKernelApp.log_level = 40  # a notice about the sockets of the kernel is below it
c.HistoryManager.enabled = False
"""


def title(file: Path) -> str:
    """The first heading of a notebook."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    lines = (line for text in texts for line in text.splitlines())
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


def prepare_kernel(app: Sphinx) -> None:
    """Set the folder and the import path of kernels."""
    folder = DOCS / "_build" / "ipython"
    profile = folder / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    (profile / "ipython_kernel_config.py").write_text(KERNEL, encoding="utf-8")
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ["IPYTHONDIR"] = str(folder)


def setup(app: Sphinx) -> None:
    """Prepare kernels before pages are read."""
    app.connect("builder-inited", prepare_kernel)
