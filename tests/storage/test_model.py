"""Models: programs and parameters in one file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import braces as br
from braces.errors import (
    BracesError,
    FeedError,
    ProgramError,
    ShapeError,
    UninitializedError,
    UnknownNameError,
)
from braces.storage.model_files import load_model, save_model
from braces.storage.parameters import load_parameters, save_parameters
from braces.storage.tensor_file import open_tensors
from tests.storage.nets import XS, YS, Net

SRC = Path(br.__file__).resolve().parent.parent


def predicted(net: Net) -> Any:
    test = net.program.for_test()
    return net.executor.run(test, net.scope, {"x": XS}, net.logits.name)


def in_a_fresh_process(program: str, *arguments: Path | str) -> str:
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(
        command, env=env, check=True, timeout=120, stdout=subprocess.PIPE, text=True
    ).stdout


# ---- predicting ------------------------------------------------------------------------------


def test_a_model_predicts_what_the_program_did(net: Net, path: Path, mode: str) -> None:
    net.step()
    model = load_model(net.save(path), mode=mode)
    np.testing.assert_array_equal(model.run(x=XS), load_model(path, mode=mode).run({"x": XS}))
    np.testing.assert_allclose(model.run(x=XS), predicted(net), rtol=1e-6)
    assert model.feeds == ("x",)
    assert model.fetches == (net.logits.name,)


def test_a_model_is_callable_with_feeds_by_position_or_name(net: Net, path: Path) -> None:
    model = load_model(net.save(path))
    wanted = model.run(x=XS)
    for made in (model(XS), model(x=XS), model(XS, seed=3)):
        np.testing.assert_array_equal(made, wanted)


def test_a_call_with_too_many_or_repeated_feeds_is_refused(net: Net, path: Path) -> None:
    model = load_model(net.save(path))
    with pytest.raises(FeedError, match="expected at most 1 feeds by position, got 2"):
        model(XS, YS)
    with pytest.raises(FeedError, match="feed `x` is given by position and by name"):
        model(XS, x=XS)
    with pytest.raises(FeedError, match="`z`"):
        model(XS, z=XS)


def test_a_fresh_process_predicts_the_same_bits(net: Net, path: Path) -> None:
    net.step()
    here = load_model(net.save(path)).run(x=XS)
    np.save(path.with_suffix(".npy"), XS)
    program = """
import sys, numpy as np
from braces.storage.model_files import load_model
model = load_model(sys.argv[1])
assert "jax" not in sys.modules
print(model.run(x=np.load(sys.argv[2])).tobytes().hex())
"""
    there = in_a_fresh_process(program, path, path.with_suffix(".npy"))
    assert there.strip() == here.tobytes().hex()


def test_the_form_for_prediction_is_small(net: Net, path: Path) -> None:
    predict = load_model(net.save(path)).program()
    assert not predict.updates
    assert "y" not in predict.vars
    assert {info.name for info in predict.persistables} <= {"w", "u", "random_state"}
    assert len(predict.vars) < len(net.program.vars) / 2


def test_a_program_without_updates_has_no_training_form(path: Path, mode: str) -> None:
    with br.Program() as program:
        x, y = br.data("x", ["b", 3]), br.data("y", ["b", 1])
        logits = br.matmul(x, br.parameter("w", [3, 1]))
        unused = br.parameter("unused", [5])
        br.mean(logits - y) + br.sum(unused)
    scope = br.Scope()
    br.Executor().init(program, scope)
    save_model(path, program, scope, feeds=[x], fetches=logits)
    model = load_model(path, mode=mode)
    assert list(model.programs) == ["predict"]
    assert model.scope.names() == ["w"]
    np.testing.assert_allclose(model.run(x=XS), XS @ scope.var("w").value, rtol=1e-6)


def test_a_model_may_have_no_parameters(path: Path, mode: str) -> None:
    with br.Program() as program:
        x = br.data("x", ["b"], dtype="int32")
        double = x + x
    save_model(path, program, br.Scope(), ["x"], [double])
    model = load_model(path, mode=mode)
    np.testing.assert_array_equal(model.run(x=[1, 2]), [2, 4])
    assert model.scope.names() == []


def test_control_flow_is_saved(path: Path, mode: str) -> None:
    with br.Program() as program:
        s0 = br.data("s", [])
        loop = br.create_while()
        with loop.block() as body:
            s = body.add_memory(init=s0)
            body.set_condition(s < 100.0)
            s.update(s * 2.0)
        end = loop.final(s)
    save_model(path, program, br.Scope(), ["s"], [end])
    model = load_model(path, mode=mode)
    assert [float(model.run(s=s)) for s in (1.0, 3.0, 200.0)] == [128.0, 192.0, 200.0]


def test_several_fetches_come_by_name(net: Net, path: Path) -> None:
    save_model(path, net.program, net.scope, ["x"], [net.logits, net.hidden.name])
    model = load_model(path)
    results = model.run(x=XS)
    assert list(results) == list(model.fetches) == [net.logits.name, net.hidden.name]
    assert results[net.hidden.name].shape == (4, 8)


def test_fetches_may_be_given_names(net: Net, path: Path) -> None:
    fetches = {"score": net.logits, "features": net.hidden}
    save_model(path, net.program, net.scope, ["x"], fetches)
    model = load_model(path)
    assert model.fetches == ("score", "features")
    assert {n: a.shape for n, a in model.run(x=XS).items()} == {
        "score": (4, 1),
        "features": (4, 8),
    }


def test_a_dict_of_one_fetch_comes_back_as_a_dict(net: Net, path: Path, mode: str) -> None:
    want = predicted(net)
    save_model(path, net.program, net.scope, ["x"], {"best": net.logits})
    (found,) = load_model(path, mode=mode).run(x=XS).items()
    assert found[0] == "best"
    np.testing.assert_allclose(found[1], want, rtol=1e-6)
    for fetches in (net.logits, net.logits.name, [net.logits]):
        save_model(path, net.program, net.scope, ["x"], fetches)
        np.testing.assert_allclose(load_model(path, mode=mode).run(x=XS), want, rtol=1e-6)


def test_data_that_the_fetches_do_not_need_may_be_fed(net: Net, path: Path) -> None:
    save_model(path, net.program, net.scope, ["y", "x"], [net.logits])
    model = load_model(path)
    assert model.feeds == ("y", "x")
    np.testing.assert_array_equal(model.run(x=XS, y=YS), model.run(x=XS))


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        ({}, "missing feeds: `x`: f32[b,3]"),
        ({"x": XS, "z": XS}, "unknown data `z`"),
        ({"xx": XS}, "Did you mean `x`"),
        ({"x": XS.astype("c8")}, "expected real numbers, got complex64"),
        ({"x": XS[:, :2]}, "shape mismatch of the feed `x`"),
    ],
)
def test_a_wrong_feed_is_refused(
    feed: dict[str, Any], message: str, net: Net, path: Path
) -> None:
    model = load_model(net.save(path))
    with pytest.raises(FeedError) as caught:
        model.run(**feed)
    assert message in str(caught.value)


def test_an_array_without_a_name_is_refused(net: Net, path: Path) -> None:
    with pytest.raises(
        FeedError,
        match=r"(?s)expected a dict for feed, got array f\d+\[[\d,]+\]\.\n.*feed=\{'x': array",
    ):
        load_model(net.save(path)).run(XS)  # pyright: ignore[reportArgumentType]


# ---- training on -----------------------------------------------------------------------------


def test_training_goes_on_from_the_file(net: Net, path: Path) -> None:
    for _ in range(3):
        net.step()
    net.save(path, programs={"train": (net.program, ["x", "y"], {"loss": net.loss})})
    model = load_model(path)
    wanted = [net.step() for _ in range(5)]
    told = [model.run_program("train", x=XS, y=YS) for _ in range(5)]
    assert [float(one["loss"]) for one in told] == wanted
    np.testing.assert_array_equal(model.scope.var("w").value, net.scope.var("w").value)
    np.testing.assert_allclose(model.run(x=XS), predicted(net), rtol=1e-6)


def test_a_fresh_process_trains_on_to_the_same_bits(net: Net, path: Path) -> None:
    net.step()
    net.save(path)
    np.savez(path.with_suffix(".npz"), x=XS, y=YS)
    program = f"""
import sys, numpy as np
import braces as br
from braces.storage.model_files import load_model
from braces.storage.parameters import save_parameters
model = load_model(sys.argv[1])
feed = dict(np.load(sys.argv[2]))
for _ in range(3):
    loss = br.Executor().run(model.program("train"), model.scope, feed, {net.loss.name!r})
    print(float(loss).hex())
save_parameters(model.scope, sys.argv[3])
"""
    after = path.with_name("after")
    there = in_a_fresh_process(program, path, path.with_suffix(".npz"), after)
    assert there.split() == [net.step().hex() for _ in range(3)]
    save_parameters(net.scope, path)
    assert after.read_bytes() == path.read_bytes()


def test_the_training_form_is_the_program_itself(net: Net, path: Path) -> None:
    model = load_model(net.save(path))
    assert list(model.programs) == ["predict", "train", "startup"]
    assert model.program("train").to_bytes() == net.program.to_bytes()
    assert str(model.program("startup")) == str(net.program.startup)
    assert model.scope.names() == net.scope.names()


def test_a_loaded_model_can_start_afresh(net: Net, path: Path) -> None:
    first = {name: net.scope.var(name).value for name in net.scope.names()}
    net.step()
    model = load_model(net.save(path))
    br.Executor().init(model.program("train"), model.scope, seed=3)
    for name, value in first.items():
        np.testing.assert_array_equal(model.scope.var(name).value, value)
    model.run_program("startup", seed=np.uint32(4))
    assert (model.scope.var("w").value != first["w"]).any()


def test_a_loaded_model_can_be_saved_again(net: Net, path: Path) -> None:
    model = load_model(net.save(path))
    again = path.with_name("again")
    save_model(again, model.program("train"), model.scope, model.feeds, model.fetches)
    assert again.read_bytes() == path.read_bytes()


def test_more_programs_share_the_parameters(net: Net, path: Path) -> None:
    with br.Program() as norms:
        w = br.parameter("w", [3, 8])
        total = br.sum(w * w)
    model = load_model(net.save(path, programs={"norms": (norms, [], [total])}))
    assert list(model.programs) == ["predict", "train", "norms", "startup"]
    np.testing.assert_allclose(
        model.run_program("norms"), (net.scope.var("w").value ** 2).sum(), rtol=1e-6
    )
    assert "norms() -> " in repr(model)


def test_an_unknown_program_is_refused(net: Net, path: Path) -> None:
    model = load_model(net.save(path))
    for call in (model.program, model.run_program):
        with pytest.raises(UnknownNameError, match="Did you mean `train`"):
            call("trian")


@pytest.mark.parametrize("fetches", ["list", "dict"])
def test_the_training_form_gives_the_loss(fetches: str, path: Path, mode: str) -> None:
    net = Net(train=False)
    with net.program:
        br.optimizer.adam(0.1).minimize(net.loss)
    net.reset()
    given = [net.logits] if fetches == "list" else {"score": net.logits}
    save_model(path, net.program, net.scope, ["x"], given)
    model = load_model(path, mode=mode)
    got = [float(model.run_program("train", x=XS, y=YS)) for _ in range(4)]
    np.testing.assert_allclose(got, [net.step() for _ in range(4)], rtol=1e-5)
    again, given_names = path.with_name("again"), [net.logits.name]
    save_model(again, model.program("train"), net.scope, ["x"], given_names)
    assert tuple(load_model(again).entry("train").fetches) == (net.loss.name,)


# ---- samplers --------------------------------------------------------------------------------


def save_sampler(path: Path, feed: str = "x") -> None:
    with br.Program() as prog:
        x = br.data(feed, ["b"])
        out = x + br.random.normal([x.shape[0]])
    scope = br.Scope()
    br.Executor().init(prog, scope, seed=3)
    save_model(path, prog, scope, [feed], [out])


ZEROS = np.zeros(4, "f4")


def test_a_sampling_model_draws_anew_in_each_run(path: Path, mode: str) -> None:
    save_sampler(path)
    model, other = load_model(path, mode=mode), load_model(path, mode=mode)
    drawn = [model.run(x=ZEROS) for _ in range(5)]
    assert len({one.tobytes() for one in drawn}) == 5
    np.testing.assert_array_equal(drawn, [other.run(x=ZEROS) for _ in range(5)])
    assert list(model.programs) == ["predict"]


def test_a_seed_makes_a_model_repeat_itself(path: Path, mode: str) -> None:
    save_sampler(path)
    model = load_model(path, mode=mode)
    want = model.run(x=ZEROS, seed=7)
    drawn = [model.run(x=ZEROS) for _ in range(2)]
    np.testing.assert_array_equal(model.run(x=ZEROS, seed=7), want)
    np.testing.assert_array_equal(model.run({"x": ZEROS}, 7), want)
    np.testing.assert_array_equal(model.run_program("predict", x=ZEROS, seed=7), want)
    np.testing.assert_array_equal(load_model(path, mode=mode).run(x=ZEROS), drawn[0])
    assert not np.array_equal(model.run(x=ZEROS, seed=8), want)
    with pytest.raises(ProgramError, match="invalid seed="):
        model.run(x=ZEROS, seed="7")


def test_a_feed_called_seed_is_fed(path: Path, mode: str) -> None:
    save_sampler(path, "seed")
    model = load_model(path, mode=mode)
    want = model.run({"seed": ZEROS}, 7)
    np.testing.assert_array_equal(model.run({"seed": ZEROS + 1}, 7), want + 1)
    np.testing.assert_array_equal(want, load_model(path).run({"seed": ZEROS}, 7))
    assert not np.array_equal(model.run(seed=ZEROS), model.run(seed=ZEROS))


def test_threads_may_sample_from_one_model(path: Path) -> None:
    save_sampler(path)
    model, alone = load_model(path), load_model(path)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: model.run(x=ZEROS).tobytes(), range(200)))
    assert set(drawn) == {alone.run(x=ZEROS).tobytes() for _ in range(200)}


# ---- the file --------------------------------------------------------------------------------


def test_the_header_has_the_kind_of_the_file(net: Net, path: Path) -> None:
    with open_tensors(net.save(path)) as file:
        assert file.record == {
            "format": "braces.model",
            "version": 1,
            "programs": {
                "predict": {"feeds": ["x"], "fetches": {net.logits.name: net.logits.name}},
                "train": {
                    "feeds": ["x", "y"],
                    "fetches": {net.logits.name: net.logits.name},
                },
            },
        }
        assert file.read("__braces__/train").tobytes() == net.program.to_bytes()
        assert sorted(file.variables) == net.scope.names()


def test_other_libraries_read_the_parameters(net: Net, path: Path) -> None:
    found = safetensors.numpy.load_file(net.save(path))
    np.testing.assert_array_equal(found["w"], net.scope.var("w").value)


def test_parameters_are_loaded_from_a_model(net: Net, path: Path) -> None:
    scope = br.Scope()
    load_parameters(scope, net.save(path))
    assert scope.names() == net.scope.names()


def test_the_same_model_gives_the_same_bytes(net: Net, path: Path) -> None:
    first = net.save(path).read_bytes()
    assert Net().save(path).read_bytes() == first


def test_a_failed_save_leaves_the_old_model(
    net: Net, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = net.save(path).read_bytes()
    net.step()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        net.save(path)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


# ---- what cannot be saved --------------------------------------------------------------------


def test_feeds_and_fetches_are_checked(net: Net, path: Path) -> None:
    def save(feeds: Any, fetches: Any) -> Callable[[], None]:
        return lambda: save_model(path, net.program, net.scope, feeds, fetches)

    refusals: list[tuple[Callable[[], None], type[BracesError], str]] = [
        (save(["xs"], [net.logits]), UnknownNameError, "unknown data `xs`"),
        (save(["w"], [net.logits]), UnknownNameError, "unknown data `w`"),
        (save(["x"], ["logit"]), UnknownNameError, "unknown fetch `logit`"),
        (save([], [net.logits]), FeedError, "not among the feeds: `x`: f32[b,3]"),
        (save(["x"], [net.loss]), FeedError, "not among the feeds: `y`: f32[b,1]"),
        (save(["x"], []), ProgramError, "the model has no outputs"),
        (save(["x"], {}), ProgramError, "the model has no outputs"),
        (save(["x"], {"two words": net.logits}), ProgramError, "invalid name 'two words'"),
        (save(["x"], [7]), ProgramError, "expected a variable or its name as fetch, got 7"),
    ]
    for call, error, message in refusals:
        with pytest.raises(error) as caught:
            call()
        assert message in str(caught.value)
    assert not path.exists()


def test_every_parameter_needs_a_value_of_its_type(net: Net, path: Path) -> None:
    with pytest.raises(UninitializedError, match="uninitialized variable `w`"):
        save_model(path, net.program, br.Scope(), ["x"], [net.logits])
    net.scope.var("w").set(np.zeros((3, 9), np.float32))
    with pytest.raises(ShapeError, match="type mismatch of `w`"):
        net.save(path)
    assert not path.exists()


@pytest.mark.parametrize("name", ["startup", "", "two words", "../up"])
def test_some_names_are_no_programs(name: str, net: Net, path: Path) -> None:
    with pytest.raises(ProgramError):
        net.save(path, programs={name: (net.program, ["x", "y"], [net.logits])})
