"""Types inferred again after an edit: only where operands or attributes have changed.

    data x: f32[n,8]                         data x: f32[n,6]
    y: f32[n,8] = tanh(x=x)          ->      y: f32[n,6] = tanh(x=x)
    z: f32[8] = sum(x=y) {axis=[0]}          z: f32[6] = sum(x=y) {axis=[0]}

Operators that do not fit their operands any more stay as they are, with the error: a later edit
of the same transaction may change them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping

from braces.define.decorator import OPS
from braces.define.type_inference import infer_op
from braces.dims import Unifier
from braces.dtypes import Type, unifies
from braces.errors import BracesError, ProgramError
from braces.ir.limits import are_axes
from braces.ir.places import Chain
from braces.ir.records import Body, Op, ProgramDef, VarInfo
from braces.ir.walk import map_bodies, resolve_body
from braces.ops.control.core.block_op import BlockOp
from braces.passes.verifier.program import next_dim_number
from braces.surgery.edits.core.change import Address


class Inference:
    """One inference of a program.

    Attributes:
        errors: The operators that do not fit their operands, with the errors.
    """

    def __init__(self, variables: Iterable[Address], operators: Iterable[Address]) -> None:
        self.errors: dict[Address, BracesError] = {}
        self._operators = set(operators)
        self._variables: dict[Chain, set[str]] = {}
        for chain, name in variables:
            self._variables.setdefault(chain, set()).add(name)
        starts = [chain for chain, _ in self._operators] + [*self._variables]
        self._entered = {chain[:end] for chain in starts for end in range(len(chain) + 1)}
        self._unifier = Unifier()

    def run(self, definition: ProgramDef) -> ProgramDef:
        """Return the program with the types of all values that depend on the changes."""
        if not self._operators and not self._variables:
            return definition
        self._unifier.count = next_dim_number(definition.main)
        main = self._block(definition.main, (), ChainMap(), set())
        if self._unifier.known:
            main = resolve_body(main, self._unifier.resolve)
        return definition.with_(main=main)

    def _block(
        self, body: Body, chain: Chain, outer: ChainMap[str, Type], changed: set[str]
    ) -> Body:
        """Return a block with its types; `changed` are outer names and parameters."""
        types = outer.new_child({name: info.type for name, info in body.vars.items()})
        changed = changed | self._variables.get(chain, set())
        ops = tuple(self._op(op, chain, types, changed) for op in body.ops)
        infos = {
            name: info if info.type == types[name] else retyped(info, types[name])
            for name, info in body.vars.items()
        }
        return body.with_(ops=ops, vars=infos)

    def _op(self, op: Op, chain: Chain, types: ChainMap[str, Type], changed: set[str]) -> Op:
        """Return an operator with its blocks; record the types of its outputs."""
        dirty = (chain, op.name) in self._operators or not changed.isdisjoint(op.reads())
        inner = any((*chain, (op.name, label)) in self._entered for label in op.bodies())
        if not (dirty or inner) or not all(name in types for name in op.reads()):
            return op
        try:
            op = self._with_blocks(op, chain, types, changed)
            inferred = infer_op(op, types, self._unifier)
        except BracesError as error:
            error.given = error.given or _operands(op, types)
            self.errors[chain, op.name] = error
            return op
        for name, type_ in inferred.items():
            if not unifies(types[name], type_, self._unifier):
                types[name] = type_
                changed.add(name)
        return op

    def _with_blocks(
        self, op: Op, chain: Chain, types: ChainMap[str, Type], changed: set[str]
    ) -> Op:
        definition = OPS.get(op.type)
        if not isinstance(definition, BlockOp):
            return op
        operands = {slot: tuple(types[n] for n in names) for slot, names in op.inputs.items()}
        interfaces = definition.interface(op, operands)
        labels = iter(op.bodies())

        def inside(body: Body) -> Body:
            label = next(labels)
            at = (*chain, (op.name, label))
            return self._parameters(body, at, interfaces[label].params, types, changed)

        return map_bodies(op, inside)

    def _parameters(
        self,
        body: Body,
        chain: Chain,
        params: tuple[Type, ...],
        types: ChainMap[str, Type],
        changed: set[str],
    ) -> Body:
        """Return a block of an operator, for these types of its parameters."""
        if len(params) != len(body.params):
            raise ProgramError(
                f"the block `{chain[-1][1]}` has {len(body.params)} parameters; expected "
                f"{len(params)}."
            )
        infos, new = dict(body.vars), changed - body.vars.keys()
        for name, type_ in zip(body.params, params, strict=True):
            if not unifies(infos[name].type, type_, self._unifier):
                infos[name] = retyped(infos[name], type_)
                new.add(name)
        body = body.with_(vars=infos)
        if not new and chain not in self._entered:
            return body
        return self._block(body, chain, types, new)


def retyped(info: VarInfo, type_: Type) -> VarInfo:
    """Return a declaration with another type, and with the names of axes that still fit."""
    return info.with_(type=type_, axes=info.axes if are_axes(type_, info.axes) else ())


def _operands(op: Op, types: Mapping[str, Type]) -> str:
    names = dict.fromkeys(op.reads())
    return "   ".join(f"{name}: {types[name]}" for name in names if name in types)
