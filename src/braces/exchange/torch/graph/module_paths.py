"""The modules of the nodes of an exported graph, as the scopes of blocks.

    layers.0.attention.q      ('layers_0@A', 'attention@B', 'q@C')
    layers.0, called again    ('layers_0@A@1', …)

The part after `@` is the key that PyTorch gives to a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any

from braces.extend.operators import Path, block_name

_UNKNOWN = "_empty_nn_module_stack_from_metadata_hook"
_ROOT = "_export_root"
"""The path of the exported module in the graphs of control flow."""


def paths_of(nodes: Sequence[Any]) -> dict[Any, Path]:
    """Return the names of the modules around each node, outermost first.

    A node that PyTorch inserts without a module belongs to the modules around both neighbors.
    """
    known = [_path(node) for node in nodes]
    neighbors = zip(_last_known(known), _last_known(known[::-1])[::-1], strict=True)
    return {
        node: _common(*around) if path is None else path
        for node, path, around in zip(nodes, known, neighbors, strict=True)
    }


def _last_known(paths: Sequence[Path | None]) -> list[Path]:
    """Return the last known path at each position."""
    last: Path = ()
    latest = list[Path]()
    for path in paths:
        last = last if path is None else path
        latest.append(last)
    return latest


def _path(node: Any) -> Path | None:
    """Return the modules of a node; `None` if they are unknown."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    if not stack or _UNKNOWN in stack:
        return None
    modules = [("", ""), *((call, path) for call, (path, _) in stack.items())]
    names = (
        (block_name(path.removeprefix(f"{around}.") if around else path), call)
        for (_, around), (call, path) in pairwise(modules)
        if path not in ("", _ROOT)
    )
    return tuple(f"{name}@{call}" for name, call in names if name)


def _common(left: Path, right: Path) -> Path:
    pairs = zip(left, right, strict=False)
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
