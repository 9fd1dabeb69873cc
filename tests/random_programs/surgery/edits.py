"""Random programs edited by random edits that leave values as they are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import braces as br
from braces.extend.programs import parse_program
from tests.random_programs.agree import EXECUTORS, read_needed
from tests.random_programs.generate import feeds_of, generate
from tests.random_programs.oracle import Refused
from tests.random_programs.surgery.steps import compare, differentiate
from tests.support.comparison import near

Editable = Any
"""A program or a transaction."""


def floats(prog: br.Program) -> list[br.Handle]:
    """Operators with one float output, in all blocks."""
    return [
        handle
        for handle in prog.find()
        if len(handle.outputs) == 1 and str(handle.outputs[0].type).startswith("f64")
    ]


def _pick(draw: random.Random, handles: Any, most: int = 3) -> Any:
    found = list(handles)
    return draw.sample(found, min(len(found), draw.randint(1, most)))


def _one(draw: random.Random, handles: Any) -> Any:
    return draw.choice(list(handles))


# ---- edits -----------------------------------------------------------------------------------


def insert_after(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Insert functions that return their operand, and sometimes remove them again."""
    function = draw.choice([
        br.identity,
        lambda v: v * 1.0,
        lambda v: br.negative(br.negative(v)),
        lambda v: br.where(v < 0.5, v, v),
        lambda v: br.cond(br.sum(v * 0.0) < 1.0, lambda: br.identity(v), lambda: v),
        _looped,
        _in_block,
    ])  # fmt: skip
    for handle in _pick(draw, floats(prog)):
        e = e.insert_after(handle, function, exact=True)
    return e


def insert_and_remove(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Insert another value, and remove it again."""
    handle = _one(draw, floats(prog))
    current = e.insert_after(handle, lambda v: br.square(v, name="squared_here"), exact=True)
    at = _program(current).find(name="*squared_here")
    return current.remove(at, by="x", exact=True)


def insert_before(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Insert identities before operators."""
    found = [h for h in floats(prog) if h.type in ("tanh", "sin", "multiply", "add", "sum")]
    for handle in _pick(draw, found):
        e = e.insert_before(handle, lambda *vs: tuple(map(br.identity, vs)), exact=True)
    return e


def replace(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Replace operators by equal ones."""
    equal: dict[str, Callable[..., Any]] = {
        "tanh": lambda x: -br.tanh(-x),
        "sin": lambda x: -br.sin(-x),
        "multiply": lambda x, y: y * x,
        "add": lambda x, y: y + x,
        "where": lambda c, x, y: br.where(~c, y, x),
    }
    for handle in _pick(draw, [h for h in prog.find() if h.type in equal]):
        e = e.replace(handle, equal[handle.type], exact=True)
    return e


def rename(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Rename operators and variables."""
    for number, handle in enumerate(_pick(draw, prog.find(where=lambda h: "/" not in h.name))):
        e = e.rename({handle: f"renamed_{number}_{draw.randint(0, 10**6)}"})
    return e


def wrap(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Wrap operators of a block that follow each other, and sometimes inline the block."""
    first = _one(draw, prog.find())
    ops = [h for h in prog.find() if h.block == first.block]
    start = ops.index(first)
    at = ops[start : start + draw.randint(1, 5)]
    name = f"wrapped_{draw.randint(0, 10**6)}"
    e = e.wrap(at, name=name, recompute=draw.random() < 0.3)
    if draw.random() < 0.5:
        e = e.inline(_program(e).find(type="block", name=f"*{name}"))
    return e


def inline(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Inline plain blocks."""
    found = prog.find(type="block")
    return e.inline(_pick(draw, found)[:1]) if found else e


def cast(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Insert round trips by way of other dtypes, and cast operators to their own."""
    handle = _one(draw, floats(prog))
    if draw.random() < 0.3:
        return e.cast(handle, "float64", exact=True)
    return e.insert_after(handle, lambda v: br.real(br.cast(v, "complex128")), exact=True)


def integers(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Insert round trips of integers by way of float64."""
    found = [h for h in prog.find() if len(h.outputs) == 1]
    found = [h for h in found if str(h.outputs[0].type).startswith(("i32", "i64"))]
    for handle in _pick(draw, found):
        e = e.insert_after(
            handle, lambda v: br.cast(br.cast(v, "float64"), v.dtype), exact=True
        )
    return e


def splice(prog: br.Program, draw: random.Random, e: Editable) -> Editable:
    """Splice a program that computes its input."""
    handle = _one(draw, floats(prog))
    type_: Any = handle.outputs[0].type
    if handle.chain or type_.shape not in ((), (3,)):
        return e
    with br.Program() as other:
        v = br.data("v", list(type_.shape), dtype="float64")
        other.give(br.identity(_looped(v), name="out").name)
    return e.splice(other, {"v": handle}, name=f"spliced_{draw.randint(0, 10**6)}",
                    outputs={"out": handle}, exact=True)  # fmt: skip


EDITS: dict[str, Callable[[br.Program, random.Random, Editable], Editable]] = {
    each.__name__: each
    for each in (
        insert_after,
        insert_and_remove,
        insert_before,
        replace,
        rename,
        wrap,
        inline,
        cast,
        integers,
        splice,
    )
}


def _looped(v: Any) -> Any:
    return br.while_loop(
        lambda c: c[0] < 2, lambda c: (c[0] + 1, br.identity(c[1])), (br.constant(0), v)
    )[1]


def _in_block(v: Any) -> Any:
    with br.block("inserted"):
        y = br.identity(v)
    return y


def _program(e: Editable) -> br.Program:
    return e if isinstance(e, br.Program) else e.program


# ---- check -----------------------------------------------------------------------------------


def check_edited(seed: int, size: int = 5, most: int = 6) -> Counter[str]:
    """Compare an edited program with the original's text; return the numbers of edits."""
    made, feeds, draw = generate(seed, size), feeds_of(seed), random.Random(seed)
    made.program.give(made.result.name)
    text, prog, done = str(made.program), made.program, Counter[str]()
    main = parse_program(text).main
    handle = prog[made.result.name]
    prog = edited(prog, draw, done, most)
    if draw.random() < 0.3:
        prog, name = _fixed(prog, feeds), "retype"
        done[name] += 1
    assert str(made.program) == text
    result = prog[handle].path
    again = br.Program(parse_program(str(prog)))
    assert str(again) == str(prog)
    try:
        _, wanted = read_needed(made, main, feeds)
    except Refused:
        return done
    parameter = next(p.name for p in again.persistables)
    given = {name: feeds[name] for name in again.feeds}
    scope = br.Scope()
    scope.update({parameter: feeds["w"]})
    near(EXECUTORS["interpret"].run(again, scope, given, result), wanted, 1e-9, "edited")
    return done


def edited(prog: br.Program, draw: random.Random, done: Counter[str], most: int) -> br.Program:
    """Edit a program, at times in a transaction; count the edits."""
    names = draw.choices(sorted(EDITS), k=draw.randint(1, most))
    done.update(names)
    if draw.random() < 0.3:
        with prog.edit() as e:
            for name in names:
                EDITS[name](e.program, draw, e)
        return e.program
    for name in names:
        prog = EDITS[name](prog, draw, prog)
    return prog


REFUSALS = (
    "and others of their derivative",
    "it cannot be built again: the part that",
    "would invalidate the user-written gradient",
)
"""Reasons to refuse edits of steps that do not take `exact=True`, as `wrap`."""


def check_edited_step(seed: int, size: int = 4, most: int = 4) -> Counter[str]:
    """Compare two runs of an edited training step with those of the original."""
    made, feeds, draw = generate(seed, size), feeds_of(seed), random.Random(seed)
    results = differentiate(made, random.Random(seed + 1))
    done, text = Counter[str](), str(made.program)
    handles = [made.program[name] for name in results]
    try:
        prog = edited(made.program, draw, done, most)
    except br.ProgramError as error:
        if not any(reason in str(error) for reason in REFUSALS):
            raise
        prog = made.program
    assert str(made.program) == text
    names = [prog[handle].path for handle in handles]
    assert str(br.Program(parse_program(str(prog)))) == str(prog)
    assert str(br.Program.from_bytes(prog.to_bytes())) == str(prog)
    compare(prog, names, made.program, results, feeds)
    return done


def _fixed(prog: br.Program, feeds: Any) -> br.Program:
    """Give the data fixed sizes."""
    t, b = feeds["x"].shape[:2]
    types = {"x": f"f64[{t},{b},3]", "m": f"f64[{b},3]", "n": f"i32[{b}]"}
    return prog.retype({name: type_ for name, type_ in types.items() if name in prog.vars})
