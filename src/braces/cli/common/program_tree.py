"""Description of a program in `braces show`: as data and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from braces.cli.common.pass_options import plain_cost
from braces.cli.common.terminal import Style
from braces.dims import product
from braces.dtypes import ListType, Type, bytes_of
from braces.errors import ShapeError
from braces.ir.records import BLOCK, DATA, Body, Op
from braces.ir.walk import all_ops, free_names
from braces.passes.analysis.cost import Cost
from braces.passes.analysis.flops import cost
from braces.program import Program
from braces.report import count_text

Tree = dict[str, Any]


def describe(program: Program, gives: Mapping[str, str]) -> Tree:
    """Return a program as data: operator counts, data, fetches, parameters and blocks.

    Args:
        program: The program.
        gives: Default fetches: names and their variables.
    """
    main = program.definition.main
    counts = Counter(op.type for _, op in all_ops(main))
    return {
        "ops": sum(counts.values()),
        "op_counts": dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))),
        "data": {i.name: str(i.type) for i in main.vars.values() if i.kind == DATA},
        "gives": {name: str(main.vars[var].type) for name, var in gives.items()},
        "updates": len(program.updates),
        "takes": plain_cost(_cost(program, gives)),
        "parameters": [_parameter(i.name, i.type, i.kind) for i in program.persistable_infos],
        "blocks": _block("", main, None),
    }


def _cost(program: Program, gives: Mapping[str, str]) -> Cost | None:
    """Return the cost of a run; `None` if its expression is too long."""
    try:
        return cost(program, list(gives.values())).total
    except ShapeError:
        return None


def _parameter(name: str, type_: Type, kind: str) -> Tree:
    return {"name": name, "type": str(type_), "kind": kind, **sizes(type_)}


def sizes(type_: Type) -> Tree:
    """Return the numbers of elements and bytes; empty if sizes are symbolic."""
    if isinstance(type_, ListType):
        return {}
    numbers = product(type_.shape)
    return {"numbers": numbers, "bytes": bytes_of(type_)} if isinstance(numbers, int) else {}


def _block(label: str, body: Body, owner: Op | None) -> Tree:
    return {
        "block": label,
        "owner": owner.name if owner else None,
        "owner_type": owner.type if owner else None,
        "ops": len(body.ops),
        "params": {n: str(body.vars[n].type) for n in body.params if n in body.vars},
        "captures": list(free_names(body)) if owner else [],
        "blocks": [
            _block(inner_label, inner, op)
            for op in body.ops
            for inner_label, inner in op.bodies().items()
        ],
    }


# ---- text ------------------------------------------------------------------------------------


def program_lines(name: str, tree: Tree, style: Style) -> Iterator[str]:
    """Yield the text for people."""
    updates = f", {tree['updates']} updates" if tree["updates"] else ""
    yield f"{style.bold(name)}  {tree['ops']} operators{updates}"
    for data, type_ in tree["data"].items():
        yield f"  data {data}: {style.dim(type_)}"
    for fetch, type_ in tree["gives"].items():
        yield f"  fetch {fetch}: {style.dim(type_)}"
    if tree["takes"]:
        yield f"  cost {style.dim(tree['takes']['text'])}"
    yield f"  {{ {count_text(tree['blocks']['ops'], 'operator')}"
    yield from _block_lines(tree["blocks"], "    ", style)
    yield "  }"
    if tree["op_counts"]:
        yield f"  {style.dim(_op_counts_text(tree['op_counts']))}"


def _block_lines(tree: Tree, pad: str, style: Style) -> Iterator[str]:
    for block in tree["blocks"]:
        if block["owner_type"] == BLOCK and not block["blocks"]:
            yield f"{pad}{block['owner']} (block) {{ {count_text(block['ops'], 'operator')} }}"
            continue
        params = ", ".join(block["params"])
        captures = f"  captures {_first_names(block['captures'])}" if block["captures"] else ""
        owner = f"{block['owner']} ({block['owner_type']})"
        yield f"{pad}{owner} {style.bold(block['block'])}{style.dim(f' ({params})')} {{ " + (
            f"{count_text(block['ops'], 'operator')}{style.dim(captures)}"
        )
        yield from _block_lines(block, pad + "  ", style)
        yield f"{pad}}}"


def _first_names(names: Sequence[str], most: int = 12) -> str:
    omitted = len(names) - most
    return ", ".join(names[:most]) + (f", and {omitted} more" if omitted > 0 else "")


def _op_counts_text(counts: Mapping[str, int], most: int = 12) -> str:
    types = [f"{type_} {count}" for type_, count in counts.items()]
    return _first_names(types, most) + (" types" if len(types) > most else "")
