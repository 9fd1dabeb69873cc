"""Execution of a bare block: its inputs are read from a scope, like those of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from braces.builder.var import Var
from braces.dims import Unifier
from braces.dtypes import ListType, TensorType, Type
from braces.errors import UninitializedError, UnknownNameError, suggest
from braces.ir.paths import fix_by_probe
from braces.ir.records import DATA, Body, ProgramDef, VarInfo
from braces.ir.walk import resolve_body
from braces.lower.interrupt.deadline import CancellationToken
from braces.lower.xla.concrete_attributes import Sizes
from braces.passes.core.type_inference import infer_types
from braces.runtime.backend.compiled import CompiledPlan
from braces.runtime.compile.executable_cache import CompileReporter, ExecutableCache
from braces.runtime.inputs.feeds import check_shape
from braces.runtime.inputs.persistables import NO_REPLACEMENTS, Run
from braces.runtime.plan.plan import Plan
from braces.runtime.plan_cache import convert_feeds
from braces.scope import Scope


def commit_locally(values: dict[str, Any], scope: Scope) -> None:
    """Store values in variables of this scope itself."""
    for name, value in values.items():
        scope.var(name).put(value)


class BlockRunner:
    """Runs a block, and caches its compiled code.

    Args:
        body: The block.
        infos: The declarations that it sees, its own and those of outer blocks.
    """

    def __init__(self, body: Body, infos: Mapping[str, VarInfo]) -> None:
        self.body = body
        self.infos = infos
        self.bound = dict.fromkeys(name for op in body.ops for name in op.binds())
        self._prepared: dict[Any, CompiledPlan] = {}

    def run(self, scope: Scope, device: str) -> None:
        """Run all operators; the scope then holds every array that they bind."""
        known = self.body.vars
        names = [name for name in self.bound if isinstance(known[name].type, TensorType)]
        commit_locally(dict(zip(names, self._run(names, scope, device), strict=True)), scope)

    def eval(
        self, targets: Iterable[Any], scope: Scope, device: str
    ) -> list[np.ndarray[Any, Any]]:
        """Prune to the targets, run, and return their values; the scope has them too."""
        names = [target.name if isinstance(target, Var) else target for target in targets]
        known = self.body.vars
        for name in names:
            if name not in known:
                raise UnknownNameError(
                    f"unknown variable `{name}` of the block.",
                    fix=fix_by_probe(ProgramDef(self.body, {}), name) or suggest(name, known),
                )
        values = self._run(names, scope, device)
        scope.put_all(names, values)
        return [np.array(value) for value in values]

    def infer(self, scope: Scope | None) -> dict[str, Type]:
        """Infer the type of every variable again, from the values of the scope."""
        sizes = Sizes()
        for name, info in self.infos.items():
            unbound = scope is not None and name not in self.bound
            variable = scope.find_var(name) if scope is not None and unbound else None
            if variable is not None and variable.initialized:
                check_shape(info, variable.raw, sizes)
        unifier = Unifier()
        unifier.known.update(sizes)
        known = {n: info.type.map_sizes(unifier.resolve) for n, info in self.infos.items()}
        return infer_types(resolve_body(self.body, unifier.resolve), known)

    def _run(self, names: list[str], scope: Scope, device: str) -> list[Any]:
        compiled = self._plan(tuple(names), device)
        needed = (compiled.plan.data[name] for name in compiled.plan.feeds)
        feeds = convert_feeds(
            compiled.plan, {info.name: _read_value(scope, info) for info in needed}
        )
        return compiled.run(Run(scope, feeds, CancellationToken(), NO_REPLACEMENTS))

    def _plan(self, names: tuple[str, ...], device: str) -> CompiledPlan:
        """Return the plan of a run; the inputs of the block are fed from the scope."""
        if (names, device) not in self._prepared:
            inputs = {
                n: VarInfo(n, i.type, DATA)
                for n, i in self.infos.items()
                if n not in self.bound and not isinstance(i.type, ListType)
            }
            body = Body((), (), {**self.body.vars, **inputs}, self.body.ops)
            plan = Plan.of(ProgramDef(body, {}), names)
            self._prepared[names, device] = CompiledPlan(
                plan, CompiledPlan.open(device), (), ExecutableCache(), CompileReporter()
            )
        return self._prepared[names, device]


def _read_value(scope: Scope, info: VarInfo) -> Any:
    variable = scope.find_var(info.name)
    if variable is None or not variable.initialized:
        raise UninitializedError(
            f"uninitialized variable `{info.name}` in this scope.",
            given=f"{info.name}: {info.type}",
            fix=f"Set its value: scope.var({info.name!r}).set(array).",
        )
    return variable.raw
