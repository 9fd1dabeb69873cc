"""Sequence layers of torch: reference values for tests of Braces' layers.

python scripts/torch_sequences.py            write tests/frontend/sequences.npz; needs torch

Each recurrent layer has its input, its weights by the names of Braces, outputs, the last state,
and the gradients of a weighted sum of the results.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).parents[1] / "tests" / "frontend" / "sequences.npz"
LAYERS, SIZE, FEATURES, STEPS = 2, 3, 2, 4
LENGTHS = np.array([4, 1, 3], "int32")


def named(kind: str, net: Any, grads: bool) -> Iterator[tuple[str, Any]]:
    """Weights of a torch layer, or their gradients, by the names of Braces."""

    def part(name: str) -> Any:
        weight = getattr(net, name)
        return (weight.grad if grads else weight.detach()).numpy()

    for layer in range(LAYERS):
        for way, end in (("forward", ""), ("backward", "_reverse")):
            at, to = f"_l{layer}{end}", f"{kind}/{way}_{layer}"
            yield f"{to}.w", part(f"weight_ih{at}").T
            yield f"{to}.u", part(f"weight_hh{at}").T
            given, remembered = part(f"bias_ih{at}"), part(f"bias_hh{at}")
            if kind != "gru":
                yield f"{to}.b", given if grads else given + remembered
                continue
            joined = remembered.copy()
            joined[2 * SIZE :] = 0.0
            yield f"{to}.b", given if grads else given + joined
            yield f"{to}.b_reset", remembered[2 * SIZE :]


def recurrent(torch: Any, kind: str, make: Any) -> Iterator[tuple[str, Any]]:
    """One kind of layer: two of them, in both directions, on rows of several lengths."""
    net = make(FEATURES, SIZE, LAYERS, batch_first=True, bidirectional=True).double()
    x = torch.randn(len(LENGTHS), STEPS, FEATURES, dtype=torch.float64, requires_grad=True)
    count = 2 if kind == "lstm" else 1
    shape = (2 * LAYERS, len(LENGTHS), SIZE)
    start = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    rnn = torch.nn.utils.rnn
    options = {"batch_first": True, "enforce_sorted": False}
    packed = rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), **options)
    out, last = net(packed, tuple(start) if count > 1 else start[0])
    out, _ = rnn.pad_packed_sequence(out, batch_first=True)
    results = [out, *(last if count > 1 else [last])]
    weights = [torch.randn(result.shape, dtype=torch.float64) for result in results]
    sum((a * b).sum() for a, b in zip(results, weights, strict=True)).backward()
    yield f"{kind}.x", x.detach().numpy()
    yield f"{kind}.x.grad", x.grad.numpy()
    for at, (result, weight) in enumerate(zip(results, weights, strict=True)):
        yield f"{kind}.result.{at}", result.detach().numpy()
        yield f"{kind}.weight.{at}", weight.numpy()
    for at, memory in enumerate(start):
        yield f"{kind}.start.{at}", memory.detach().numpy()
        yield f"{kind}.start.{at}.grad", memory.grad.numpy()
    for name, value in named(kind, net, grads=False):
        yield f"{kind}.parameter.{name}", value
    for name, value in named(kind, net, grads=True):
        yield f"{kind}.parameter.{name}.grad", value


CTC_LOGIT_LENGTHS = np.array([5, 5, 2, 1, 0, 3, 4, 0], "int32")
CTC_LABEL_LENGTHS = np.array([3, 0, 2, 1, 0, 2, 3, 1], "int32")
CTC_LABELS = np.array(
    [[1, 1, 2], [9, 9, 9], [2, 2, 9], [1, 9, 9], [9, 9, 9], [1, 1, 9], [1, 2, 1], [2, 9, 9]],
    "int32",
)


def ctc(torch: Any) -> Iterator[tuple[str, Any]]:
    """Rows of all kinds: repeated labels, no labels, no steps, and rows without a path."""
    x = torch.randn(5, len(CTC_LABELS), 4, dtype=torch.float64, requires_grad=True)
    yield "ctc.x", x.detach().numpy()
    yield "ctc.labels", CTC_LABELS
    yield "ctc.logit_lengths", CTC_LOGIT_LENGTHS
    yield "ctc.label_lengths", CTC_LABEL_LENGTHS
    for blank in (0, 3):
        lengths = torch.tensor(CTC_LOGIT_LENGTHS), torch.tensor(CTC_LABEL_LENGTHS)
        for reduction in ("none", "mean"):
            loss = torch.nn.functional.ctc_loss(
                *(x.log_softmax(-1), torch.tensor(CTC_LABELS), *lengths),
                blank=blank,
                reduction=reduction,
                zero_infinity=reduction == "mean",
            )
            yield f"ctc.{reduction}.{blank}", loss.detach().numpy()
        (slope,) = torch.autograd.grad(loss, [x])
        yield f"ctc.mean.{blank}.grad", slope.numpy()


def main() -> None:
    """Write the file."""
    import torch

    torch.manual_seed(0)
    kinds = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "simple_rnn": torch.nn.RNN}
    arrays = {"lengths": LENGTHS}
    for kind, make in kinds.items():
        arrays.update(recurrent(torch, kind, make))
    arrays.update(ctc(torch))
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
