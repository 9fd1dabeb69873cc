"""A bare block runs like a single operator: in a scope that holds what it reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from braces.dims import Unifier
from braces.dtypes import ListType, TensorType, Type
from braces.errors import UninitializedError, UnknownNameError, suggest
from braces.executor.attributes import Sizes
from braces.executor.compiled import CompiledPlan
from braces.executor.device import open_device
from braces.executor.feeds import check_shape, convert
from braces.executor.plan import Plan
from braces.executor.states import NONE_GIVEN, Run, commit
from braces.executor.watch import Watch
from braces.ir.block import Block
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.ir.walk import resolve_body
from braces.ops.build import Var
from braces.passes.infer import infer_types
from braces.scope import Scope


def run_block(block: Block, scope: Scope, device: str) -> None:
    """Run all operators; every array that they bind is in the scope afterwards."""
    bound = [name for op in block.ops for name in op.binds()]
    names = [name for name in bound if isinstance(block.vars[name].type, TensorType)]
    commit_locally(dict(zip(names, _run(block, names, scope, device), strict=True)), scope)


def commit_locally(values: dict[str, Any], scope: Scope) -> None:
    """Put values into variables of this scope itself."""
    for name, value in values.items():
        scope.var(name).put(value)


def eval_block(
    block: Block, targets: Iterable[Any], scope: Scope, device: str
) -> list[np.ndarray[Any, Any]]:
    """Prune to the targets, run, and return their values, which are in the scope too."""
    names = [target.name if isinstance(target, Var) else target for target in targets]
    for name in names:
        if name not in block.vars:
            raise UnknownNameError(
                f"The block has no variable `{name}`.", fix=suggest(name, block.vars)
            )
    values = _run(block, names, scope, device)
    commit(dict(zip(names, values, strict=True)), scope)
    return [np.array(value) for value in values]


def infer_block(block: Block, scope: Scope | None) -> dict[str, Type]:
    """The type of every variable, inferred anew from the values that the scope has."""
    infos, sizes = _infos(block), Sizes()
    for name, info in infos.items():
        variable = (
            scope.find_var(name) if scope is not None and not _bound(block, name) else None
        )
        if variable is not None and variable.initialized:
            check_shape(info, variable.raw, sizes)
    unifier = Unifier()
    unifier.known.update(sizes)
    known = {name: info.type.map_sizes(unifier.resolve) for name, info in infos.items()}
    return infer_types(resolve_body(block.desc, unifier.resolve), known)


def _bound(block: Block, name: str) -> bool:
    return any(name in op.binds() for op in block.ops)


def _infos(block: Block) -> dict[str, VarInfo]:
    """The declarations that a block sees, its own and those of the blocks around it."""
    outer = _infos(block.parent) if block.parent else {}
    return {**outer, **block.vars}


def _run(block: Block, names: list[str], scope: Scope, device: str) -> list[Any]:
    compiled = _prepared(block, tuple(names), device)
    infos = compiled.plan.feeds
    feeds = {n: convert(info, _read(scope, info)) for n, info in infos.items()}
    return compiled.run(Run(scope, feeds, Watch(), NONE_GIVEN))


def _prepared(block: Block, names: tuple[str, ...], device: str) -> CompiledPlan:
    """The plan of a run, kept with the block; what the block reads is fed from the scope."""
    if (names, device) not in block.prepared:
        infos = _infos(block)
        bound = {name for op in block.ops for name in op.binds()}
        read = {n: info for n, info in infos.items() if n not in bound}
        inputs = {
            n: VarInfo(n, i.type, DATA)
            for n, i in read.items()
            if not isinstance(i.type, ListType)
        }
        body = Body((), (), {**block.vars, **inputs}, block.ops)
        plan = Plan.of(ProgramDef(body, {}), names)
        block.prepared[names, device] = CompiledPlan(plan, open_device(device))
    return block.prepared[names, device]


def _read(scope: Scope, info: VarInfo) -> Any:
    variable = scope.find_var(info.name)
    if variable is None or not variable.initialized:
        raise UninitializedError(
            f"The block reads `{info.name}`, which has no value in this scope.",
            given=f"{info.name}: {info.type}",
            fix=f"Set it first: scope.var({info.name!r}).set(array).",
        )
    return variable.raw
