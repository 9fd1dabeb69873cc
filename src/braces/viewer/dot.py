"""A program in Graphviz's DOT language: blocks as clusters, operators as nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from braces.builder.builder import Builder
from braces.ir.records import CAPTURES, Body, Op, VarInfo

_HEAD = (
    "digraph program {",
    '  graph [compound=true, fontname="Helvetica", labeljust=l, color="#9aa4b0"]',
    '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=11]',
    '  edge [fontname="Helvetica", fontsize=9, color="#5f6b78"]',
)
_INPUTS = ("data", "parameter", "state", "argument")


def program_dot(program: Builder) -> str:
    """Return a program as text for `dot -Tsvg`.

    An edge is labelled with the type of the variable. An edge of a captured variable, which
    enters a block from outside, is dashed.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     y = br.tanh(br.data("x", ["batch", 4]))
        >>> print(program_dot(prog).splitlines()[-2].strip())
        n0 -> n1 [label="f32[batch,4]"]
    """
    drawing = Drawing()
    nodes = drawing.block(program.definition.main, {}, "  ")
    return "\n".join([*_HEAD, *nodes, *drawing.edges, "}"]) + "\n"


def quote(text: str) -> str:
    r"""Quote a DOT string; backslashes are escaped.

    Example:
        >>> print(quote('a "b" \\n'))
        "a \"b\" \\n"
    """
    clean = "".join(c if c.isprintable() else " " for c in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Drawing:
    """Ids of nodes and clusters, and the edges between them."""

    def __init__(self) -> None:
        self.nodes = self.clusters = 0
        self.edges: list[str] = []

    def node(self) -> str:
        """Return a new node id, which does not contain names from the file."""
        self.nodes += 1
        return f"n{self.nodes - 1}"

    def block(self, body: Body, outer: Mapping[str, str], pad: str) -> Iterator[str]:
        """Yield the nodes of a block; `outer` maps outer names to the nodes that bind them."""
        binders = dict[str, str]()
        for info in body.vars.values():
            if info.kind in _INPUTS:
                binders[info.name] = self.node()
                yield f"{pad}{binders[info.name]} [{_input(info)}]"
        for op in body.ops:
            yield from self.op(op, body, {**outer, **binders}, pad)
            binders |= dict.fromkeys(op.binds(), f"n{self.nodes - 1}")
        for name in body.results:
            label = self.node()
            yield f"{pad}{label} [label={quote(name)}, shape=plaintext]"
            self.edge(body, name, {**outer, **binders}, label)

    def op(self, op: Op, body: Body, node_ids: Mapping[str, str], pad: str) -> Iterator[str]:
        """Yield the clusters of an operator's blocks, then its own node."""
        for label, inner in op.bodies().items():
            yield f"{pad}subgraph cluster_{self.clusters} {{"
            self.clusters += 1
            yield f"{pad}  label={quote(f'{op.name} {label}')}"
            yield from self.block(inner, node_ids, pad + "  ")
            yield f"{pad}}}"
        node = self.node()
        yield f"{pad}{node} [label={quote(op.type)}, tooltip={quote(op.describe())}]"
        captured = CAPTURES if op.captures() else ""
        for slot, names in op.inputs.items():
            for name in names if slot != captured else ():
                self.edge(body, name, node_ids, node)

    def edge(self, body: Body, name: str, node_ids: Mapping[str, str], to: str) -> None:
        """Add an edge from the node that binds a name, if it is known."""
        if name not in node_ids:
            return
        label = str(body.vars[name].type) if name in body.vars else name
        style = "" if name in body.vars else ", style=dashed"
        self.edges.append(f"  {node_ids[name]} -> {to} [label={quote(label)}{style}]")


def _input(info: VarInfo) -> str:
    text = f"{info.kind} {info.name}: {info.shown_type}"
    return f"label={quote(text)}, shape=ellipse, style=solid"
