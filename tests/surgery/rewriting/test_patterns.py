"""Patterns of `prog.rewrite`: wildcards, attributes, types, alternatives, several outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br

erf = br.special.erf


def gelu(x: Any) -> Any:
    return x * 0.5 * (1.0 + erf(x / 2**0.5))


def types(prog: br.Program) -> list[str]:
    """The operator types of the main block that read something."""
    return [op.type for op in prog.block(0).ops if op.inputs]


def built(build: Callable[..., Any], *types: str) -> br.Program:
    """A program whose result is a function of data of these types."""
    with br.Program() as prog:
        data = [
            br.data(
                f"x{i}", list(br.dtypes.parse_type(text).shape), dtype=text.partition("[")[0]
            )
            for i, text in enumerate(types)
        ]
        prog.give(build(*data).name)
    return prog


@pytest.mark.parametrize("type_", ["f32[n,4]", "f32[]", "f64[2,n,3]", "f32[5]"])
@pytest.mark.parametrize(
    "spelled",
    [
        lambda x: x * 0.5 * (1.0 + erf(x / 2**0.5)),
        lambda x: (erf(x / 2**0.5) + 1.0) * (0.5 * x),
        lambda x: (erf(x / 1.414214) + 1.0) * (0.5 * x),
    ],
)
def test_operands_of_commutative_operators_match_in_both_orders(
    type_: str, spelled: Callable[..., Any]
) -> None:
    prog = built(spelled, type_)
    new = prog.rewrite(gelu, br.gelu)
    assert types(new) == ["gelu"]
    assert len(new.report) == 1
    assert new.fetches == prog.fetches


def test_another_tree_and_other_constants_do_not_match() -> None:
    for spelled in (
        lambda x: x * (0.5 * (1.0 + erf(x / 2**0.5))),
        lambda x: x * 0.5 * (1.0 + erf(x / 2.0)),
        lambda x: x * 0.5 * (1.0 - erf(x / 2**0.5)),
    ):
        assert len(built(spelled, "f32[n]").rewrite(gelu, br.gelu).report) == 0


def test_a_wildcard_is_one_variable_everywhere() -> None:
    prog = built(lambda x, y: x * x + x * y, "f32[n]", "f32[n]")
    new = prog.rewrite(lambda x: x * x, br.square)
    assert types(new) == ["square", "multiply", "add"]


def test_an_attribute_matches_in_any_spelling_of_its_axis() -> None:
    prog = built(lambda x: br.softmax(x, axis=2) + br.softmax(x, axis=1), "f32[n,3,4]")
    new = prog.rewrite(br.softmax, br.log_softmax)
    assert types(new) == ["log_softmax", "softmax", "add"]
    prog = built(lambda x: br.sum(x, axis=(-1, 0)), "f32[2,3,4]")
    assert len(prog.rewrite(lambda x: br.sum(x, axis=(0, 2)), _summed).report) == 1
    prog = built(lambda x: x.T, "f32[2,3]")
    assert len(prog.rewrite(lambda x: br.permute_dims(x, (1, -2)), _turned).report) == 1


def _summed(x: Any) -> Any:
    return br.sum(br.sum(x, axis=2), axis=0)


def test_keyword_only_parameters_match_any_attribute_and_reach_the_replacement() -> None:
    prog = built(lambda x: br.softmax(x, axis=1) + br.softmax(x, axis=0), "f32[3,4]")

    def before(x: Any, *, axis: int) -> Any:
        return br.softmax(x, axis=axis)

    def after(x: Any, *, axis: int) -> Any:
        e = br.exp(x - br.max(x, axis=axis, keepdims=True))
        return e / br.sum(e, axis=axis, keepdims=True)

    new = prog.rewrite(before, after)
    assert [m.path for m in new.report.matches] == ["softmax_0", "softmax_1"]
    axes = [op.attrs["axis"] for op in new.block(0).ops if op.type == "sum"]
    assert axes == [1, 0] or axes == [(1,), (0,)]
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("f")
    exe = br.Executor(mode="interpret")
    values = [exe.run(p, br.Scope(), {"x0": x}, p.fetches[0]) for p in (prog, new)]
    np.testing.assert_allclose(*values, rtol=1e-6)


def test_a_condition_reads_attribute_wildcards_and_declarations() -> None:
    prog = built(lambda x: br.softmax(x, axis=1) + br.softmax(x, axis=0), "f32[3,4]")

    def before(x: Any, *, axis: int) -> Any:
        return br.softmax(x, axis=axis)

    chosen = br.pattern(before, where=lambda m: m["axis"] == 0 and m["x"].shape == (3, 4))
    new = prog.rewrite(chosen, lambda x: br.log_softmax(x, axis=0))
    assert new.report.paths == ("softmax_1",)


def test_annotations_are_types_with_any_sizes_for_symbols() -> None:
    prog = built(lambda x, y: br.sum(br.tanh(x)) + br.sum(br.tanh(y)), "f32[n,n]", "f32[n,4]")

    def square(x: f32[k, k]) -> Any:  # noqa: F821
        return br.tanh(x)

    def wide(x: f32[k, 4]) -> Any:  # noqa: F821
        return br.tanh(x)

    def double(x: f64[...]) -> Any:  # noqa: F821
        return br.tanh(x)

    assert prog.rewrite(square, br.sin).report.paths == ("tanh_0",)
    assert prog.rewrite(wide, br.sin).report.paths == ("tanh_1",)
    report = prog.rewrite(double, br.sin).report
    assert report.paths == ()
    assert "`x` is f32[n,n], not f64[...]" in str(report)


def test_alternatives_are_tried_in_order_and_independently() -> None:
    prog = built(lambda x: br.tanh(x) * br.sigmoid(x) + br.exp(x) * br.tanh(x), "f32[n]")
    either = br.any_of(br.tanh, br.sigmoid)
    new = prog.rewrite(lambda x: either(x) * either(x), br.square)
    assert new.report.paths == ("multiply_0",)
    assert new.rewrite(br.any_of(br.exp, br.square), br.relu).report.paths == (
        "multiply_0",
        "exp_0",
    )


def test_outputs_of_several_operators_are_replaced_together() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        w, v = (br.parameter(name, [4, 3], br.init.normal()) for name in "wv")
        q, k = br.matmul(x, w, name="q"), br.matmul(x, v, name="k")
        prog.give(br.concat([k, q], axis=1, name="out").name)

    def pair(x: Any, w: Any, v: Any) -> Any:
        return x @ w, x @ v

    def one(x: Any, w: Any, v: Any) -> Any:
        y = x @ br.concat([w, v], axis=1)
        return y[:, :3], y[:, 3:]

    new = prog.rewrite(pair, one)
    assert new.report.paths == ("k",)
    assert types(new).count("matmul") == 1
    exe = br.Executor(mode="interpret")
    scope, feed = exe.init(prog, br.Scope(), seed=0), {"x": np.ones((2, 4), "f")}
    old, fresh = (exe.run(p, scope, feed, ["q", "k", "out"]) for p in (prog, new))
    for a, b in zip(old, fresh, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_an_output_may_be_an_inner_value_of_another() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        p = br.softmax(x, name="p")
        y = br.log(p, name="y")
        prog.give(br.sum(p * y, name="out").name)

    def both(x: Any) -> Any:
        p = br.softmax(x)
        return p, br.log(p)

    def stable(x: Any) -> Any:
        y = br.log_softmax(x)
        return br.exp(y), y

    new = prog.rewrite(both, stable)
    assert types(new) == ["log_softmax", "exp", "multiply", "sum"]
    assert [op.name for op in new.block(0).ops] == ["y", "p", "multiply_0", "out"]


def test_an_output_that_is_read_before_the_last_operator_is_refused_by_name() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        p = br.tanh(x, name="p")
        q = br.exp(p, name="between")
        prog.give((br.sin(x, name="s") + q).name)
    report = prog.rewrite(lambda x: (br.tanh(x), br.sin(x)), lambda x: (br.sin(x), x)).report
    assert report.paths == ()
    assert "`p` is read by `between` before `s`" in str(report)


def test_several_outputs_of_one_operator() -> None:
    prog = built(lambda x: br.sum(br.topk(x, 2)[0]), "f32[n,4]")
    new = prog.rewrite(lambda x: br.topk(x, 2), lambda x: br.topk(x * 1.0, 2))
    assert types(new) == ["multiply", "topk", "sum"]
    values = prog.rewrite(lambda x: br.topk(x, 2)[0], lambda x: br.sort(x)[:, :2])
    assert "topk" not in types(values)
    both = built(lambda x: br.topk(x, 2)[0] + br.cast(br.topk(x, 2)[1], "float32"), "f32[n,4]")
    assert len(both.rewrite(lambda x: br.topk(x, 2), lambda x: br.topk(x, 2)).report) == 2


def test_an_output_beside_the_pattern_is_refused_by_name() -> None:
    def uses(x: Any) -> Any:
        values, where = br.topk(x, 2)
        return values + br.cast(where, "float32")

    report = (
        built(uses, "f32[n,4]")
        .rewrite(lambda x: br.topk(x, 2)[0], lambda x: br.sort(x)[:, :2])
        .report
    )
    assert report.paths == ()
    assert "is read, too, and is no output of the pattern" in str(report)


def test_layers_in_patterns_match_any_parameters() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        y = br.fc(br.fc(x, 3, name="a"), 4, name="b")
        prog.give((x @ br.data("w", [4, 4]) + y).name)
    new = prog.rewrite(lambda x: br.fc(x, 4), lambda x: br.relu(br.fc(x, 4, name="c")))
    assert new.report.paths == ("b",)
    assert {"c.w", "c.b"} <= {var.name for var in new.parameters}


def test_inner_values_that_are_read_elsewhere_stay() -> None:
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        h = br.exp(x, name="h")
        prog.give((br.tanh(h, name="y") + h).name)
    new = prog.rewrite(lambda x: br.tanh(br.exp(x)), br.sin)
    assert types(new) == ["exp", "sin", "add"]


def test_matches_back_to_back_and_chains() -> None:
    prog = built(lambda x: br.tanh(br.tanh(br.tanh(x))), "f32[n]")
    assert types(prog.rewrite(br.tanh, lambda x: br.tanh(br.sin(x)))) == ["sin", "tanh"] * 3
    assert types(prog.rewrite(lambda x: br.tanh(br.tanh(x)), br.sin)) in (
        ["tanh", "sin"],
        ["sin", "tanh"],
    )


def test_reports_show_the_best_near_misses_with_reasons() -> None:
    def spelled(x: Any) -> Any:
        return x * 0.25 * (1.0 + erf(x / 2**0.5)) + x * 0.5 * (1.0 + erf(x / 2**0.5))

    report = built(spelled, "f32[n]").rewrite(gelu, br.gelu).report
    assert len(report) == 1
    (miss,) = report.near
    assert "0.25, not 0.5" in miss.reason
    assert miss.agreed >= 2
    text = str(report)
    assert text.startswith("1 match of gelu\n")
    assert "near misses\n" in text
    assert "test_patterns.py:" in text


def test_a_rule_gets_an_operator_and_its_place() -> None:
    prog = built(lambda x: br.tanh(br.exp(x)), "f32[n]")

    def rule(op: Any, place: Any) -> Any:
        if op.type != "exp":
            return op
        with place.building():
            return br.exp(place.var(op.inputs["x"][0]) * 2.0)

    new = prog.rewrite(rule)
    assert [op.name for op in new.block(0).ops][-2:] == ["exp_0", "tanh_0"]
    assert new.report.paths == ("exp_0",)
    assert str(br.parse(str(new))) == str(new)


def test_a_rule_may_merge_names_or_remove_operators() -> None:
    prog = built(lambda x: br.tanh(br.identity(x)), "f32[n]")

    def rule(op: Any, place: Any) -> Any:
        return {op.outputs["out"][0]: op.inputs["x"][0]} if op.type == "identity" else op

    assert types(prog.rewrite(rule)) == ["tanh"]


@pytest.mark.parametrize("count", [3, 6])
def test_sums_of_many_terms_need_no_time_of_their_factorial(count: int) -> None:
    def terms(*xs: Any) -> Any:
        total = br.sin(xs[0])
        for x in xs[1:]:
            total = br.tanh(x) + total
        return total

    prog = built(lambda *xs: terms(*xs), *["f32[n]"] * 6)
    names = [f"x{i}" for i in range(count)]
    code = f"lambda {', '.join(names)}: terms({', '.join(names)})"
    pattern = eval(code, {"terms": terms})
    assert prog.rewrite(pattern, lambda *xs: xs[0]).report.paths != ()


def _turned(x: Any) -> Any:
    return br.swapaxes(x, 0, 1)


def test_a_pattern_of_a_convolution_needs_no_annotations_and_passes_all_attributes_on() -> None:
    prog = built(
        lambda x, w: br.conv2d(x, w, bias=False, stride=2), "f32[n,3,8,8]", "f32[4,3,3,3]"
    )
    biased = built(
        lambda x, w, b: br.conv2d(x, w, bias=b, padding=1),
        "f32[n,3,8,8]",
        "f32[4,3,3,3]",
        "f32[4]",
    )

    def plain(x: Any, w: Any, *, stride: Any, padding: Any, groups: Any) -> Any:
        return br.conv2d(x, w, bias=False, stride=stride, padding=padding, groups=groups)

    def with_bias(x: Any, w: Any, b: Any, *, stride: Any, padding: Any, groups: Any) -> Any:
        return br.conv2d(x, w, bias=b, stride=stride, padding=padding, groups=groups)

    def doubled(x: Any, w: Any, *bias: Any, **attributes: Any) -> Any:
        assert set(attributes) == {"stride", "padding", "groups"}
        return br.conv2d(x, 2.0 * w, bias=bias[0] if bias else False, **attributes)

    assert types(prog.rewrite(plain, doubled)) == ["multiply", "conv2d"]
    assert types(biased.rewrite(with_bias, doubled)) == ["multiply", "conv2d"]
    assert len(biased.rewrite(plain, doubled).report) == 0


def test_sizes_of_kernels_may_be_symbols_in_annotations() -> None:
    def conv(x: Any, w: Any) -> Any:
        return br.conv2d(x, w, bias=False)

    def pooled(x: Any, w: Any) -> Any:
        return br.max_pool2d(br.conv2d(x, w, bias=False), 2)

    prog = built(
        lambda x, w, v: br.max_pool2d(br.conv2d(br.conv2d(x, w, bias=False), v, bias=False), 2),
        "f32[n,3,12,12]",
        "f32[4,3,3,3]",
        "f32[4,4,1,3]",
    )
    for pattern, count in ((conv, 2), (pooled, 1)):
        pattern.__annotations__ = {"x": "f32[n,i,h,w]", "w": "f32[o,i,kh,kw]"}
        assert len(prog.rewrite(pattern, lambda x, w, p=pattern: p(x, w * 2.0)).report) == count
    conv.__annotations__ = {"x": "f32[n,i,h,w]", "w": "f32[o,i,k,k]"}
    report = prog.rewrite(conv, lambda x, w: conv(x, w * 2.0)).report
    assert len(report) == 1
    assert "not f32[o,i,k,k]" in report.near[0].reason
