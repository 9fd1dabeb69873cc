"""Tree-shaped networks: evaluation of expressions such as `(max 3 (min 8 5) 1)`.

Each row of a batch is a tree in postfix order: a number is pushed on the stack, an operation
replaces two vectors by one. Rows differ in every step, so the step branches row by row, and a
row runs only its own branch.

    python -m examples.tasks.trees
"""

from __future__ import annotations

from typing import Any

import numpy as np

import braces as br

MAX, MIN, WIDTH, DEPTH = 10, 11, 48, 3


def tree(random: np.random.Generator, depth: int) -> tuple[list[int], int]:
    """The ids of a tree in postfix order, and its value."""
    if depth == 0 or random.random() < 0.2:
        value = int(random.integers(10))
        return [value], value
    (left, a), (right, b) = tree(random, depth - 1), tree(random, depth - 1)
    op = int(random.integers(MAX, MIN + 1))
    return [*left, *right, op], max(a, b) if op == MAX else min(a, b)


def batch(rows: int, seed: int) -> dict[str, Any]:
    """Trees, padded, with their lengths and values."""
    random = np.random.default_rng(seed)
    trees, values = zip(*(tree(random, DEPTH) for _ in range(rows)), strict=True)
    ids = [[*one, *[0] * (2 ** (DEPTH + 1) - len(one))] for one in trees]
    return {"ids": ids, "lengths": [len(one) for one in trees], "values": values}


def number(ids: br.Var, stack: br.Var) -> br.Var:
    """Push a vector."""
    return br.concat([br.embedding(ids, [10, WIDTH])[:, None], stack[:, :-1]], axis=1)


def operation(ids: br.Var, stack: br.Var) -> br.Var:
    """Replace the first two vectors by one; the last place is an unused copy."""
    taken = br.concat([br.flatten(stack[:, :2]), br.one_hot(ids - MAX, 2)], axis=1)
    made = br.fc(br.fc(taken, 128, act="relu"), WIDTH)
    return br.concat([made[:, None], stack[:, 2:], stack[:, -1:]], axis=1)


with br.Program() as program:
    ids = br.data("ids", ["n", "t"], dtype="int32")
    lengths, values = (br.data(k, ["n"], dtype="int32") for k in ("lengths", "values"))
    rnn = br.create_rnn(lengths=lengths)
    with rnn.stepnet() as net:
        id_ = net.add_input(ids, axis=1)
        stack = net.add_memory(init=br.zeros([ids.shape[0], DEPTH + 1, WIDTH]))
        stack.update(br.cond(id_ < MAX, number, operation, id_, stack))
    logits = br.fc(rnn.final(stack)[:, 0], 10)
    right = br.mean(br.argmax(logits, axis=1) == values)
    loss = br.softmax_cross_entropy(logits, values)
    br.optimizer.adam(3e-3).minimize(loss)


def train(steps: int) -> float:
    """The accuracy on new trees."""
    exe = br.Executor()
    scope = exe.init(program)
    for step in range(steps):
        exe.run(program, scope, batch(100, step))
    return float(exe.run(program.for_test(), scope, batch(500, steps), right))


if __name__ == "__main__":
    print("right values:", train(steps=600))
