"""Only the views know the slots of loops and branches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from braces.extend.operators import OPS
from braces.ir.views import VIEWS
from braces.passes.cleanup.loop_invariant_code_motion import REPEATED

SRC = Path(__file__).resolve().parent.parent / "src" / "braces"
FAMILIES = SRC / "ops"
"""Operators that own no blocks; some have slots of the same names."""
CONTROL = FAMILIES / "control"
TABLE = SRC / "exchange" / "onnx" / "writer"
"""The ONNX counterpart of each operator, by its type."""
SCHEMAS = {
    CONTROL / "plain_block.py",
    CONTROL / "custom_gradient.py",
    *(CONTROL / name / "op.py" for name in ("loop", "switch", "partition")),
}
"""The modules that declare slots and infer their types."""


def names_of(types: set[str]) -> set[str]:
    """What slots and attributes of these operators are called."""
    found = (OPS.get(type_) for type_ in types)
    return {part.name for one in found for part in (*one.inputs, *one.outputs, *one.attrs)}


OURS = {n: d for n, d in OPS.definitions.items() if d.kernel.__module__.startswith("braces.")}
"""Without the operators of other tests, which may have slots of any name."""
OTHERS = {name for name, one in OURS.items() if not one.owns_blocks}
SLOTS = names_of(set(VIEWS)) - {"captures"}
OWN = SLOTS - names_of(OTHERS)


def known(path: Path) -> set[str]:
    """The names that stand for slots of constructs in a file."""
    family = FAMILIES in path.parents and CONTROL not in path.parents
    return OWN if family or TABLE in path.parents else SLOTS


def places(path: Path, text: str) -> Iterator[str]:
    """Where a slot or an attribute of a construct is looked up or filled by its name."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.Subscript(value=ast.Attribute(attr=part), slice=ast.Constant(value=name))
                | ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr=part), attr="get" | "pop"),
                    args=[ast.Constant(value=name), *_],
                )
            ) if part in {"inputs", "outputs", "attrs"} and name in known(path):
                yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"
            case ast.Dict(keys=keys) if path not in SCHEMAS:
                named = {key.value for key in keys if isinstance(key, ast.Constant)}
                if len(named & OWN) > 1:
                    yield f"{path.name}:{node.lineno}: {ast.unparse(node)}"
            case _:
                pass


def files() -> list[Path]:
    return [path for path in sorted(SRC.rglob("*.py")) if path.parent != SRC / "ir" / "views"]


def test_slots_of_constructs_are_known_to_the_views_alone() -> None:
    assert {"init", "final", "sliced", "stacked", "masks", "sums", "cond"} <= OWN
    assert [place for path in files() for place in places(path, path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    "line",
    [
        "op.inputs['init']",
        "d.op.outputs.get('final', ())",
        "self.op.attrs['cases']",
        "attrs = {'body': body, 'cond': cond}",
        "apply('partition', {'masks': masks, 'rows': rows, 'sums': 1})",
    ],
)
def test_a_planted_look_up_is_found(line: str) -> None:
    assert list(places(SRC / "passes" / "planted.py", line))


@pytest.mark.parametrize("line", ["g.outputs['out']", "view.op.attrs['index']"])
def test_slots_that_other_operators_have_too_are_left_to_them(line: str) -> None:
    assert not list(places(FAMILIES / "planted.py", line))
    assert list(places(SRC / "passes" / "planted.py", line))


def test_hoisting_says_of_every_construct_which_blocks_run_again() -> None:
    assert REPEATED.keys() == VIEWS.keys()


def untyped(path: Path) -> list[str]:
    """The parameters of a file that may be anything."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    given = [node for node in nodes if isinstance(node, ast.arg) and node.annotation]
    return [
        f"{path.name}:{node.lineno}: {node.arg}"
        for node in given
        if any(isinstance(n, ast.Name) and n.id == "Any" for n in ast.walk(node.annotation))
    ]


def test_only_values_of_jax_are_untyped_where_constructs_are_differentiated() -> None:
    passes = {SRC / "passes" / "autodiff" / f"{way}_mode.py" for way in ("reverse", "forward")}
    control = {*CONTROL.rglob("*.py")} - {CONTROL / "batch_axis" / "masking.py"}
    # Arrays of JAX are `Value` there; masks have fills, which are numbers of any dtype.
    assert [place for path in passes | control for place in untyped(path)] == []
