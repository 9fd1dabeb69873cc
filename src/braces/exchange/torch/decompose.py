"""Decompose an export: functionalize it, and expand operators without a rule.

aten.add_.Tensor(x, 1)           becomes aten.add.Tensor
aten.hinge_embedding_loss(x, y)  has no rule; torch itself decomposes it
aten.lstm.input(...)             has a rule, and stays
aten.instance_norm(...)          is decomposed if it updates running statistics
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from braces.exchange.torch.graph.convert import is_torch
from braces.exchange.torch.reader import rule_of, target_of

RETURNED_KINDS = ("USER_OUTPUT", "LOSS_OUTPUT")
"""The kinds of export outputs that the module returns."""
OUTPUT = "output"
"""The name of an output without a key."""


def decompose(exported: Any) -> Any:
    """Functionalize an export, and decompose operators without a rule."""
    with _detaching_no_grad(exported.graph_module):
        functional = exported.run_decompositions({})
        nodes = list(_calls(functional.graph_module))
        hidden_writers = {target_of(node) for node in nodes if _has_hidden_writes(node)}
        if not hidden_writers and all(rule_of(target_of(node)) for node in nodes):
            return _passing_gradients(functional)
        export_class = next(
            k for k in type(exported).__mro__ if k.__name__ == "ExportedProgram"
        )
        table = sys.modules[export_class.__module__].default_decompositions()
        for operator in list(table.keys()):
            name = str(operator).removeprefix("aten.")
            if rule_of(name) and name not in hidden_writers:
                table.pop(operator)
        return _passing_gradients(exported.run_decompositions(table))


def _passing_gradients(functional: Any) -> Any:
    """Let the gradient pass writes into a detached table, which autograd does not see."""
    for node in _calls(functional.graph_module):
        if target_of(node) == "embedding_renorm.default":
            table = node.args[0]
            if (
                is_torch(table, "Node")
                and table.op == "call_function"
                and (target_of(table) == "detach.default")
            ):
                node.replace_input_with(table, table.args[0])
    return functional


@contextmanager
def _detaching_no_grad(module: Any) -> Generator[None]:
    """Express `no_grad` regions by explicit detaches, which survive decomposition.

        with torch.no_grad(): y = f(x)   becomes y = f(x).detach()

    The graphs are restored on exit.
    """
    detached_outputs = list[tuple[Any, Any]]()
    for node in [node for graph in _graphs(module) for node in graph.graph.nodes]:
        if node.op == "call_function" and target_of(node).endswith("set_grad_enabled"):
            on, inner = node.args[:2]
            if not on:
                detached_outputs.extend(
                    _detach_outputs(getattr(node.graph.owning_module, inner.target))
                )
    try:
        yield
    finally:
        for output, before in detached_outputs:
            appended = [value for value in output.args[0] if value not in before]
            output.args = (before,)
            for node in appended:
                node.graph.erase_node(node)


def _detach_outputs(module: Any) -> list[tuple[Any, Any]]:
    """Detach the outputs of a graph; return its output node and the original outputs."""
    detach = sys.modules["torch"].ops.aten.detach.default
    output = next(node for node in module.graph.nodes if node.op == "output")
    before = output.args[0]
    with module.graph.inserting_before(output):
        output.args = (
            tuple(_append_operator(module.graph, detach, value) for value in before),
        )
    return [(output, before)]


def _append_operator(graph: Any, operator: Any, value: Any) -> Any:
    """Append an operator to a value that is a tensor."""
    if not is_torch(value, "Node") or not is_torch(value.meta.get("val"), "Tensor"):
        return value
    applied = graph.call_function(operator, (value,))
    applied.meta = dict(value.meta)
    return applied


def _graphs(module: Any) -> list[Any]:
    return [inner for inner in module.modules() if is_torch(inner, "GraphModule")]


def _calls(module: Any) -> Iterator[Any]:
    """Yield the nodes of a graph and its subgraphs that call something."""
    for inner in _graphs(module):
        yield from (node for node in inner.graph.nodes if node.op == "call_function")


def _has_hidden_writes(node: Any) -> bool:
    """Return whether an operator updates running statistics without declaring it."""
    if target_of(node) != "instance_norm.default":
        return False
    return node.args[3] is not None and bool(node.args[5])


# ---- outputs ---------------------------------------------------------------------------------


def output_names(exported: Any) -> list[str]:
    """Return the names of module outputs: the keys that lead to them, if any.

    {"logits": x, "states": (h, c)}  logits, states.0, states.1
    x, (h, c)                        output, output_1, output_2
    """
    specs = exported.graph_signature.output_specs
    output_indices = [at for at, spec in enumerate(specs) if spec.kind.name in RETURNED_KINDS]
    names, paths = [""] * len(specs), dict[int, str]()
    tree = exported.call_spec.out_spec
    if tree is not None and tree.num_leaves == len(output_indices):
        paths = dict(_paths(tree.unflatten(list(map(_Leaf, output_indices))), ""))
    for count, at in enumerate(output_indices):
        path, default_name = paths.get(at, ""), f"{OUTPUT}_{count}" if count else OUTPUT
        names[at] = path if path and not path[0].isdigit() else default_name
    return names


class _Leaf(int):
    """The index of an output, within the output structure."""


def _paths(value: Any, path: str) -> Iterator[tuple[int, str]]:
    """Yield the leaves of a structure, each with its path of keys."""
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
    fields = {} if isinstance(value, int | str) else getattr(value, "__dict__", {})
    return iter(cast("Mapping[str, Any]", fields).items())
