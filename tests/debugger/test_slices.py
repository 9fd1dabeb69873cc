"""Slices through loops, branches and gradients."""

from __future__ import annotations

import braces as br
from braces.debugger.recorded.sites import Sites
from braces.debugger.recorded.slices import CARRY, INITIAL, OPERAND, RESULT, Flow
from tests.debugger.programs import branches, halving, nested


def flow_of(prog: br.Program) -> tuple[Sites, Flow]:
    sites = Sites(prog.main_place)
    return sites, Flow(sites)


def paths(sites: Sites, variables: set) -> set[str]:
    return {sites.places[one.block].path_of(one.name) for one in variables}


def test_a_backward_slice_goes_through_nested_loops() -> None:
    sites, flow = flow_of(nested())
    found = paths(sites, flow.backward(sites.variable("y")))
    assert {"x", "loop_1/body/h", "loop_1/body/loop_0/body/s"} <= found
    assert paths(sites, flow.backward(sites.variable("x"))) == {"x"}


def test_a_forward_slice_reaches_the_results() -> None:
    sites, flow = flow_of(nested())
    found = paths(sites, flow.forward(sites.variable("x")))
    assert {"y", "loop_1/body/h", "loop_1/body/loop_0/body/s"} <= found
    assert paths(sites, flow.forward(sites.variable("y"))) == {"y"}


def test_forward_and_backward_slices_agree() -> None:
    _, flow = flow_of(branches())
    variables = {v for edge in flow.edges for v in (edge.source, edge.target)}
    for one in list(variables)[:40]:
        for other in flow.backward(one):
            assert one in flow.forward(other)


def test_the_kind_of_an_edge_tells_the_iteration() -> None:
    sites, flow = flow_of(nested())
    body = "loop_1/body/loop_0/body"
    (memory,) = (
        edge.target
        for edge in flow.edges
        if edge.kind == CARRY and edge.source == sites.variable(f"{body}/s")
    )
    kinds = {edge.kind for edge in flow.edges if edge.target == memory}
    assert kinds == {INITIAL, CARRY}
    assert {edge.kind for edge in flow.edges} >= {OPERAND, RESULT}


def test_masks_and_indices_control_what_branches_compute() -> None:
    sites, flow = flow_of(branches())
    partition = flow.backward(sites.variable("loop_0/body/partition_0"))
    assert "loop_0/body/greater_0" in paths(sites, partition)
    switch = flow.backward(sites.variable("loop_0/body/switch_0"))
    assert {"which", "loop_0/body/switch_0/cases[0]/sine"} <= paths(sites, switch)


def test_a_slice_leaves_out_what_does_not_contribute() -> None:
    with br.Program() as prog:
        x, y = br.data("x", [2]), br.data("y", [2])
        br.tanh(x, name="a")
        br.exp(y, name="b")
    sites, flow = flow_of(prog)
    assert paths(sites, flow.backward(sites.variable("a"))) == {"a", "x"}


def test_gradients_depend_on_the_values_of_the_forward_pass() -> None:
    prog = branches()
    sites, flow = flow_of(prog)
    updated = sites.variable(dict(prog.updates)["w"])
    assert {"x", "loop_0/body/partition_0/cases[1]/warm"} <= paths(
        sites, flow.backward(updated)
    )


def test_the_condition_of_a_while_loop_controls_its_result() -> None:
    sites, flow = flow_of(halving())
    final = next(iter(sites.places[0].body.ops[-1].binds()))
    found = paths(sites, flow.backward(sites.variable(final)))
    assert any(path.startswith("loop_0/cond/") for path in found)
