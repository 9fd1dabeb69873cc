"""`br.compare_values`: the first operator whose value differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import braces as br
from tests.surgery.programs import swapped
from tests.surgery.test_cut import FEED, model

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy
X = np.random.default_rng(1).normal(size=(3, 4)).astype("float32")


def scopes(prog: br.Program) -> tuple[br.Scope, br.Scope]:
    scope = br.Executor(mode="interpret").init(prog)
    return scope, scope


def test_equal_runs_are_falsy_and_scopes_do_not_change() -> None:
    prog = model(train=True)
    pair = scopes(prog)
    before = {name: pair[0].var(name).value for name in prog.updates}
    found = br.compare_values(prog, br.parse(str(prog)), pair, FEED)
    assert not found
    assert found.first is None
    assert found.matched == found.computed > 100
    assert "results agree" in str(found)
    for name, value in before.items():
        np.testing.assert_array_equal(pair[0].var(name).value, value)


@pytest.mark.parametrize("train", [False, True])
def test_an_operator_in_a_loop_is_found_with_its_first_iteration(train: bool) -> None:
    prog = model(train)
    found = br.compare_values(prog, swapped(prog, "tanh", "sin"), scopes(prog), FEED)
    assert found
    assert found.first is not None
    assert found.other is not None
    assert found.first.type == "tanh"
    assert found.first.path.endswith("act")
    assert found.first.iteration == (0,)
    assert found.other.type == "sin"
    assert "loss" in [result.name for result in found.results]
    assert ", iteration 0, built at" in str(found.first)


def test_an_operator_in_a_row_wise_branch_is_found() -> None:
    prog = model(train=True)
    found = br.compare_values(prog, swapped(prog, "sigmoid", "exp"), scopes(prog), FEED)
    assert found.first is not None
    assert (found.first.type, found.first.iteration) == ("sigmoid", ())
    assert "/cases[" in found.first.path
    assert found.first.path.endswith("gate")


def nested(scale: float, dozen: int = 12) -> br.Program:
    """A while in an RNN, whose trips depend on data."""
    with br.Program() as prog:
        x, rnn = br.data("x", ["t", 4]), br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            loop = br.create_while()
            with loop.block() as body:
                i = body.add_memory(init=br.constant(0, dtype="int32"))
                z = body.add_memory(init=row)
                body.set_condition(i < 3)
                z.update(br.where(i == 1, br.multiply(z, scale, name="half"), z * 0.25))
                i.update(i + 1)
            net.add_output(loop.final(z))
        count = br.constant(dozen, dtype="int32")
        y = br.add(rnn(), br.cast(count + 1, "float32"), name="y")
        prog.give(y.name)
        prog.give(br.cast(br.constant(23 - dozen, dtype="int32") + 1, "float32").name)
    return prog


def test_nested_loops_give_one_iteration_for_each_loop() -> None:
    found = br.compare_values(nested(0.5), nested(0.7), feed={"x": X})
    assert found.first is not None
    assert len(found.first.iteration) == 2
    assert found.first.iteration[0] == 0
    assert not br.compare_values(nested(0.5), nested(0.5), feed={"x": X})
    assert not br.compare_values(nested(0.5), nested(0.5), {"x": X})


def test_a_small_integer_that_matches_by_accident_is_no_match() -> None:
    """The other run has 12 and 13 as well, but not at these places."""
    found = br.compare_values(nested(0.5, 12), nested(0.5, 11), feed={"x": X})
    assert len(found.results) == 2
    assert found.first is not None
    (value,) = found.first.values.values()
    assert (found.first.path, value.shape) != ("y", (3, 4))
    assert value.item() == 12


def test_names_need_not_be_in_common_and_fused_operators_are_no_difference() -> None:
    a = br.parse("""program { data x: f32[n,4]  e: f32[n,4] = exp(x=x)
      s: f32[n,1] = sum(x=e) {axis=-1, keepdims=true}  p: f32[n,4] = divide(x=e, y=s)
      y: f32[n,4] = tanh(x=p)  return y }""")
    b = br.parse("""program { data x: f32[n,4]  q: f32[n,4] = softmax(x=x) {axis=-1}
      z: f32[n,4] = tanh(x=q)  return z }""")
    same = br.compare_values(a, b, feed={"x": X})
    assert not same
    assert same.matched < same.computed
    found = br.compare_values(a, swapped(b, "tanh", "sin"), feed={"x": X})
    assert found.first is not None
    assert (found.first.path, found.first.type) == ("y", "tanh")


def test_tolerances_are_those_of_the_caller() -> None:
    a = br.parse("program { data x: f32[n,4]  y: f32[n,4] = tanh(x=x)  return y }")
    with br.Program() as b:
        b.give(br.multiply(br.tanh(br.data("x", ["n", 4])), 1.001, name="y").name)
    assert br.compare_values(a, b, feed={"x": X})
    assert not br.compare_values(a, b, feed={"x": X}, rtol=1e-2)
    (result,) = br.compare_values(a, b, feed={"x": X}).results
    assert 1e-5 < result.error < 2e-3


def test_numbers_of_ended_batch_elements_are_no_difference() -> None:
    """The two feeds differ in the padding only, and so do the values of ended elements."""
    prog = model(train=True)
    ended = np.arange(6)[None, :] >= FEED["lens"][:, None]
    padded = {**FEED, "x": np.where(ended[..., None], np.float32("nan"), FEED["x"])}
    pair = scopes(prog)
    same = br.compare_values(prog, prog, pair, (FEED, padded))
    assert not same
    inner = [name for name in ("act", "cell") if name in str(prog)]
    assert inner
    assert same.matched > 0.9 * same.computed
    for swap in (("tanh", "sin"), ("sigmoid", "exp")):
        found = br.compare_values(prog, swapped(prog, *swap), pair, (FEED, padded))
        assert found.first is not None
        assert found.first.type == swap[0]
        assert all(np.isfinite(value).all() for value in found.first.values.values())


def test_differing_inputs_and_results_of_one_run_only_are_named() -> None:
    a = br.parse("""program { data x: f32[n,4]  y: f32[n,4] = tanh(x=x)  z: f32[n,4] = exp(x=y)
      return y, z }""")
    b = br.parse("program { data x: f32[n,4]  y: f32[n,4] = tanh(x=x)  return y }")
    found = br.compare_values(a, b, feed=({"x": X}, {"x": X + 1}))
    assert (found.inputs, found.unpaired) == (("x",), ("z",))
    assert "inputs of a without an equal one in b: `x`" in str(found)
    assert "not compared, as only one run has them: `z`" in str(found)
    assert br.compare_values(a, swapped(b, "tanh", "sin"), feed={"x": X}).inputs == ()


def test_training_steps_with_renamed_results_compare_them_by_position() -> None:
    def step(name: str, gain: float) -> br.Program:
        with br.Program() as prog:
            w = br.parameter("w", [4], init=0.5)
            y = br.multiply(br.data("x", ["n", 4]) * w, gain, name=name)
            prog.give(y.name)
            br.optimizer.sgd(0.0).minimize(br.mean(y))
        return prog

    assert not br.compare_values(step("y", 1.0), step("z", 1.0), feed={"x": X})
    found = br.compare_values(step("y", 1.0), step("z", 2.0), feed={"x": X})
    assert "y" in [result.name for result in found.results]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int64", "bool"])
def test_values_of_each_dtype_are_compared(dtype: str) -> None:
    def program(twice: bool) -> br.Program:
        with br.Program() as prog:
            x = br.data("x", ["n", 4], dtype)
            other = br.logical_not if dtype == "bool" else br.negative
            y = br.identity(x, name="y")
            prog.give((other(y, name="z") if twice else br.identity(y, name="z")).name)
        return prog

    for values in (X, X[:0]):
        feed = {"x": (values * 5).astype(program(True).infos["x"].type.dtype)}
        assert not br.compare_values(program(True), program(True), feed=feed)
        found = br.compare_values(program(False), program(True), feed=feed)
        assert bool(found) == bool(values.size)
    assert found.first is None


def test_values_that_are_not_finite_are_equal_on_both_sides() -> None:
    text = (
        "program { data x: f32[n,4]  y: f32[n,4] = log(x=x)  z: f32[n,4] = exp(x=y) return z }"
    )
    prog = br.parse(text)
    for value in (-1.0, 0.0, np.inf):
        feed = {"x": np.full((2, 4), value, "float32")}
        assert not br.compare_values(prog, br.parse(text), feed=feed)
    found = br.compare_values(prog, swapped(prog, "log", "sqrt"), feed={"x": X * 0})
    assert found.first is not None
    assert found.first.type == "log"


def test_saved_and_loaded_programs_and_passes_agree(tmp_path: Path) -> None:
    prog = model(train=True)
    prog.save(tmp_path / "p")
    assert not br.compare_values(prog, br.Program.load(tmp_path / "p"), scopes(prog), FEED)
    assert not br.compare_values(prog, br.passes.cse(prog), scopes(prog), FEED)


PASSES = "canonicalize cse dce fission fuse_matmuls inline licm split_concat_matmul strip_mine"


@pytest.mark.parametrize("name", PASSES.split())
def test_programs_after_passes_agree_and_differences_in_them_are_found(name: str) -> None:
    prog = model(train=True)
    changed = getattr(br.passes, name)(prog)
    assert not br.compare_values(prog, changed, scopes(prog), FEED)
    found = br.compare_values(prog, swapped(changed, "tanh", "sin"), scopes(prog), FEED)
    assert found.first is not None
    assert (found.first.type, found.first.iteration) == ("tanh", (0,))


def test_random_draws_of_one_seed_are_equal() -> None:
    prog = model(train=True, rate=0.5)
    for seed in (None, 3):
        assert not br.compare_values(prog, br.parse(str(prog)), scopes(prog), FEED, seed=seed)


# ---- other systems ---------------------------------------------------------------------------

ONNX = """<ir_version: 10, opset_import: ["" : 18]>
  net (float[N, 4] x) => (float[N, 2] y)
  <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8.5}, float[2] b = {0.5, -0.25}> {
    h = MatMul(x, w)
    g = Add(h, b)
    a = Sigmoid(g)
    s = Softmax <axis = 1> (a)
    y = Mul(s, g)
  }"""


def test_an_imported_onnx_model_is_compared_with_onnx_runtime(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(ONNX)
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    prog, values = br.from_onnx(path)
    scope = br.Scope()
    scope.update(values)
    for source in (path, str(path), proto):
        same = br.compare_values(prog, source, scope, {"x": X})
        assert not same, same
    assert not br.compare_values(prog, path, values, {"x": X})
    wrong = swapped(prog, "sigmoid", "tanh")
    found = br.compare_values(wrong, path, scope, {"x": X})
    assert found.first is not None
    assert found.other is not None
    assert (found.first.system, found.first.type) == ("Braces", "tanh")
    assert (found.other.system, found.other.path) == ("ONNX Runtime", "a")
    renamed = br.parse(str(prog).replace("data x:", "data input:").replace("x=x,", "x=input,"))
    assert not br.compare_values(renamed, path, scope, {"input": X})


def jax_model(x: Any, n: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = jnp.tanh(h * 0.5 + row)
        return h, jax.nn.silu(h)

    last, rows = jax.lax.scan(step, jnp.zeros(4), x)

    def grow(state: Any) -> Any:
        return state[0] + 1, state[1] * 1.5

    def more(state: Any) -> Any:
        return state[0] < n

    grown = jax.lax.while_loop(more, grow, (0, last))
    chosen = jax.lax.cond(jnp.sum(x) > 0, jnp.exp, jnp.sinh, grown[1])
    return chosen, rows


def test_an_imported_jax_function_is_compared_by_its_equations() -> None:
    n = np.int32(3)
    prog, values = br.from_jax(jax_model, X, n)
    scope = br.Scope()
    scope.update(values)
    feed = dict(zip(prog.feeds, (X, n), strict=True))
    same = br.compare_values(prog, jax_model, scope, feed)
    assert not same, same
    assert same.matched > 0.8 * same.computed
    found = br.compare_values(swapped(prog, "tanh", "sin"), jax_model, scope, feed)
    assert found.first is not None
    assert found.other is not None
    assert (found.first.type, found.first.iteration) == ("sin", (0,))
    assert (found.other.system, found.other.type) == ("JAX", "tanh")
    assert found.other.iteration == (0,)
    assert "test_compare.py" in found.other.source


def test_arguments_of_a_function_that_are_parameters_of_the_program() -> None:
    params = {"w": X.T.copy(), "b": np.ones(3, "float32")}

    def network(params: Any, x: Any) -> Any:
        return jax.nn.relu(x @ params["w"] + params["b"])

    prog, values = br.from_jax(network, params, X)
    scope = br.Scope()
    scope.update(values)
    assert not br.compare_values(prog, network, scope, {"x": X}, args=(params, X))
    scope.var("params.b").set(np.zeros(3, "float32"))
    found = br.compare_values(prog, network, scope, {"x": X}, args=(params, X))
    assert found
    assert found.other is not None


def test_bad_input_is_refused() -> None:
    prog = nested(0.5)
    with pytest.raises(br.ProgramError, match="expected a program, an ONNX model"):
        br.compare_values(prog, 5, feed={"x": X})
    with pytest.raises(br.ProgramError, match="expected a program for `a`"):
        br.compare_values(5, prog, feed={"x": X})  # pyright: ignore[reportArgumentType]
    with pytest.raises(br.ProgramError, match="expected a pair for `feed`, got a tuple of 3"):
        br.compare_values(prog, prog, feed=({"x": X},) * 3)
    with pytest.raises(br.ProgramError, match="expected a mapping for `feed`"):
        br.compare_values(prog, prog, feed=[X])
    with pytest.raises(br.ProgramError, match="expected a scope or a mapping"):
        br.compare_values(prog, prog, 5, {"x": X})
    with pytest.raises(br.ProgramError, match="`rtol` of at least 0, got -1"):
        br.compare_values(prog, prog, feed={"x": X}, rtol=-1)
    with pytest.raises(br.FeedError, match="unknown feeds: z"):
        br.compare_values(prog, prog, feed={"x": X, "z": X})
    ends = [
        br.parse(f"program {{ data x: f32[n,4]  {n}: f32[n,4] = tanh(x=x) {r} }}")
        for n, r in (("y", "return y"), ("z", "state s: f32[]"))
    ]
    with pytest.raises(br.ProgramError, match="no results to compare"):
        br.compare_values(*ends, feed={"x": X})
    bare = br.parse("program { data x: f32[n]  y: f32[n] = tanh(x=x) }")
    with pytest.raises(br.ProgramError, match="no results to compare"):
        br.compare_values(bare, bare, feed={"x": X[0]})
    with pytest.raises(br.FeedError, match="missing feeds: x"):
        br.compare_values(bare, jnp.tanh, feed=({"x": X[0]}, {}), fetch="y")
