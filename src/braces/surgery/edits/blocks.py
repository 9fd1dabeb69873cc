"""Blocks: operators wrapped in a plain block, plain blocks inlined, and new contents of blocks.

q: f32[n,8] = matmul(x=x, y=w)          y: f32[n,8] = block() as layer
y: f32[n,8] = tanh(x=q)           ->      body {
                                            q: f32[n,8] = matmul(x=x, y=w)
                                            y: f32[n,8] = tanh(x=q)
                                            return y
                                          }
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from braces.builder.builder import Builder
from braces.builder.symbol_table import SymbolTable
from braces.builder.var import Var, var_of
from braces.errors import DuplicateNameError, ProgramError
from braces.ir.lineage import Chain, Relocation
from braces.ir.names import check_name
from braces.ir.paths import BLOCK as BLOCK_KIND
from braces.ir.plain_blocks.inlining import ambiguous_in, inline_block
from braces.ir.records import BLOCK, Body, Op, ProgramDef
from braces.ir.views import BlockView
from braces.ir.views.common import outputs_of
from braces.ir.walk import free_names, map_bodies, names_bound_by, with_captures
from braces.ops.control.construct.build import close_block
from braces.passes.core.rewrite import InsertionPoint, Replacement
from braces.surgery.edits.core.address import handles_at, operators_at, paths_text
from braces.surgery.edits.core.change import EditResult
from braces.surgery.edits.core.derived import refuse_derived
from braces.surgery.edits.core.session import with_definition
from braces.surgery.edits.core.site import Builds, EditPlace
from braces.surgery.edits.core.walk import EditWalk
from braces.surgery.handles import Handle

P = TypeVar("P", bound=Builder)


def with_block(
    definition: ProgramDef, chain: Chain, change: Callable[[Body], Body]
) -> ProgramDef:
    """Return a program in which the block at a place is changed."""
    return definition.with_(main=_changed(definition.main, chain, change))


def _changed(body: Body, chain: Chain, change: Callable[[Body], Body]) -> Body:
    if not chain:
        return change(body)
    (owner, label), rest = chain[0], chain[1:]

    def inside(op: Op) -> Op:
        labels = iter(op.bodies())
        new = map_bodies(
            op, lambda b: _changed(b, rest, change) if next(labels) == label else b
        )
        return with_captures(new)

    return body.with_(ops=tuple(inside(op) if op.name == owner else op for op in body.ops))


# ---- wrapping --------------------------------------------------------------------------------


def wrap(program: P, at: Any, *, name: str, recompute: bool = False) -> EditResult[P]:
    """Move operators of one block into a plain block; see `Edits.wrap`."""
    handles = operators_at(program, at)
    label = f"wrap {paths_text(handles)}"
    if recompute:
        refuse_derived(program, handles, label, exact=False)
    place = handles[0].place
    other = next((h for h in handles if h.place is not place), None)
    if other is not None:
        raise ProgramError(
            f"`{handles[0].path}` and `{other.path}` are in different blocks.",
            at=label,
            fix="Wrap operators of one block.",
        )
    check_name(name)
    if name in place.order:
        raise DuplicateNameError(
            f"the name `{name}` of the block is that of an operator beside it.",
            at=label,
            given=f"operator `{place.path_of(name)}`",
            fix="Choose another name.",
        )
    names = {handle.name for handle in handles}
    kept = set(program.updates.values()) if not place.chain else set[str]()

    def change(body: Body) -> Body:
        return _wrapped(body, names, name, kept, recompute, label)

    bound = names_bound_by(op for op in place.body.ops if op.name in names)
    inner = (*place.chain, (name, "body"))
    move = Relocation(place.chain, inner, _same(names), _same(bound))
    changed = with_block(program.definition, place.chain, change)
    return EditResult(with_definition(program, changed.with_move(move)), label)


def _same(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}


def _wrapped(
    body: Body, names: set[str], name: str, kept: set[str], recompute: bool, label: str
) -> Body:
    """Return a block in which some operators are in a plain block."""
    before, inside, after = _sorted(body.ops, names, label)
    bound = names_bound_by(inside)
    read = {n for op in after for n in op.reads()} | {*body.results} | kept
    outputs = [n for op in inside for n in op.binds() if n in read]
    infos = {n: info for n, info in body.vars.items() if n in bound}
    content = Body((), tuple(outputs), infos, tuple(inside))
    source = next((op.source for op in inside if op.source), None)
    view = BlockView(
        recompute,
        contents=(content,),
        outputs=outputs_of(outputs, [outputs]),
        origin=Op(BLOCK, name, {}, {}, source=source),
    )
    others = {n: info for n, info in body.vars.items() if n not in bound or n in read}
    return body.with_(ops=(*before, view.to_op(), *after), vars=others)


def _sorted(
    ops: Sequence[Op], names: set[str], label: str
) -> tuple[list[Op], list[Op], list[Op]]:
    """Return the operators before a block, in it and after it.

    Raises:
        ProgramError: If an operator in between needs some of them and is needed by others.
    """
    before, inside, after = list[Op](), list[Op](), list[Op]()
    late, first = dict[str, Op](), dict[str, str]()
    for op in ops:
        if op.name in names:
            way = next((late[n] for n in op.reads() if n in late), None)
            if way is not None:
                raise ProgramError(
                    f"`{op.name}` depends on `{way.name}`, which depends on "
                    f"`{first[way.name]}` and is not selected.",
                    at=label,
                    fix=f"Select `{way.name}` too, or fewer operators.",
                )
            inside.append(op)
            continue
        bound = names_bound_by(inside)
        cause = next((n for n in op.reads() if n in bound or n in late), None)
        if len(inside) == len(names) or cause is not None:
            after.append(op)
        else:
            before.append(op)
        if cause is None:
            continue
        late |= dict.fromkeys(op.binds(), op)
        maker = next((o.name for o in inside if cause in o.binds()), "")
        first[op.name] = maker or first[late[cause].name]
    return before, inside, after


# ---- inlining --------------------------------------------------------------------------------


def inline(program: P, at: Any) -> EditResult[P]:
    """Replace plain blocks by the operators in them; see `Edits.inline`."""
    handles = [_owner(handle) for handle in handles_at(program, at)]
    label = f"inline {paths_text(handles)}"
    for handle in handles:
        if handle.type != BLOCK:
            raise ProgramError(
                f"expected a plain block, got `{handle.path}` ({handle.type}).",
                at=label,
                fix="Only blocks of br.block can be inlined.",
            )
    wanted = dict.fromkeys((handle.chain, handle.name) for handle in handles)

    def action(op: Op, point: InsertionPoint) -> Replacement:
        ambiguous = ambiguous_in(point.body, lambda other: other.name == op.name)
        return inline_block(op, ambiguous, point.table.names.unique)

    new = EditWalk(label, dict.fromkeys(wanted, action)).apply(program)
    return EditResult(new, label)


def _owner(handle: Handle) -> Handle:
    maker = handle.maker
    return handle if maker is None else maker


# ---- new contents ----------------------------------------------------------------------------


def replace_block(
    program: P, at: Any, function: Any, *, retype: bool = False, exact: bool = False
) -> EditResult[P]:
    """Replace the content of a block by that of a function; see `Edits.replace_block`."""
    handles = [_block(handle) for handle in handles_at(program, at)]
    label = f"replace_block {paths_text(handles)}"
    owners = {handle: maker for handle in handles if (maker := handle.maker) is not None}
    refuse_derived(program, owners.values(), label, exact)
    builds = Builds(function, label, retype)
    labels: dict[tuple[Chain, str], list[Handle]] = {}
    for handle, owner in owners.items():
        labels.setdefault((owner.chain, owner.name), []).append(handle)

    def action(op: Op, point: InsertionPoint) -> Op:
        blocks = labels[point.chain, op.name]
        for handle in blocks:
            op = _with_content(op, handle, point, builds)
        return walk.complete_rows(op, point)

    walk = EditWalk(label, dict.fromkeys(labels, action))
    return EditResult(walk.apply(program), label, operators=list(labels) if retype else ())


def _block(handle: Handle) -> Handle:
    """Return a block; for an operator with one block, that one.

    Raises:
        ProgramError: If there are none or several.
    """
    if handle.kind == BLOCK_KIND:
        return handle
    if len(handle.blocks) == 1:
        return handle.blocks[0]
    paths = ", ".join(f"`{block.path}`" for block in handle.blocks)
    raise ProgramError(
        f"expected a block, got `{handle.path}` ({handle.type}).",
        given=f"its blocks: {paths}" if paths else None,
        fix="Pass the path of a block, as `loop_0/body`.",
    )


def _with_content(op: Op, handle: Handle, point: InsertionPoint, builds: Builds) -> Op:
    """Return an operator with the new content of one of its blocks."""
    old = op.bodies()[handle.name]
    with point.building():
        body = _new_content(op, handle, old, point, builds)
    labels = iter(op.bodies())
    return with_captures(
        map_bodies(op, lambda content: body if next(labels) == handle.name else content)
    )


def _new_content(
    op: Op, handle: Handle, old: Body, point: InsertionPoint, builds: Builds
) -> Body:
    program, outer = point.program, point.table
    table = outer.within(op)
    table.params = list(old.params)
    table.vars = {name: old.vars[name] for name in old.params}
    results = list[Var]()
    with program.building(table):
        params = [var_of(program, table, name) for name in old.params]
        variables = params or _inputs(old, point)
        place = EditPlace(point, handle.path)
        results = builds.results(variables, len(old.results), place)
        types = [(name, _type(name, old, outer)) for name in old.results]
        builds.check_types(types, results)
    return close_block(table, lambda: results)


def _type(name: str, old: Body, outer: SymbolTable) -> Any:
    info = old.vars.get(name) or outer.get_var(name)
    return info.type.map_sizes(outer.unifier.resolve)


def _inputs(old: Body, point: InsertionPoint) -> list[Var]:
    """Return the values that a block without parameters reads from outside."""
    variables = [point.var(name) for name in free_names(old)]
    return [var for var in variables if not var.persistable]
