"""Attention, and layers of transformers, against a plain reading in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import braces as br
from tests.frontend.made import parameters, run

pytestmark = pytest.mark.unoptimized


def attended(q: Any, k: Any, v: Any, kept: Any, scale: float) -> Any:
    """Attention of one head after the other, in float64."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    times = q.shape[1] // k.shape[1]
    for b, h, t in np.ndindex(*q.shape[:3]):
        seen = kept[b, h, t]
        scores = (k[b, h // times] @ q[b, h, t]).astype("f8") * scale
        powers = np.exp(scores[seen] - scores[seen].max(initial=-np.inf))
        if seen.any():
            out[b, h, t] = powers / powers.sum() @ v[b, h // times][seen]
    return out


def test_attention_is_softmax_of_products_and_zero_where_nothing_is_seen(
    mode: str, rng: np.random.Generator
) -> None:
    shapes = {"q": (2, 4, 5, 6), "k": (2, 2, 7, 6), "v": (2, 2, 7, 3)}
    feed: dict[str, Any] = {n: rng.normal(size=s).astype("f4") for n, s in shapes.items()}
    each = rng.random((2, 4, 5, 7)) > 0.5
    each[0, 1, 2] = False
    masks = {"each": each, "all_heads": each[:, :1], "keys": each[0, 0, 0]}
    with br.Program() as prog:
        q, k, v = (br.data(n, ["b", s[1], f"t{n == 'q'}", s[3]]) for n, s in shapes.items())
        sizes: Any = ["b", 4, "tTrue", "tFalse"]
        shapes = {"each": sizes, "all_heads": ["b", 1, *sizes[2:]], "keys": sizes[3:]}
        kept = {n: br.data(n, shapes[n], dtype="bool") for n in masks}
        outs = [br.scaled_dot_product_attention(q, k, v, m, scale=0.7) for m in kept.values()]
        outs.append(br.scaled_dot_product_attention(q, k, v, causal=True))
        outs.append(br.scaled_dot_product_attention(q * 1e4, k, v, kept["each"]))
        slopes = br.gradients([br.sum(out) for out in outs], [q, k, v])
    got, _ = run(mode, prog, feed | masks, [*outs, *slopes])
    whole = [np.broadcast_to(m, (2, 4, 5, 7)) for m in masks.values()]
    whole.append(np.broadcast_to(np.tri(5, 7, dtype=bool), (2, 4, 5, 7)))
    arrays = feed["q"], feed["k"], feed["v"]
    for out, m in zip(got, whole, strict=False):
        scale = 0.7 if m is not whole[-1] else 6**-0.5
        np.testing.assert_allclose(out, attended(*arrays, m, scale), rtol=1e-4, atol=1e-5)
    assert not got[0][0, 1, 2].any()
    assert all(np.isfinite(array).all() for array in got)  # large scores, and rows without keys


def test_one_step_after_the_other_with_a_cache_gives_what_all_at_once_does(
    mode: str, rng: np.random.Generator
) -> None:
    def layers(x: Any, seen: Any, caches: Any) -> Any:
        h, first = encoder(x, 4, causal=True, rotary=True, key_value_heads=2, cache=caches[0])
        h, second = decoder(h, seen, 4, norm_first=True, act="gelu", cache=caches[1])
        return h, [first, second]

    encoder = br.shared(br.layers.transformer_encoder_layer, name="enc")
    decoder = br.shared(br.layers.transformer_decoder_layer, name="dec")
    with br.Program() as prog:
        x, seen = br.data("x", ["b", "t", 16]), br.data("seen", ["b", "s", 16])
        empty = [br.layers.attention_cache(x.shape[0], 9, heads, 4) for heads in (2, 4)]
        whole, _ = layers(x, seen, empty)
        more, after = layers(x[:, :2], seen, empty)
        over, _ = layers(x, seen, after)
        loop = br.create_while()
        with loop.block() as body:
            t = body.add_memory(init=br.constant(2, dtype="int64"))
            carried = [[body.add_memory(init=v) for v in cache] for cache in after]
            body.set_condition(t < br.cast(br.constant(6), "int64"))
            caches = [br.layers.AttentionCache(*(m.pre(1) for m in cache)) for cache in carried]
            out, news = layers(br.take(x, br.expand_dims(t, axis=0), axis=1), seen, caches)
            for memories, new in zip(carried, news, strict=True):
                for memory, value in zip(memories, new, strict=True):
                    memory.update(value)
            t.update(t + 1)
            body.add_output(out[:, 0])
        rest = loop()
        alone, _ = encoder(x, 4, causal=True, rotary=True, key_value_heads=2, cache=empty[0])
        plain = br.layers.transformer_encoder_layer(
            x, 4, causal=True, rotary=True, key_value_heads=2
        )
    feed = {"x": rng.normal(size=(3, 6, 16)), "seen": rng.normal(size=(3, 2, 16))}
    feed = {name: array.astype("f4") for name, array in feed.items()}
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(prog, scope, seed=1)
    for role in [one.name[4:] for one in prog.parameters if one.name.startswith("enc/")]:
        own = scope.var(f"transformer_encoder_layer/{role}")
        own.set(scope.var(f"enc/{role}").value)
    every, first, others, bare, cached = exe.run(
        prog, scope, feed, fetch=[whole, more, rest, plain, alone]
    )
    np.testing.assert_allclose(every[:, :2], first, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(every[:, 2:], np.moveaxis(others, 0, 1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cached, bare, rtol=1e-4, atol=1e-5)
    long = {"x": np.zeros((1, 8, 16), "f4"), "seen": np.zeros((1, 1, 16), "f4")}
    with pytest.raises(br.IndexRangeError, match="9"):
        exe.run(prog, scope, long, fetch=over)


def test_what_lies_behind_the_lengths_reaches_no_value_and_no_gradient(
    mode: str, rng: np.random.Generator
) -> None:
    with br.Program() as prog:
        x, seen = br.data("x", ["b", "t", 8]), br.data("seen", ["b", "s", 8])
        n, m = (br.data(name, ["b"], dtype="int32") for name in ("n", "m"))
        h = br.layers.transformer_encoder_layer(x, 2, lengths=n, norm_first=True, name="enc")
        h = br.layers.transformer_decoder_layer(
            h, seen, 2, lengths=n, memory_lengths=m, name="dec"
        )
        slopes = br.gradients(
            [br.sum(br.sin(h))], [x, *(prog.var(p) for p in parameters(prog))]
        )
    feed: dict[str, Any] = {"x": rng.normal(size=(3, 5, 8)), "seen": rng.normal(size=(3, 4, 8))}
    feed = {name: array.astype("f4") for name, array in feed.items()}
    feed |= {"n": np.array([5, 2, 0], "i4"), "m": np.array([1, 4, 0], "i4")}
    spoilt = {name: array.copy() for name, array in feed.items()}
    for row in range(3):
        spoilt["x"][row, feed["n"][row] :] = np.nan
        spoilt["seen"][row, feed["m"][row] :] = np.nan
    clean, _ = run(mode, prog, feed, [h, *slopes])
    for left, right in zip(run(mode, prog, spoilt, [h, *slopes])[0], clean, strict=True):
        np.testing.assert_array_equal(left, right)
    assert not clean[0][1, 2:].any()
    short = {"x": spoilt["x"][1:2, :2], "seen": spoilt["seen"][1:2], "n": [2], "m": [4]}
    alone, _ = run(mode, prog, short, [h])
    np.testing.assert_allclose(alone[0][0], clean[0][1, :2], rtol=1e-4, atol=1e-5)


def test_a_layer_in_a_step_with_lengths_is_for_the_rows_that_go_on(
    mode: str, rng: np.random.Generator
) -> None:
    with br.Program() as prog:
        x, n = br.data("x", ["b", "t", 3, 8]), br.data("n", ["b"], dtype="int32")
        layer = br.shared(br.layers.transformer_encoder_layer, name="enc")
        rnn = br.create_rnn(lengths=n)
        with rnn.stepnet() as net:
            memory = net.add_memory(shape=[3, 8], batch_like=x)
            out = layer(net.add_input(x, axis=1) + memory, 2, causal=True)
            memory.update(out)
        last = rnn.final(memory)
        slope = br.gradients([br.sum(br.sin(last))], [x])[0]
        first = layer(x[:, 0], 2, causal=True)
        second = layer(x[:, 1] + first, 2, causal=True)
    fed: dict[str, Any] = {"x": rng.normal(size=(3, 2, 3, 8)).astype("f4"), "n": [2, 1, 0]}
    (got, grad, one, two), _ = run(mode, prog, fed, [last, slope, first, second])
    np.testing.assert_allclose(got, [two[0], one[1], 0.0 * one[2]], rtol=1e-4, atol=1e-5)
    assert grad[0].any()
    assert not grad[1, 1:].any()
    fed["x"][1, 1:] = fed["x"][2] = np.nan
    spoilt, _ = run(mode, prog, fed, [last, slope])
    for left, right in zip(spoilt, (got, grad), strict=True):
        np.testing.assert_array_equal(left, right)


def test_positions_turn_and_shift_as_they_say(mode: str, rng: np.random.Generator) -> None:
    with br.Program() as prog:
        x = br.data("x", ["b", "t", 6])
        at = br.data("at", ["b", 1], dtype="int32")
        outs = [
            br.layers.rotary_embedding(x),
            br.layers.rotary_embedding(x, at, base=100.0, interleaved=True),
            br.layers.positional_encoding(br.arange(x.shape[1]), 6),
        ]
    feed = {"x": rng.normal(size=(2, 4, 6)).astype("f4"), "at": np.array([[3], [1000]], "i4")}
    got, _ = run(mode, prog, feed, outs)
    slow = np.arange(3) * 2 / 6
    whole = feed["x"][..., :3] + 1j * feed["x"][..., 3:]
    turned = whole * np.exp(1j * np.arange(4)[:, None] / 1e4**slow)
    np.testing.assert_allclose(
        got[0], np.concatenate([turned.real, turned.imag], -1), rtol=1e-4, atol=1e-5
    )
    pairs = feed["x"][..., ::2] + 1j * feed["x"][..., 1::2]
    turned = pairs * np.exp(1j * feed["at"][..., None] / 100**slow)
    np.testing.assert_allclose(got[1][..., ::2], turned.real, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got[1][..., 1::2], turned.imag, rtol=1e-3, atol=1e-3)
    angles = np.arange(4)[:, None] / 1e4**slow
    np.testing.assert_allclose(got[2][:, ::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(got[2][:, 1::2], np.cos(angles), atol=1e-6)


def test_layers_go_into_row_wise_branches_and_drop_in_training_alone(
    mode: str, rng: np.random.Generator
) -> None:
    with br.Program() as prog:
        x, big = br.data("x", ["b", 4, 8]), br.data("big", ["b"], dtype="bool")
        layer = br.shared(br.layers.transformer_encoder_layer, name="enc")
        whole = layer(x, 2, causal=True)
        choice = br.create_if_else(big)
        with choice.true_block() as block:
            block.add_output(layer(block.add_input(x), 2, causal=True))
        with choice.false_block() as block:
            block.add_output(block.add_input(x) * 0.0)
        out = choice()
        slope = br.gradients([br.sum(br.sin(out))], [x])[0]
        drops = br.multi_head_attention(x, 2, dropout=0.5, name="mha")
    feed = {"x": rng.normal(size=(3, 4, 8)).astype("f4"), "big": [True, False, True]}
    trained, _ = run(mode, prog, feed, [out, whole, slope, drops])
    got, _ = run(mode, prog.for_test(), feed, [out, whole, slope, drops])
    np.testing.assert_allclose(got[0][[0, 2]], got[1][[0, 2]], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[2], trained[2])
    assert not got[0][1].any()
    assert not got[2][1].any()
    assert got[2][0].any()
    assert np.abs(trained[3] - got[3]).max() > 1e-3


def _cache(heads: int) -> br.layers.AttentionCache:
    return br.layers.attention_cache(3, 9, heads, 4)


BAD: list[tuple[Any, str]] = [
    (lambda x, m: br.multi_head_attention(x, 3), "cannot split 8 features into 3 heads"),
    (
        lambda x, m: br.multi_head_attention(x, 4, key_value_heads=3),
        "multiple of 3 key heads, got 4",
    ),
    (lambda x, m: br.multi_head_attention(x[0], 2), r"\[rows, steps, features\]"),
    (lambda x, m: br.multi_head_attention(x, 2, mask=m * 1.0), "expected a bool mask"),
    (lambda x, m: br.multi_head_attention(x, 2, mask=m), "does not broadcast"),
    (lambda x, m: br.multi_head_attention(x, 2, lengths=x), "an integer vector over the batch"),
    (
        lambda x, m: br.multi_head_attention(x, 2, lengths=br.arange(7)),
        "sizes of keys and lengths",
    ),
    (
        lambda x, m: br.multi_head_attention(x, 2, x * 1.0, cache=_cache(2)),
        "a cache only for self-attention on `x`",
    ),
    (
        lambda x, m: br.multi_head_attention(x, 2, cache=_cache(4)),
        "equal batch, heads and sizes of cache and keys",
    ),
    (lambda x, m: br.layers.transformer_encoder_layer(x, 2, act="geluu"), "gelu"),
    (
        lambda x, m: br.layers.transformer_decoder_layer(x, x[0], 2),
        "transformer_decoder_layer: expected",
    ),
    (
        lambda x, m: br.scaled_dot_product_attention(x, x[..., :3], x),
        "equal sizes of queries and keys",
    ),
    (
        lambda x, m: br.scaled_dot_product_attention(x, x, x[:, :2]),
        "equal numbers of keys and values",
    ),
    (lambda x, m: br.scaled_dot_product_attention(x, m, x), "expected floats"),
    (lambda x, m: br.layers.rotary_embedding(x[..., :3]), "even"),
    (lambda x, m: br.layers.positional_encoding(br.arange(3), 5), "even"),
]


def test_what_does_not_fit_is_refused_by_the_users_line_and_leaves_no_trace() -> None:
    for build, message in BAD:
        with br.Program() as prog:
            x, m = br.data("x", [3, 5, 8]), br.data("m", [3, 5], dtype="bool")
            before = str(prog), str(prog.startup)
            with pytest.raises(br.BracesError, match=message) as caught:
                build(x, m)
            assert "test_attention.py:" in str(caught.value), message
            assert not prog.parameters
        assert before[1] == str(prog.startup)
