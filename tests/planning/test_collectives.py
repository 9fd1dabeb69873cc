"""Collectives as the text of compiled code has them."""

from __future__ import annotations

import pytest

import braces as br
from braces.planning.collectives import KINDS, Collective, find_collectives
from braces.planning.device_specs import DEVICES, find_device_specs
from braces.planning.replica_groups import axes_along, first_group
from braces.planning.time_estimate import estimate_step
from braces.runtime.profiling.hlo_text import HloModule, Numbering

TEXT = """
HloModule jit_one, entry_computation_layout={()->f32[4]}

%body (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %again = f32[4]{0} all-reduce(%p), replica_groups=[2,4]<=[8], metadata={op_name="jit(one)/loop#1/while/body/add#2/add"}
}

%outer (p: (s32[], f32[4])) -> (s32[], f32[4]) {
  %inner = (s32[], f32[4]{0}) while(%p), condition=%c, body=%body, backend_config={"known_trip_count":{"n":"3"}}
}

%unknown (p: f32[4]) -> f32[4] {
  %there = f32[4]{0} all-gather(%p), replica_groups={{0,1},{2,3}}, dimensions={0}
}

ENTRY %main (a: f32[4], b: bf16[8,2]) -> f32[4] {
  %w = (s32[], f32[4]{0}) while(%t), condition=%c, body=%outer, backend_config={"known_trip_count":{"n":"5"}}
  %v = (s32[], f32[4]{0}) while(%t), condition=%c, body=%unknown
  %g = f32[4]{0} negate(%a), metadata={op_name="jit(one)/tanh#0/neg"}
  %begun = ((f32[4]{0}, bf16[8,2]{1,0}), (f32[16]{0}, bf16[32,2]{1,0})) all-gather-start(%g, %b), replica_groups={{0,2,4,6},{1,3,5,7}}, dimensions={0}
  %done = (f32[16]{0}, bf16[32,2]{1,0}) all-gather-done(%begun)
  %both = (f32[4]{0}, pred[3]{0}) all-reduce-start(%a, %b), replica_groups=mesh['axis_0'=4,'axis_1'=2] {'axis_0'}, metadata={op_name="jit(one)/(tanh#0/neg:loop#1/exp)"}
  %part = f32[4]{0} reduce-scatter(%a), replica_groups={{0,1,2,3,4,5,6,7}}
  ROOT %sent = f32[4]{0} collective-permute(%a), source_target_pairs={{0,0},{1,3},{2,2}}
}
"""  # noqa: E501 - lines as XLA writes them


def made() -> dict[str, Collective]:
    with br.Program() as program:
        x = br.tanh(br.data("x", [4]), name="squash")
        with br.block("loop"):
            br.exp(x, name="more")
    numbering = Numbering(program.definition.main)
    found = find_collectives(TEXT, HloModule(TEXT), numbering, {"data": 4, "model": 2})
    return {f"{one.kind} {'' if one.trips == 1 else one.trips}".strip(): one for one in found}


def test_bytes_and_trips_are_read() -> None:
    found = made()
    assert {name: (one.bytes, one.group) for name, one in found.items()} == {
        "all-reduce 15": (16, 4),
        "all-gather None": (16, 2),
        "all-gather": (16 * 4 + 32 * 2 * 2, 4),
        "all-reduce": (16 + 3, 4),
        "reduce-scatter": (16 * 8, 8),
        "collective-permute": (16, 2),
    }
    assert found["all-reduce 15"].total_bytes == 15 * 16
    assert found["all-gather None"].total_bytes == 16


def test_operators_are_those_of_the_instruction_or_of_what_it_reads() -> None:
    found = made()
    assert found["all-gather"].operators == ("squash",)
    assert found["all-reduce"].operators == ("squash", "loop")
    assert found["reduce-scatter"].operators == ()


def test_groups_lie_along_axes() -> None:
    axes = {name: one.axes for name, one in made().items()}
    assert axes["all-gather"] == axes["all-reduce"] == ("data",)
    assert axes["all-gather None"] == ("model",)
    assert axes["reduce-scatter"] == ("data", "model")


@pytest.mark.parametrize(
    ("told", "group"),
    [
        ("replica_groups={{0,4},{1,5}}", (0, 4)),
        ("replica_groups=[4,2]<=[8]", (0, 1)),
        ("replica_groups=[4,2]<=[2,2,2]T(2,1,0)", (0, 4)),
        ("replica_groups=mesh['a'=2,'b'=4] {'b'}", (0, 1, 2, 3)),
        ("replica_groups=mesh['a'=2,'b'=4] {'a','b':(1)2}", (0, 2, 4, 6)),
        ("replica_groups=mesh['a'=2,'b'=4] {'b':(2)2}", (0, 1)),
        ("source_target_pairs={{0,0},{1,6},{2,3}}", (1, 6)),
        ("replica_groups={}", tuple(range(8))),
        ("", tuple(range(8))),
    ],
)
def test_the_first_group_is_read(told: str, group: tuple[int, ...]) -> None:
    assert tuple(sorted(first_group(told, 8))) == group


def test_axes_of_a_group() -> None:
    mesh = {"a": 2, "b": 2, "c": 2}
    assert axes_along((0, 4), mesh) == ("a",)
    assert axes_along((0, 1, 4, 5), mesh) == ("a", "c")
    assert axes_along((3,), mesh) == ()


# ---- estimates -------------------------------------------------------------------------------


def one_of(kind: str, group: int = 8, span: int = 8) -> Collective:
    return Collective(kind, (), (), (), ("data",), group, span, 450 * 10**6, 1)


def test_a_ring_sends_what_formulas_say() -> None:
    sent = {kind: one_of(kind).sent_bytes / (450 * 10**6) for kind in KINDS}
    assert sent == {
        "all-reduce": 2 * 7 / 8, "all-gather": 7 / 8, "reduce-scatter": 7 / 8,
        "all-to-all": 7 / 8, "collective-permute": 1.0,
    }  # fmt: skip


def test_a_step_is_the_longer_of_two_and_what_is_sent() -> None:
    h100 = find_device_specs("h100")
    near, far = one_of("all-gather"), one_of("all-gather", span=16)
    found = estimate_step(h100, 494e12, 3350e9 / 2, 81 * 10**9, [near], narrow=False)
    assert (found.compute_s, found.memory_s, found.fits) == (1.0, 0.5, False)
    assert found.collectives_s == pytest.approx(7 / 8 / 1000)
    assert found.step_s == pytest.approx(1 + 7 / 8 / 1000)
    wide = estimate_step(h100, 494e12, 0, 0, [far], narrow=True)
    assert wide.compute_s == pytest.approx(494 / 989)
    assert wide.collectives_s == pytest.approx(9 * found.collectives_s)  # over the network
    assert wide.fits


def test_the_table_of_devices_is_in_order() -> None:
    for name, one in DEVICES.items():
        assert name == one.name
        assert one.f32_flops_per_s <= one.bf16_flops_per_s
        assert one.network_bytes_per_s < one.link_bytes_per_s < one.memory_bytes_per_s
        assert one.memory_bytes >= 16 * 10**9
    with pytest.raises(br.DeviceError, match=r"(?s)'h10'.*h100"):
        find_device_specs("h10")
