"""The fix that an error advises works at the place of the error."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import braces as br
from braces import Var
from braces.frontend.core.functions import FUNCTIONS


def test_the_fix_for_the_size_of_an_axis_works() -> None:
    with br.Program():
        x = br.data("x", ["n", 3])
        with pytest.raises(AttributeError, match=r"br\.size\(x\.shape\[0\]\)"):
            x.size(0)
        assert str(br.size(x.shape[0]).type) == "i64[]"


TAKE_NO_VARIABLE = sorted(
    name
    for name, function in FUNCTIONS.items()
    if not hasattr(Var, name) and not function.definition.inputs
)


@pytest.mark.parametrize("name", TAKE_NO_VARIABLE)
def test_no_function_that_takes_no_variable_is_offered_for_one(name: str) -> None:
    with br.Program():
        x = br.data("x", ["n", 3])
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        assert f"br.{name}(x)" not in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (br.conv1d, ["b", 28]),
        (br.conv2d, ["b", 28, 28]),
        (br.conv3d, ["b", 6, 6, 6]),
        (br.layers.conv_transpose2d, ["b", 28, 28]),
    ],
)
def test_a_missing_axis_of_channels_is_added_as_is_said(layer: Any, shape: list[Any]) -> None:
    with br.Program():
        x = br.data("x", shape)
        with pytest.raises(br.ShapeError, match="expand_dims") as caught:
            layer(x, 8, 3)
        said = re.findall(r"br\.expand_dims\(x, axis=\d\)", str(caught.value))
        whole = eval(said[-1], {"br": br, "x": x})
        assert layer(whole, 8, 3).ndim == len(shape) + 1


def test_an_input_of_another_number_of_axes_leads_to_the_layer_that_reads_it() -> None:
    with br.Program():
        x = br.data("x", ["b", 3, 28, 28])
        with pytest.raises(br.ShapeError, match=r"br\.conv2d"):
            br.conv1d(x, 8, 3)
        with pytest.raises(br.ShapeError, match="Use NCHW or NHWC"):
            br.conv2d(x, 8, 3, layout="CHWN")


def test_decoding_without_rows_begins_as_is_said(mode: str) -> None:
    with br.Program() as prog:
        table = br.parameter("w", [20, 20], br.init.normal())
        x = br.data("x", ["rows", 4])

        def greedy(start: Any) -> Any:
            def step(ids: Any, state: Any) -> Any:
                return br.embedding(ids, table), state

            return br.decoding.greedy(step, None, start=start, end=0, max_length=5)

        with pytest.raises(br.errors.ProgramError) as caught:
            greedy(11)
        said = re.findall(r"start=(.*?)[;.]?(?: for|\.?$)", str(caught.value), flags=re.M)
        found = [greedy(eval(one.rstrip("."), {"br": br, "x": x})).ids for one in said]
    exe = br.Executor(mode=mode)
    one, several = exe.run(prog, exe.init(prog), {"x": np.zeros((3, 4))}, found)
    assert (one.shape, several.shape) == ((1, 5), (3, 5))
    assert (several == one).all()


def test_habits_of_training_lead_to_it() -> None:
    for name in ("Trainer", "trainer"):
        with pytest.raises(AttributeError, match=r"br\.fit\(prog, data.*minimize\(loss\)"):
            getattr(br, name)
    with pytest.raises(AttributeError, match=r"br\.Executor\(layout=br\.Layout"):
        br.pmap  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_a_seed_in_place_of_the_scope_of_init_leads_to_the_keyword() -> None:
    with pytest.raises(br.ProgramError, match=r"exe\.init\(prog, scope, seed=0\)") as caught:
        br.Executor().init(br.Program(), 0)  # pyright: ignore[reportArgumentType]
    assert "int" in str(caught.value)


def test_a_schedule_outside_of_a_program_gives_numbers() -> None:
    rate = br.optimizer.cosine_decay_schedule(0.1, 100)
    assert isinstance(rate(0), float)
    assert rate(50) == pytest.approx(0.05, rel=1e-6)
    assert rate(np.int32(100)) == 0.0
    rates = rate([0, 50, 100])
    np.testing.assert_allclose(rates, [0.1, 0.05, 0.0], atol=1e-8)
    assert (type(rates), rates.dtype) == (np.ndarray, np.float32)
    assert rate(50, dtype="float64") == pytest.approx(0.05, rel=1e-12)
    with pytest.raises(br.DTypeError, match="integer"):
        rate(0.5)
    with br.Program() as prog:
        inside = rate(50)
    assert isinstance(inside, Var)
    assert br.Executor().run(prog, br.Scope(), fetch=inside) == pytest.approx(0.05, rel=1e-6)
