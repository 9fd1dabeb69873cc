"""Draws called in the order of NumPy, PyTorch and JAX say the call of Braces, which runs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import braces as br

KEY = np.array([0, 42], np.uint32)
CALLS = {
    "br.random.randint(0, 4, [n])": "br.random.randint([3], 0, 4)",
    "br.random.randint(0, 4)": "br.random.randint([], 0, 4)",
    "br.random.randint(10, (3,))": "br.random.randint((3,), 0, 10)",
    "br.random.randint(1, 7, 5)": "br.random.randint(5, 1, 7)",
    "br.random.randint(0, 4, size=[n])": "br.random.randint([3], 0, 4)",
    "br.random.randint(key, (3,), 0, 4)": "br.random.randint((3,), 0, 4)",
    "br.random.uniform(0., 1., [3])": "br.random.uniform([3], 0.0, 1.0)",
    "br.random.uniform(0, 1, [3])": "br.random.uniform([3], 0, 1)",
    "br.random.uniform(-1, 1, 5)": "br.random.uniform(5, -1, 1)",
    "br.random.uniform(key, (3,))": "br.random.uniform((3,))",
    "br.random.normal(0, 1, (3,))": "br.random.normal((3,), 0, 1)",
    "br.random.normal(0, 1, 100)": "br.random.normal(100, 0, 1)",
    "br.random.normal(5, 1, (3, 2))": "br.random.normal((3, 2), 5, 1)",
    "br.random.normal(0., 1., size=(3,))": "br.random.normal((3,), 0.0, 1.0)",
    "br.random.normal(0., 1., shape=(3,))": "br.random.normal((3,), 0.0, 1.0)",
    "br.random.normal(np.float32(0), 1, (3,))": "br.random.normal((3,), ",
    "br.random.normal(key, (3,))": "br.random.normal((3,))",
    "br.random.normal(jax_key, (3,))": "br.random.normal((3,))",
    "br.random.normal(x)": "br.random.normal(loc=x)",
    "br.random.bernoulli(0.5, [3])": "br.random.bernoulli([3], 0.5)",
    "br.random.bernoulli(key, 0.5, (3,))": "br.random.bernoulli((3,), 0.5)",
    "br.random.bernoulli(x)": "br.random.bernoulli(probs=x)",
    "br.random.exponential(2.0)": "br.random.exponential(scale=2.0)",
    "br.random.gamma(1.0, 2.0, (3,))": "br.random.gamma((3,), 1.0, 2.0)",
    "br.random.gumbel(key, (3,))": "br.random.gumbel((3,))",
    "br.random.poisson(2.0, (3,))": "br.random.poisson((3,), 2.0)",
    "br.random.categorical(key, x)": "br.random.categorical(x)",
    "br.random.permutation(key, x)": "br.random.permutation(x)",
    "br.random.choice(key, 5, (3,))": "br.random.choice(5, (3,))",
}


class TypedKey:
    """As a key of JAX: an array without axes whose dtype is `key<fry>`."""

    dtype, shape = "key<fry>", ()


@pytest.mark.parametrize("written", CALLS)
def test_another_order_says_the_call_of_braces(written: str) -> None:
    with br.Program() as prog:
        names: dict[str, Any] = {"br": br, "np": np, "n": 3, "key": KEY}
        names |= {"x": br.data("x", [4]), "jax_key": TypedKey()}
        with pytest.raises(br.ProgramError) as refused:
            eval(written, names)
        message = str(refused.value)
        call, function = CALLS[written], written.partition("(")[0]
        assert call in message
        assert "test_argument_order.py" in message or "<string>" in message
        assert f"Call {function}(" in message
        assert not [op for op in prog.block(0).ops if "random" in op.type]
        if call.endswith(")"):
            assert len(eval(call, names).shape) <= 2


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ("br.random.normal(3)", (3,)),
        ("br.random.normal(np.int64(3), 0.0, 1.0)", (3,)),
        ("br.random.normal([0], 0.0, 1.0)", (0,)),
        ("br.random.normal(0)", (0,)),
        ("br.random.normal(2, [1, 2], [3, 4])", (2,)),
        ("br.random.normal(3, [0.0, 1.0, 2.0])", (3,)),
        ("br.random.uniform((2, 2), -1, 1)", (2, 2)),
        ("br.random.randint(1, 5, 7)", (1,)),
        ("br.random.normal(np.array([2, 3]).tolist())", (2, 3)),
        ("br.random.permutation(5)", (5,)),
        ("br.random.choice(5, (3,))", (3,)),
    ],
)
def test_the_order_of_braces_is_accepted(written: str, shape: tuple[int, ...]) -> None:
    with br.Program():
        assert eval(written, {"br": br, "np": np}).shape == shape


def test_bounds_of_jax_are_named() -> None:
    with br.Program():
        with pytest.raises(TypeError, match=re.escape("Use low=.")):
            br.random.uniform([3], minval=0.0)  # pyright: ignore[reportCallIssue]
        with pytest.raises(TypeError, match=re.escape("Use high=.")):
            br.random.uniform([3], maxval=0.0)  # pyright: ignore[reportCallIssue]
