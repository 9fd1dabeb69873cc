"""A model of 12 layers, planned for many devices; nothing of its size is made here."""

from __future__ import annotations

import resource

import pytest

import braces as br
from braces.lower.sharding.sharding import Placement
from braces.planning.compiled_run import compile_and_report

VOCABULARY, WIDTH, LAYERS, LENGTH = 50304, 768, 12, 1024


def model(
    layers: int = LAYERS, length: int = LENGTH, vocabulary: int = VOCABULARY
) -> br.Program:
    """A language model of the shape of the small GPT-2, with Adam."""
    with br.Program() as program:
        ids, after = (br.data(x, ["batch", length], dtype="int32") for x in ("ids", "after"))
        places = br.embedding(br.arange(length), [length, WIDTH], name="places")
        x = br.embedding(ids, [vocabulary, WIDTH], name="tokens") + places
        for at in range(layers):
            x = br.layers.transformer_encoder_layer(
                x, 12, 4 * WIDTH, act="gelu", norm_first=True, causal=True,
                name=f"layer{at}",
            )  # fmt: skip
        scores = br.fc(br.layer_norm(x), vocabulary, bias=False, name="head")
        br.optimizer.adam(1e-3).minimize(br.softmax_cross_entropy(scores, after))
    return program


def apart(rows: int, columns: int) -> br.Layout:
    """Rows, products and all that is kept, apart."""
    return br.Layout(
        br.Mesh({"data": rows, "model": columns}),
        {"batch": "data"},
        {"*/hidden.w": (None, "model"), "*/out.w": ("model", None)},
        fsdp="data",
    )


def cpu_s() -> float:
    """The seconds that processes of this one have computed, which are done."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.thorough
@pytest.mark.parametrize(("rows", "limit_s"), [(8, 60), (64, 240)])
def test_twelve_layers_are_planned(rows: int, limit_s: float) -> None:
    start = cpu_s()
    report = br.plan(model(), apart(rows, 8), {"batch": 8 * rows})
    assert cpu_s() - start < limit_s  # which other work on the machine does not make longer
    assert report.devices == 8 * rows
    held = {one.name: one for one in report.values}
    assert held["tokens.w"].device_bytes == 4 * VOCABULARY * WIDTH // rows
    assert held["layer3/hidden.w"].device_bytes == 4 * 4 * WIDTH * WIDTH // (8 * rows)
    assert held["adam/mu/layer3/hidden.w"].device_bytes == held["layer3/hidden.w"].device_bytes
    tokens = 8 * LENGTH  # of each device
    heads = 2 * tokens * VOCABULARY * WIDTH
    assert report.flops > heads / 8
    assert {"all-reduce", "all-gather"} <= report.counts.keys()
    assert all(one.operators for one in report.collectives[:20])
    assert not report.warnings() or "v5e" in report.warnings()[0]


@pytest.mark.thorough
def test_pinned_values_move_a_third_of_what_free_ones_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a vocabulary that has no equal parts, so that the head is cut along what it sums."""
    found = list[tuple[int, int]]()
    for pins in (True, False):
        if not pins:
            monkeypatch.setattr(Placement, "pinned", lambda self, info, value: value)
        report = compile_and_report(
            model(2, 256, 50257).definition, apart(4, 2), (), {"batch": 32}
        )
        moved = sum(one.total_bytes for one in report.collectives)
        found.append((moved, report.memory["temporaries"]))
    pinned, free = found
    assert pinned[0] < free[0] / 3
    assert pinned[1] < free[1] / 2
