"""Attention and layers of transformers against torch's, with its weights.

`scripts/torch_attention.py` wrote its numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br

pytestmark = pytest.mark.unoptimized
TORCH: Any = np.load(Path(__file__).parent / "attention.npz")


def built(case: str) -> tuple[br.Program, list[Any], dict[str, Any]]:
    """The layers of a case, and what is fed besides its steps."""
    with br.Program() as prog:
        x, seen = br.data("x", ["b", "t", 8]), br.data("seen", ["b", "s", 8])
        if case == "attention":
            kept = br.data("kept", ["b", "t", "s"], dtype="bool")
            own = br.multi_head_attention(x, 2, causal=True, name="own")
            cross = br.multi_head_attention(x, 2, seen, mask=kept[:, None], name="cross")
            return prog, [own, cross], {"kept": TORCH["attention.kept"]}
        given: Any = {"norm_first": case == "pre_norm"}
        given["act"] = "gelu" if given["norm_first"] else "relu"
        n, m = (br.data(name, ["b"], dtype="int32") for name in ("n", "m"))
        outs = [
            br.layers.transformer_encoder_layer(x, 2, 12, lengths=n, name="enc", **given),
            br.layers.transformer_decoder_layer(
                x, seen, 2, 12, memory_lengths=m, name="dec", **given
            ),
        ]
    return prog, outs, {"n": TORCH["lengths"], "m": np.minimum(TORCH["lengths"], 4)}


@pytest.mark.parametrize("case", ["attention", "post_norm", "pre_norm"])
def test_values_and_gradients_are_those_of_torch(case: str) -> None:
    prog, outs, feed = built(case)
    feed |= {name: TORCH[f"{case}.feed.{name}"] for name in ("x", "seen")}
    begin = f"{case}.parameter."
    slopes = {name[len(begin) : -5]: TORCH[name] for name in TORCH
              if name.startswith(begin) and name.endswith(".grad")}  # fmt: skip
    assert {one.name for one in prog.parameters} == set(slopes)
    with prog:
        total = br.sum(br.sin(outs[0])) + br.sum(br.sin(outs[1]))
        grads = br.gradients([total], [prog.var(name) for name in ("x", "seen", *slopes)])
    wanted = [TORCH[f"{case}.result.{at}"] for at in range(2)]
    wanted += [TORCH[f"{case}.feed.{name}.grad"] for name in ("x", "seen")]
    scope = br.Scope()
    br.Executor().init(prog, scope)
    scope.update({name: TORCH[begin + name] for name in slopes})
    for mode in ("compile", "interpret"):
        got = br.Executor(mode=mode).run(prog, scope, feed, fetch=[*outs, *grads])
        for left, right in zip(got, [*wanted, *slopes.values()], strict=True):
            np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-5)
