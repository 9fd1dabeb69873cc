"""Parameters read without a gradient: refused by custom gradients, named by `minimize`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import braces as br
from braces.extend.operators import OPS
from braces.extend.programs import Op
from braces.passes.autodiff.value_sources import value_sources

Made = Callable[[br.Var], br.Var]

READS: dict[str, Made] = {
    "sign": br.sign,
    "round": br.round,
    "floor": br.floor,
    "floor_divide": lambda x: br.floor_divide(x, 0.25),
    "comparison": lambda x: br.cast(x > 0.0, "float32"),
    "where": lambda x: br.where(br.equal(x, 0.0), 1.0, br.zeros_like(x)),
    "logical": lambda x: br.cast(br.logical_not(br.isfinite(x)), "float32"),
    "argmax": lambda x: br.one_hot(br.argmax(x), 3),
    "argsort": lambda x: br.cast(br.argsort(x), "float32"),
    "cast": lambda x: br.cast(br.cast(x, "int32"), "float32"),
    "gather": lambda x: br.constant([1.0, 2.0, 3.0])[br.argsort(x)],
}
"""Functions of a vector of 3 that have no gradient."""


def in_block(read: Made, w: br.Var, v: br.Var) -> br.Var:
    with br.block("part"):
        y = v * read(w)
    return y


def in_loop(read: Made, w: br.Var, v: br.Var) -> br.Var:
    start = (br.constant(0, dtype="int32"), v)
    step = lambda c: (c[0] + 1, c[1] * read(w))  # noqa: E731
    return br.while_loop(lambda c: c[0] < 2, step, start)[1]


def in_memory(read: Made, w: br.Var, v: br.Var) -> br.Var:
    start = (br.constant(0, dtype="int32"), w, v)
    step = lambda c: (c[0] + 1, c[1], c[2] + read(c[1]))  # noqa: E731
    return br.while_loop(lambda c: c[0] < 2, step, start)[2]


def in_condition(read: Made, w: br.Var, v: br.Var) -> br.Var:
    return br.while_loop(lambda h: br.sum(h) < br.sum(read(w)), lambda h: h + 1.0, v)


def in_rnn(read: Made, w: br.Var, v: br.Var) -> br.Var:
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(br.expand_dims(w, axis=0))
        net.add_output(v + read(row))
    return br.sum(rnn(), axis=0)


def in_scan(read: Made, w: br.Var, v: br.Var) -> br.Var:
    return br.scan(lambda h, _: (h + read(w), h), v, None, length=2)[0]


def in_branch(read: Made, w: br.Var, v: br.Var) -> br.Var:
    return br.cond(br.sum(v) > 0.0, lambda x: x * read(w), lambda x: x, v)


def in_predicate(read: Made, w: br.Var, v: br.Var) -> br.Var:
    return br.cond(br.sum(read(w)) > 0.0, lambda x: x * 2.0, lambda x: x, v)


def in_rows(read: Made, w: br.Var, v: br.Var) -> br.Var:
    choice = br.create_if_else(v > 0.0)
    with choice.true_block() as rows:
        x = rows.add_input(v)
        rows.add_output(x * br.sum(read(w)))
    choice.pass_through(v)
    return choice()


def in_mask(read: Made, w: br.Var, v: br.Var) -> br.Var:
    choice = br.create_if_else(read(w) > 0.5)
    with choice.true_block() as rows:
        rows.add_output(rows.add_input(v) * 2.0)
    choice.pass_through(v)
    return choice()


def in_switch(read: Made, w: br.Var, v: br.Var) -> br.Var:
    cases = [lambda x: x, lambda x: x + read(w)]
    return br.switch(br.constant(1, dtype="int32"), cases, v)


def in_index(read: Made, w: br.Var, v: br.Var) -> br.Var:
    index = br.cast(br.sum(read(w)), "int32")
    return br.switch(index, [lambda x: x, lambda x: x * 2.0], v)


CONSTRUCTS: dict[str, Callable[[Made, br.Var, br.Var], br.Var]] = {
    "no construct": lambda read, w, v: v * read(w),
    "block": in_block,
    "loop": in_loop,
    "memory": in_memory,
    "condition": in_condition,
    "rnn": in_rnn,
    "scan": in_scan,
    "branch": in_branch,
    "predicate": in_predicate,
    "rows": in_rows,
    "mask": in_mask,
    "switch": in_switch,
    "index": in_index,
    "vmap": lambda read, w, v: br.vmap(lambda x: br.sum(x * read(w)))(v),
}

KINDS = [
    *(pytest.param("no construct", read, id=read) for read in READS),
    *(pytest.param(name, "round", id=name) for name in CONSTRUCTS if name != "no construct"),
]


@br.custom_gradient
def rounded_product(x: br.Var, y: br.Var) -> Any:
    """Rounded products, declared to have no gradient with respect to `y`."""
    return br.round(x * y), lambda grad: (grad, None)


def messages(construct: str, read: Made) -> list[str]:
    """The warnings of `minimize` for a loss of a trained `u` and a read `w`."""
    with br.Program():
        w, u = br.parameter("w", [3], init=1.0), br.parameter("u", [3], init=1.0)
        loss = br.sum(u * CONSTRUCTS[construct](read, w, br.data("v", [3])))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            br.optimizer.sgd(0.1).minimize(loss)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(("construct", "read"), KINDS)
def test_minimize_names_parameters_that_are_read_without_a_gradient(
    construct: str, read: str
) -> None:
    (text,) = messages(construct, READS[read])
    assert text.startswith("no gradient for `w`: ")


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_parameters_behind_stop_gradient_are_not_named(construct: str) -> None:
    assert messages(construct, lambda x: br.round(br.stop_gradient(x))) == []
    assert messages(construct, lambda x: br.ones_like(x) * 2.0) == []


CONTROLS = {"condition", "predicate", "mask", "index"}
"""Reads that decide which operators run; these have no gradient in any case."""


@pytest.mark.parametrize("construct", [name for name in CONSTRUCTS if name not in CONTROLS])
def test_parameters_with_another_path_are_not_named(construct: str) -> None:
    assert messages(construct, lambda x: x * br.sign(x)) == []


@pytest.mark.parametrize(("construct", "read"), KINDS)
def test_custom_gradients_refuse_captured_parameters_whatever_reads_them(
    construct: str, read: str
) -> None:
    def build(wrap: Made) -> None:
        with br.Program():
            w, v = br.parameter("w", [3], init=1.0), br.data("v", [3])

            @br.custom_gradient
            def own(x: br.Var) -> Any:
                return CONSTRUCTS[construct](lambda w: READS[read](wrap(w)), w, x), lambda g: g

            own(v)

    with pytest.raises(br.GradientError, match=r"depends on the captured value `w`"):
        build(lambda w: w)
    build(br.stop_gradient)


def test_parameters_of_no_concern_are_not_named() -> None:
    with br.Program(), warnings.catch_warnings():
        warnings.simplefilter("error")
        w, u = br.parameter("w", [3], init=1.0), br.parameter("u", [3], init=1.0)
        fixed = br.parameter("fixed", [3], init=1.0, trainable=False)
        br.sum(br.sign(w))  # read by another value than the loss
        loss = br.sum(u * u * br.sign(fixed))
        br.optimizer.sgd(0.1).minimize(loss)
    with br.Program(), warnings.catch_warnings():
        warnings.simplefilter("error")
        w, u = br.parameter("w", [3], init=1.0), br.parameter("u", [3], init=1.0)
        br.optimizer.sgd(0.1).minimize(br.sum(u * br.sign(w)), [u])  # chosen by the user


def test_inputs_declared_without_a_gradient_are_not_named() -> None:
    with br.Program(), warnings.catch_warnings():
        warnings.simplefilter("error")
        w, u = br.parameter("w", [3], init=1.0), br.parameter("u", [3], init=1.0)
        assert list(br.optimizer.sgd(0.1).minimize(br.sum(rounded_product(u, w)))) == [u]


def test_every_operator_without_a_gradient_passes_its_inputs_on() -> None:
    exempt = set[str]()
    for type_, definition in OPS.definitions.items():
        if definition.owns_blocks or definition.differentiable:
            continue
        inputs = {slot.name: (f"w_{slot.name}",) for slot in definition.inputs}
        op = Op(type_, "op", inputs, {slot.name: ("y",) for slot in definition.outputs})
        if not value_sources([op], ["y"]) >= {name for (name,) in inputs.values()}:
            exempt.add(type_)
    assert exempt == {"stop_gradient", "zeros_like", "ones_like", "full_like"}
