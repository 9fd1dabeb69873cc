"""An export as it is read: without writing in place, and without operators that have no rule.

aten.add_.Tensor(x, 1)           becomes aten.add.Tensor
aten.hinge_embedding_loss(x, y)  has no rule; torch itself says what it is made of
aten.lstm.input(...)             has a rule, and stays
aten.instance_norm(...)             is taken apart where it writes into what runs
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from braces.exchange.torch.graph.convert import is_torch
from braces.exchange.torch.reader import rule_of, target_of

GIVEN = ("USER_OUTPUT", "LOSS_OUTPUT")
"""What outputs of an export are that its module gives."""
OUTPUT = "output"
"""What an output is called to which no key leads."""


def prepared(exported: Any) -> Any:
    """An export in which nothing writes in place; torch takes apart what has no rule."""
    with _detached(exported.graph_module):
        whole = exported.run_decompositions({})
        nodes = list(_calls(whole.graph_module))
        unsaid = {target_of(node) for node in nodes if _writes_unsaid(node)}
        if not unsaid and all(rule_of(target_of(node)) for node in nodes):
            return whole
        kind = next(k for k in type(exported).__mro__ if k.__name__ == "ExportedProgram")
        table = sys.modules[kind.__module__].default_decompositions()
        for operator in list(table.keys()):
            name = str(operator).removeprefix("aten.")
            if rule_of(name) and name not in unsaid:
                table.pop(operator)
        return exported.run_decompositions(table)


@contextmanager
def _detached(module: Any) -> Generator[None]:
    """Say in the graphs themselves what has no gradient, for a while: `no_grad` gets lost.

    with torch.no_grad(): y = f(x)   becomes y = f(x).detach()
    """
    added = list[tuple[Any, Any]]()
    for node in [node for graph in _graphs(module) for node in graph.graph.nodes]:
        if node.op == "call_function" and target_of(node).endswith("set_grad_enabled"):
            on, inner = node.args[:2]
            if not on:
                added.extend(_detach_outputs(getattr(node.graph.owning_module, inner.target)))
    try:
        yield
    finally:
        for output, before in added:
            behind = [value for value in output.args[0] if value not in before]
            output.args = (before,)
            for node in behind:
                node.graph.erase_node(node)


def _detach_outputs(module: Any) -> list[tuple[Any, Any]]:
    """The output node of a graph, and what it gave before all of that was detached."""
    detach = sys.modules["torch"].ops.aten.detach.default
    output = next(node for node in module.graph.nodes if node.op == "output")
    before = output.args[0]
    with module.graph.inserting_before(output):
        output.args = (tuple(_behind(module.graph, detach, value) for value in before),)
    return [(output, before)]


def _behind(graph: Any, operator: Any, value: Any) -> Any:
    """An operator behind a value that is a tensor."""
    if not is_torch(value, "Node") or not is_torch(value.meta.get("val"), "Tensor"):
        return value
    made = graph.call_function(operator, (value,))
    made.meta = dict(value.meta)
    return made


def _graphs(module: Any) -> list[Any]:
    return [inner for inner in module.modules() if is_torch(inner, "GraphModule")]


def _calls(module: Any) -> Iterator[Any]:
    """The nodes of a graph that call something, and those of graphs in it."""
    for inner in _graphs(module):
        yield from (node for node in inner.graph.nodes if node.op == "call_function")


def _writes_unsaid(node: Any) -> bool:
    """Whether an operator moves running statistics, which its own signature does not say."""
    if target_of(node) != "instance_norm.default":
        return False
    return node.args[3] is not None and bool(node.args[5])


# ---- outputs ---------------------------------------------------------------------------------


def output_names(exported: Any) -> list[str]:
    """What outputs of a module are called: the keys that lead to them, where there are any.

    {"logits": x, "states": (h, c)}  logits, states.0, states.1
    x, (h, c)                        output, output_1, output_2
    """
    specs = exported.graph_signature.output_specs
    own = [at for at, spec in enumerate(specs) if spec.kind.name in GIVEN]
    names, paths = [""] * len(specs), dict[int, str]()
    tree = exported.call_spec.out_spec
    if tree is not None and tree.num_leaves == len(own):
        paths = dict(_paths(tree.unflatten(list(map(_Leaf, own))), ""))
    for count, at in enumerate(own):
        path, counted = paths.get(at, ""), f"{OUTPUT}_{count}" if count else OUTPUT
        names[at] = path if path and not path[0].isdigit() else counted
    return names


class _Leaf(int):
    """The place of an output, in a structure as the module gives it."""


def _paths(value: Any, path: str) -> Iterator[tuple[int, str]]:
    """The leaves of a structure, each with the keys that lead to it."""
    if isinstance(value, _Leaf):
        yield int(value), path
    for key, part in _parts(value):
        yield from _paths(part, f"{path}.{key}" if path else str(key))


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return iter(cast("Mapping[Any, Any]", value).items())
    if hasattr(value, "_asdict"):
        return _parts(value._asdict())
    if isinstance(value, list | tuple):
        return enumerate(cast("Sequence[Any]", value))
    held = {} if isinstance(value, int | str) else getattr(value, "__dict__", {})
    return iter(cast("Mapping[str, Any]", held).items())
