"""Cases of Python control flow over tensors, which `to_static` converts; see `functions.py`.

The first line of a docstring is the inputs. A function with a parameter `layer` receives a
linear layer of three features.
"""

from __future__ import annotations

from typing import Any

import paddle
from paddle import static
from paddle.nn import functional as F


def if_else(x: Any, layer: Any) -> Any:
    """x@2,3"""
    if x.sum() > 0:
        y = layer(x)
    else:
        y = paddle.tanh(x)
    return y * 2


def if_without_else(x: Any) -> Any:
    """x@2,3"""
    y = x * 2
    if x.mean() > -9:
        y = paddle.exp(y)
    return y


def if_elif(x: Any) -> Any:
    """x@2,3"""
    s = x.sum()
    if s > 100:
        y = x + 1
    elif s > -100:
        y = x * x
    else:
        y = x - 1
    return y, s


def nested_if(x: Any) -> Any:
    """x@2,3"""
    y = x
    if x.sum() > -100:
        if x.max() > 100:
            y = x * 2
        else:
            y = x * 3
            z = y + 1
            y = z * y
    return y


def early_return(x: Any, layer: Any) -> Any:
    """x@2,3"""
    if x.sum() > 100:
        return x
    y = layer(x)
    if y.sum() > -100:
        return y * 2
    return y - 1


def while_loop(x: Any, n: Any, layer: Any) -> Any:
    """x@2,3 n:i=4@=1"""
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        x = paddle.tanh(layer(x))
        i = i + 1
    return x


def while_zero_d(x: Any, n: Any, layer: Any) -> Any:
    """x@2,3 n:i=3@="""
    i = paddle.zeros([], dtype="int64")
    while i < n:
        x = paddle.tanh(layer(x)) + i.astype("float32")
        i += 1
    return x, i


def while_value(x: Any) -> Any:
    """x@2,3"""
    count = paddle.zeros([1])
    while x.abs().max() > 0.1:
        x = x * 0.5
        count = count + 1
    return x, count


def while_and(x: Any, n: Any) -> Any:
    """x@2,3 n:i=9@=1"""
    i = paddle.zeros([1], dtype="int64")
    while i < n and x.sum().abs() < 50:
        x = x * 1.5
        i = i + 1
    return x, i


def while_break(x: Any, n: Any) -> Any:
    """x@2,3 n:i=9@=1"""
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        x = x * 1.5
        if x.abs().max() > 10:
            break
        i = i + 1
    return x, i


def while_continue(x: Any, n: Any) -> Any:
    """x@2,3 n:i=6@=1"""
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        i = i + 1
        if i % 2 == 0:
            continue
        x = x + i.astype("float32")
    return x


def for_range(x: Any, n: Any, layer: Any) -> Any:
    """x@2,3 n:i=4@=1"""
    for i in range(n):
        x = paddle.tanh(layer(x)) + paddle.cast(i, "float32")
    return x


def for_static(x: Any, layer: Any) -> Any:
    """x@2,3"""
    for i in range(3):
        x = paddle.tanh(layer(x)) * (i + 1)
    return x


def for_tensor(x: Any) -> Any:
    """x@=4,3"""
    total = paddle.zeros([3])
    for row in x:
        total = total * 0.5 + row
    return total


def for_dynamic(x: Any) -> Any:
    """x@4,3"""
    total = paddle.zeros([3])
    for row in x:
        total = total * 0.5 + row
    return total


def for_enumerate(x: Any) -> Any:
    """x@4,3"""
    total = paddle.zeros([3])
    for i, row in enumerate(x):
        total = total + row * i
    return total


def for_break(x: Any, n: Any) -> Any:
    """x@2,3 n:i=9@=1"""
    for i in range(n):
        x = x + 1
        if x.sum() > 20:
            break
    return x


def list_append(x: Any, n: Any, layer: Any) -> Any:
    """x@2,3 n:i=3@=1"""
    made = []
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        x = paddle.tanh(layer(x))
        made.append(x)
        i = i + 1
    return paddle.stack(made), paddle.concat(made, axis=1)


def list_for(x: Any) -> Any:
    """x@4,3"""
    made = []
    for i in range(x.shape[0]):
        made.append(x[i] * 2)
    return paddle.stack(made, axis=0)


def while_with_if(x: Any, n: Any, layer: Any) -> Any:
    """x@2,3 n:i=5@=1"""
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        if x.mean() > 0:
            x = x - 0.3
        else:
            x = paddle.tanh(layer(x)) + 0.5
        i = i + 1
    return x


def if_with_while(x: Any, n: Any) -> Any:
    """x@2,3 n:i=3@=1"""
    if x.sum() > -100:
        i = paddle.zeros([1], dtype="int64")
        while i < n:
            x = paddle.tanh(x)
            i = i + 1
    else:
        x = x - 1
    return x


def nested_while(x: Any, n: Any) -> Any:
    """x@2,3 n:i=3@=1"""
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        j = paddle.zeros([1], dtype="int64")
        while j < i:
            x = paddle.sin(x) + 0.1
            j = j + 1
        i = i + 1
    return x


def ternary(x: Any) -> Any:
    """x@2,3"""
    y = x * 2 if x.sum() > -100 else x - 1
    return y


def logical(x: Any, y: Any) -> Any:
    """x@2,3 y@2,3"""
    if (x.sum() > -100 and not y.sum() > 100) or y.max() > 50:
        z = x + y
    else:
        z = x - y
    return z


def assertion(x: Any) -> Any:
    """x@2,3"""
    assert x.shape[1] == 3
    return x * 2


def shapes(x: Any) -> Any:
    """x@4,6"""
    rows = x.shape[0]
    if rows > 2:
        y = x.reshape([rows * 2, 3])
    else:
        y = x.reshape([rows * 2, 3]) * 2
    return y, y.sum(axis=0) / rows


def newton(x: Any) -> Any:
    """x:p@2,3"""
    y = x
    for _ in range(5):
        y = 0.5 * (y + x / y)
    return y


def greedy_decoding(x: Any, n: Any, layer: Any) -> Any:
    """x@2,3 n:i=4@=1"""
    tokens = paddle.argmax(x, axis=-1)
    i = paddle.zeros([1], dtype="int64")
    while i < n:
        x = layer(F.one_hot(tokens, 3) + x)
        tokens = paddle.argmax(x, axis=-1)
        i = i + 1
    return tokens, x


def beam(x: Any) -> Any:
    """x@2,6"""
    scores, at = paddle.topk(F.log_softmax(x), 3)
    best = scores[:, 0]
    for i in range(1, 3):
        best = paddle.maximum(best, scores[:, i] * 0.5)
    return best, at


def cond_function(x: Any) -> Any:
    """x@2,3"""
    return static.nn.cond(x.sum() > -100, lambda: (x * 2, x + 1), lambda: (x, x - 1))


def case_function(x: Any) -> Any:
    """x@2,3"""
    return static.nn.case(
        [(x.sum() > 100, lambda: x * 2), (x.sum() > -100, lambda: paddle.tanh(x))],
        default=lambda: x - 1,
    )


def switch_case_function(x: Any, n: Any) -> Any:
    """x@2,3 n:j=1@=1"""
    return static.nn.switch_case(
        n, {0: lambda: x * 2, 1: lambda: paddle.exp(x), 5: lambda: x - 1}
    )


def switch_case_default(x: Any, n: Any) -> Any:
    """x@2,3 n:j=3@=1"""
    return static.nn.switch_case(
        n, [(1, lambda: x * 2), (2, lambda: paddle.exp(x))], default=lambda: x - 5
    )


def while_loop_function(x: Any, n: Any) -> Any:
    """x@2,3 n:i=4@=1"""
    i = paddle.zeros([1], dtype="int64")
    _, y = static.nn.while_loop(lambda i, y: i < n, lambda i, y: [i + 1, paddle.sin(y)], [i, x])
    return y


def inner_function(x: Any, layer: Any) -> Any:
    """x@2,3"""

    def step(value: Any, factor: float) -> Any:
        if value.sum() > 0:
            return layer(value) * factor
        return value - factor

    return step(step(x, 2.0), 3.0)


def dictionary(x: Any) -> Any:
    """x@2,3"""
    kept = {"a": x, "b": x * 2}
    if x.sum() > -100:
        kept["a"] = kept["b"] + 1
    return kept["a"] + kept["b"]


def masked_loss(x: Any, m: Any) -> Any:
    """x@2,3 m:i<2@2,3"""
    kept = paddle.masked_select(x, m > 0)
    return (kept**2).sum() / (m.astype("float32").sum() + 1)
