"""The role of an attribute or a slot follows from its definition, not from its name."""

from __future__ import annotations

import ast
import inspect
import keyword
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.define.core.signature import read_signature
from braces.errors import OpDefinitionError
from braces.extend.operators import OPS

pytestmark = [pytest.mark.unoptimized, pytest.mark.usefixtures("registry")]

SRC = Path(br.__file__).parent
OUR_WORDS = (
    *("self", "name", "context", "op", "op_type", "kernel", "wanted", "attrs", "inputs"),
    *("outputs", "out_grad", "out_tangent", "x_grad", "x_tangent", "out_grad2", "type"),
)
"""Names that our own code uses beside those of the operators."""


def role_names() -> list[str]:
    """The names of all slots and attributes that any operator has, and those of our code."""
    specs = (
        spec
        for definition in OPS.definitions.values()
        for spec in (*definition.inputs, *definition.attrs, *definition.outputs)
    )
    found = {*OUR_WORDS, *(spec.name for spec in specs)}
    return sorted(name for name in found if name.isidentifier() and not keyword.iskeyword(name))


NAMES = role_names()
WEIGHTS = [1.0 + i % 7 for i in range(len(NAMES))]


def kernel_of(
    type_: str, inputs: Iterable[str], attrs: Iterable[str], compute: Callable[..., Any]
) -> Any:
    """A kernel with these inputs and attributes."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return compute(args, kwargs)

    plain, keyword_only = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    parameters = [inspect.Parameter(n, plain, annotation="Tensor") for n in inputs]
    parameters += [inspect.Parameter(n, keyword_only, annotation="float") for n in attrs]
    kernel.__name__ = type_
    vars(kernel)["__signature__"] = inspect.Signature(parameters)
    return kernel


def weighted(values: Iterable[Any]) -> Any:
    """The mean of values, each with a weight of its own."""
    return sum(w * v for w, v in zip(WEIGHTS, values, strict=True)) / sum(WEIGHTS)


def as_attributes() -> tuple[Callable[[Any], Any], float]:
    """An operator with every name as an attribute, and the factor that it is."""
    compute = lambda args, attrs: args[0] * weighted(attrs[name] for name in NAMES)  # noqa: E731
    made = br.op(axes="... -> ...")(kernel_of("roles_attrs", ["of"], NAMES, compute))
    given = {name: 0.5 + i % 5 for i, name in enumerate(NAMES)}
    return lambda x: made(x, **given), weighted(given.values())


def as_inputs() -> tuple[Callable[[Any], Any], float]:
    """An operator with every name as an input; Python integers are floats beside floats."""
    compute = lambda args, attrs: args[0] * weighted(args[1:])  # noqa: E731
    made = br.op(axes=", ".join(["..."] * (1 + len(NAMES))) + " -> ...")(
        kernel_of("roles_inputs", ["of", *NAMES], [], compute)
    )
    given = [1 + i % 5 for i in range(len(NAMES))]
    return lambda x: made(x, *given), weighted(given)


def as_outputs() -> tuple[Callable[[Any], Any], float]:
    """An operator with every name as an output, of which a few are read."""
    compute = lambda args, attrs: tuple(args[0] * w for w in WEIGHTS)  # noqa: E731
    kernel = kernel_of("roles_outputs", ["of"], [], compute)
    made = br.op(axes="... -> " + ", ".join(["..."] * len(NAMES)), outputs=tuple(NAMES))(kernel)
    read = [NAMES.index(name) for name in ("final", "out", "rest", "stacked", "x_grad")]

    def apply(x: Any) -> Any:
        outputs = made(x)
        return sum((outputs[i] for i in read[1:]), outputs[read[0]])

    return apply, sum(WEIGHTS[i] for i in read)


MADE = {"attribute": as_attributes, "input": as_inputs, "output": as_outputs}


# ---- where it stands -------------------------------------------------------------------------


def in_rows(f: Callable[[Any], Any], x: Any) -> Any:
    choice = br.create_if_else(x[:, 0] > 0.0)
    with choice.true_block() as block:
        block.add_output(f(block.add_input(x)))
    with choice.false_block() as block:
        block.add_output(block.add_input(x) * 3.0)
    return choice()


PLACES: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "plain": lambda f, x: f(x),
    "scan": lambda f, x: br.scan(lambda c, row: (f(c) * 0.1 + row, c), x[0], x)[1],
    "while": lambda f, x: br.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1]) * 0.1), (br.constant(0), x)
    )[1],
    "rows": in_rows,
    "switch": lambda f, x: br.switch(br.constant(1), [lambda: x, lambda: f(x)]),
}
X = np.array([[0.5, -1.0, 2.0], [-0.25, 3.0, 1.0]], "float32")


def program_of(place: str, f: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """A program with an operator in this place, what it gives and the gradient."""
    with br.Program() as program:
        x = br.data("data", ["batch", 3])
        found = PLACES[place](f, x)
        (grad,) = br.gradients([br.sum(found * found)], [x])
    return program, found, grad


def run(program: Any, mode: Any, *fetches: Any) -> list[Any]:
    return br.Executor(mode=mode).run(
        program, br.Scope(), feed={"data": X}, fetch=list(fetches)
    )


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("role", MADE)
def test_a_users_operator_may_use_every_name_that_means_something_elsewhere(
    role: str, place: str, tmp_path: Path
) -> None:
    f, factor = MADE[role]()
    wanted = run(*_with_mode("interpret", program_of(place, lambda x: x * factor)))
    program, found, grad = program_of(place, f)
    br.verify(program)
    for mode in ("interpret", "compile"):
        for one in (program, br.for_test(program), br.parse(str(program))):
            got = run(one, mode, found.name, grad.name)
            for value, expected in zip(got, wanted, strict=True):
                np.testing.assert_allclose(value, expected, rtol=2e-4)
    br.save_model(tmp_path / "m", program, br.Scope(), feeds=["data"], fetches=[found])
    model = br.load_model(tmp_path / "m")
    np.testing.assert_allclose(model.run(data=X), wanted[0], rtol=2e-4)


def _with_mode(mode: str, made: tuple[Any, Any, Any]) -> tuple[Any, ...]:
    program, *fetches = made
    return program, mode, *fetches


# ---- roles that are said ---------------------------------------------------------------------


def test_a_users_operator_declares_a_training_mode() -> None:
    @br.op()
    def roles_noisy(
        x: br.Tensor, *, busy: br.Training = True, training: bool = True
    ) -> br.Tensor:
        return x * 2 if busy else x * 5 if training else x * 7

    with br.Program() as program:
        x = br.data("data", ["batch", 3])
        out = roles_noisy(x)
        (grad,) = br.gradients([out], [x])
    for mode in ("interpret", "compile"):
        np.testing.assert_array_equal(run(program, mode, out)[0], X * 2)
        value, slope = run(br.for_test(program), mode, out.name, grad.name)
        np.testing.assert_array_equal(value, X * 5)
        np.testing.assert_array_equal(slope, np.full_like(X, 5))


def test_what_is_for_training_alone_is_left_away_in_tests(mode: str) -> None:
    with br.Program() as program:
        x = br.data("data", ["batch", 3])
        out = br.in_training(x, x * 5.0)
        (grad,) = br.gradients([br.sum(out)], [x])
    for one, factor in ((program, 5), (br.for_test(program), 1)):
        value, slope = run(one, mode, out.name, grad.name)
        np.testing.assert_array_equal(value, X * factor)
        np.testing.assert_array_equal(slope, np.full_like(X, factor))
    kept = br.prune(br.for_test(program), [out])
    assert [op.type for op in kept.definition.main.ops] == ["in_training"]

    def noisy(x: br.Tensor, noise: br.Tensor | None = None) -> br.Tensor:
        return x if noise is None else noise

    with pytest.raises(OpDefinitionError, match="requires a `Training` attribute"):
        br.op(noisy, training_only=("noise",))


def test_a_users_operator_declares_its_integer_input() -> None:
    @br.op()
    def roles_picked(x: br.Tensor, at: br.Indices, ids: br.Tensor) -> br.Tensor:
        return x[:, at] * ids

    with br.Program() as program:
        out = roles_picked(br.data("data", ["batch", 3]), 2, 2)
    (picked,) = (op for op in program.definition.main.ops if op.type == "roles_picked")
    types = [str(program.definition.main.vars[name].type) for name in picked.reads()]
    assert types == ["f32[batch,3]", "i64[]", "f32[]"]
    for mode in ("interpret", "compile"):
        np.testing.assert_array_equal(run(program, mode, out)[0], X[:, 2] * 2)


def test_annotations_may_be_objects_or_text() -> None:
    def text(x: br.Indices, *, mode: br.Training = True) -> br.Tensor: ...

    def objects(x: Any, *, mode: Any = True) -> Any: ...

    objects.__annotations__ = {"x": br.Indices, "mode": br.Training}
    assert read_signature(text) == read_signature(objects)
    ((slot,), (attr,)) = read_signature(objects)
    assert (slot.index, attr.kind, attr.role) == (True, "bool", "Training")


def test_two_attributes_cannot_have_one_role() -> None:
    with pytest.raises(
        OpDefinitionError, match="duplicate role Training of `first` and `second`"
    ):

        @br.op()
        def roles_twice(x: br.Tensor, *, first: br.Training, second: br.Training) -> br.Tensor:
            return x


def test_a_written_gradient_of_an_operator_with_an_input_called_out_grad() -> None:
    @br.op()
    def roles_clash(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
        return x * out_grad

    @roles_clash.vjp
    def roles_clash_vjp(x: br.Tensor, out_grad: br.Tensor, out_grad2: br.Tensor) -> Any:
        return out_grad2 * out_grad

    with br.Program() as program:
        x = br.data("data", ["batch", 3])
        (grad,) = br.gradients([roles_clash(x, 3.0)], [x])
    for mode in ("interpret", "compile"):
        np.testing.assert_array_equal(run(program, mode, grad)[0], np.full_like(X, 3))


# ---- no code looks one up by its name --------------------------------------------------------

DEFINITIONS = (
    "ops/control/", "ir/views/", "define/axes/axis_rules.py", "ops/random/samplers.py",
    "ops/conv_pool/conv.py", "ops/conv_pool/max_pool.py", "ops/conv_pool/max_unpool.py",
    "ops/image/interpolation_weights.py", "exchange/", "jaxpr/",
)  # fmt: skip
"""Operators that own blocks and their views, rules that `axes=` names, how some draw and others
read between numbers, families that `ops/conv_pool/spatial_ranks.py` makes, and what other
systems call ours."""
BY_TYPE = {("ops/common/rules.py", "value")}
"""Attributes of an operator whose type is asked for first."""
MAPS = ("attrs", "inputs", "outputs")
"""What code calls the slots and attributes of an operator."""


def machinery() -> list[Path]:
    """The modules that define no operator: what they do, they do to all of them alike."""
    found = []
    for path in sorted(SRC.rglob("*.py")):
        at = path.relative_to(SRC).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not at.startswith(DEFINITIONS) and not any(map(_defines, ast.walk(tree))):
            found.append(path)
    return found


def _defines(node: ast.AST) -> bool:
    """Return whether a function is made an operator, or a rule of one."""
    if not isinstance(node, ast.FunctionDef):
        return False
    names = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(
        isinstance(name, ast.Name) and name.id in ("op", "transformation") for name in names
    )


def looked_up(tree: ast.AST) -> Iterator[str]:
    """The names by which slots and attributes of operators are looked up."""
    for node in ast.walk(tree):
        keys: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and _is_map(node.value):
            keys = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("get", "pop", "setdefault") and _is_map(node.func.value):
                keys = node.args[:1]
        elif isinstance(node, ast.Compare) and any(map(_is_map, node.comparators)):
            keys = [node.left]
        elif isinstance(node, ast.Compare) and _is_slot(node.left):
            keys = node.comparators
        for key in keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value


def _is_map(node: ast.expr) -> bool:
    return getattr(node, "attr", getattr(node, "id", "")) in MAPS


def _is_slot(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "slot"


def test_no_code_outside_definitions_looks_a_slot_or_attribute_up_by_its_name() -> None:
    found = {
        (path.relative_to(SRC).as_posix(), name)
        for path in machinery()
        for name in looked_up(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == BY_TYPE


def test_the_search_for_such_code_finds_it() -> None:
    code = """
if "training" in op.attrs: pass
op.attrs["capacity"]
attrs.get("history")
if slot == "final": pass
"""
    assert [name for name in looked_up(ast.parse(code))] == [
        "training", "capacity", "history", "final",
    ]  # fmt: skip
    assert len(machinery()) > 90
