"""The places of nodes in the program that was exported: node name, module and source line."""

from __future__ import annotations

import ast
import re
from typing import Any, cast

from braces.errors import BracesError, ProgramError
from braces.exchange.common.model.source_lines import describe_lines, sources_in
from braces.exchange.common.model.unsupported import UnsupportedNode
from braces.exchange.onnx.reader.graph.node import OnnxNode

ADVICE = {"ImageDecoder": "Decode images before the model, and feed their pixels."}
"""The advice for operators that will not be supported."""
OTHER_ADVICE = "Pass a function that builds it: from_onnx(model, rules={operator: function})."
_TORCH = "pkg.torch.onnx."
"""The prefix of the metadata that the exporter of PyTorch writes for each node."""
_DOC_LINE = re.compile(r"^(.+\.py)[(:](\d+)\)?", re.MULTILINE)
"""A line in `doc_string`, as older exporters of PyTorch write it."""
_LONGEST = 20_000
"""The largest number of characters of a text that is searched for lines."""


def unsupported_node(node: OnnxNode, error: BracesError) -> UnsupportedNode:
    """Return a node with its place, for messages."""
    operator = f"{node.type}-{node.version}"
    metadata = {entry.key: entry.value for entry in node.proto.metadata_props}
    return UnsupportedNode(
        operator, _name(node.proto, metadata), error, _line(node.proto, metadata)
    )


def unknown_operator(node: OnnxNode) -> ProgramError:
    """Return the error of a node without a rule."""
    return ProgramError(
        f"{node.type}: unsupported operator.", fix=ADVICE.get(node.type, OTHER_ADVICE)
    )


def _name(proto: Any, metadata: dict[str, str]) -> str:
    """Return the name of a node, or of its first output, and its module."""
    outputs: list[str] = list(proto.output)
    name = proto.name or next(filter(None, outputs), "")
    module = _module_entry(metadata.get(f"{_TORCH}name_scopes", ""))
    kind = _module_entry(metadata.get(f"{_TORCH}class_hierarchy", ""))
    kind = kind.rpartition(".")[2]
    where = f" in {module or 'the module'} ({kind})" if kind else ""
    return f"`{name:.120}`{where:.160}" if name else where.strip()


def _module_entry(text: str) -> str:
    """Return the entry of the module in a list of strings, from the outermost module inward.

    The last entry of such a list is the operator itself.
    """
    try:
        entries = ast.literal_eval(text[:_LONGEST])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    parts = cast("list[Any]", entries) if isinstance(entries, list) else []
    return str(parts[-2]) if len(parts) > 1 else ""


def _line(proto: Any, metadata: dict[str, str]) -> str:
    trace = metadata.get(f"{_TORCH}stack_trace", "")[:_LONGEST]
    if trace:
        return describe_lines(sources_in(trace))
    line = _DOC_LINE.search(proto.doc_string[:_LONGEST])
    return f"{line[1]}:{line[2]}" if line else ""
