"""Nets shaped like trees: what is `(max 3 (min 8 5) 1)`?

Each row of a batch is a tree in the order in which it is put together: a number is put on the
stack, an operation takes two vectors from it and puts one back. Rows differ in every step, so
the step branches row by row, and no row pays for the branch of another.

    python -m examples.tasks.trees
"""

from __future__ import annotations

import numpy as np

import braces as br

MAX, MIN, WIDTH, DEPTH = 10, 11, 48, 6
Tree = list[int]


def tree(random: np.random.Generator, depth: int) -> tuple[Tree, int]:
    """The ids of a tree, arguments before their operation, and its value."""
    if depth == 0 or random.random() < 0.2:
        value = int(random.integers(10))
        return [value], value
    (left, a), (right, b) = tree(random, depth - 1), tree(random, depth - 1)
    op = int(random.integers(MAX, MIN + 1))
    return [*left, *right, op], max(a, b) if op == MAX else min(a, b)


def batch(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Trees, padded, with their lengths and values."""
    random = np.random.default_rng(seed)
    trees, values = zip(*(tree(random, 3) for _ in range(rows)), strict=True)
    ids = np.zeros([rows, max(map(len, trees))], "int32")
    for row, one in zip(ids, trees, strict=True):
        row[: len(one)] = one
    lengths = np.array([*map(len, trees)], "int32")
    return {"ids": ids, "lengths": lengths, "values": np.array(values, "int32")}


def build() -> tuple[br.Program, br.Var, br.metrics.Metric]:
    """The program, its loss, and the share of trees whose value it knows."""
    with br.Program() as prog:
        ids = br.data("ids", ["n", "t"], dtype="int32")
        lengths, values = (
            br.data(name, ["n"], dtype="int32") for name in ("lengths", "values")
        )
        rnn = br.create_rnn(lengths=lengths)
        with rnn.stepnet() as net:
            id_ = net.add_input(ids, axis=1)
            stack = net.add_memory(init=br.zeros([ids.shape[0], DEPTH, WIDTH]))
            size = net.add_memory(init=br.zeros([ids.shape[0]], dtype="int32"))
            choice = br.create_if_else(id_ < MAX)
            with choice.true_block() as number:
                digit, n = number.add_input(id_), number.add_input(size)
                number.add_output(br.embedding(digit, [10, WIDTH]), n)
            with choice.false_block() as operation:
                op, s, n = (operation.add_input(one) for one in (id_, stack, size))
                both = [
                    br.sum(s * br.one_hot(n - k, DEPTH)[:, :, None], axis=1) for k in (2, 1)
                ]
                h = br.fc(br.concat([*both, br.one_hot(op - MAX, 2)], axis=1), 128, act="relu")
                operation.add_output(br.fc(h, WIDTH), n - 2)
            top, place = choice()
            here = br.arange(DEPTH, dtype="int32") == place[:, None]
            stack.update(br.where(here[:, :, None], top[:, None], stack))
            size.update(place + 1)
        logits = br.fc(rnn.final(stack)[:, 0], 10)
        right = br.metrics.accuracy(logits, values)
        loss = br.softmax_cross_entropy(logits, values, reduction="mean")
        br.optimizer.adam(3e-3).minimize(loss)
    return prog, loss, right


def train(steps: int) -> float:
    """The share of new trees whose value is right."""
    prog, loss, right = build()
    scope, exe = br.Scope(), br.Executor()
    exe.init(prog, scope, seed=0)
    for step in range(steps):
        exe.run(prog, scope, batch(100, step), loss)
    right.reset(scope)
    return float(exe.run(prog.for_test(), scope, batch(500, steps), right.value))


if __name__ == "__main__":
    print("right values:", train(steps=600))
