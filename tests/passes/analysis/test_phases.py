"""Phases of the operators of a training step."""

import braces as br
from braces.passes.analysis.phases import FORWARD, GRADIENT, OPTIMIZER, UPDATE, phases


def found_in(prog):
    found = phases(prog.definition)
    return {phase: [n for n, p in found.items() if p == phase] for phase in found.values()}


def test_a_training_step_has_a_forward_part_gradients_an_optimizer_and_updates():
    with br.Program() as prog:
        h = br.dropout(br.fc(br.data("x", ["n", 4]), 3, name="out"), 0.5)
        loss = br.mean(h * h)
        pairs = br.optimizer.adam(0.1).minimize(loss)
        br.sum(br.abs(pairs[prog.parameters[0]]), name="watched")
    found = found_in(prog)
    assert found[FORWARD] == ["matmul_0", "out", "dropout_0", "multiply_0", "mean_0"]
    assert "watched" in found[GRADIENT]
    assert "sqrt_0" in str(prog)
    assert len(found[OPTIMIZER]) > 0
    assert found[UPDATE] == ["next_random_state_0"]
    again = br.Program.from_bytes(prog.to_bytes())
    assert phases(again.definition) == phases(prog.definition)


def test_gradients_that_a_loss_reads_are_forward():
    with br.Program() as prog:
        w = br.parameter("w", [3])
        energy = br.sum(br.tanh(w))
        (slope,) = br.gradients(energy, w)
        br.optimizer.sgd(0.1).minimize(br.sum(slope * slope, name="penalty"))
    found = found_in(prog)
    assert "penalty" in found[FORWARD]
    assert {"tanh_0", "sum_0"} < {*found[FORWARD]}
    assert found[GRADIENT]
    assert found[OPTIMIZER]


def test_a_program_without_derivatives_is_forward():
    with br.Program() as prog:
        count = br.state("count", [], init=0.0)
        prog.update(count, count + 1.0)
        br.tanh(br.data("x", [3]))
    assert found_in(prog) == {UPDATE: ["constant_0", "add_0"], FORWARD: ["tanh_0"]}


def test_the_gradient_of_a_loop_is_a_gradient_though_its_trip_count_is_unread():
    with br.Program() as prog:
        w, rnn = br.parameter("w", [3]), br.create_rnn()
        x = br.data("x", ["t"])
        with rnn.stepnet() as net:
            memory = net.add_memory(init=w)
            memory.update(br.tanh(memory.pre(1) * net.add_input(x)))
        br.optimizer.sgd(0.1).minimize(br.sum(rnn.final(memory)))
    found = found_in(prog)
    assert "loop_0" in found[FORWARD]
    assert "loop_0_grad_0" in found[GRADIENT]
