"""`br.diff`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import braces as br

NESTED = """
program {
  data x: f32[t,3]
  parameter w: f32[3] trainable
  zero: f32[3] = full() {shape=[3], value=0.0, dtype=f32}
  final=[last: f32[3]], trips=[trips: i64[]] = loop(init=zero, sliced=x) captures [w] as l
    body (t: i64[], h: f32[3], row: f32[3]) {
      a: f32[3] = add(x=h, y=row)
      b: f32[3] = multiply(x=a, y=w)
      k: f32[3] = exp(x=w)
      c: f32[3] = multiply(x=b, y=k)
      return c
    }
  out: f32[3] = softmax(x=last) {axis=-1}
  return out
}
"""


def listed(diff: object) -> list[str]:
    return [" ".join(line.split()) for line in str(diff).splitlines()]


def training() -> br.Program:
    """A step with an RNN with lengths, a row-wise branch, a while, and updates."""
    with br.Program() as prog:
        x, lens = br.data("x", ["b", "t", 4]), br.data("lens", ["b"], "int32")
        rnn = br.create_rnn(lengths=lens)
        with rnn.stepnet() as net:
            row, h = net.add_input(x, axis=1), net.add_memory(shape=[8], batch_like=x)
            h.update(br.tanh(br.fc(br.concat([row, h.pre(1)], axis=-1), 8, name="cell")))
        choice = br.create_if_else(br.sum(rnn.final(h), axis=1) > 0.0)
        with choice.true_block() as case:
            case.add_output(br.sigmoid(case.add_input(rnn.final(h)), name="gate"))
        with choice.false_block() as case:
            case.add_output(case.add_input(rnn.final(h)))
        loss = br.mean(choice() ** 2, name="loss")
        br.optimizer.sgd(0.1).minimize(loss)
    return prog


def test_equal_programs_are_falsy_and_say_so() -> None:
    prog = training()
    for same in (prog, br.parse(str(prog)), br.Program.from_bytes(prog.to_bytes())):
        if str(same.startup) != str(prog.startup):
            same.startup = prog.startup
        found = br.diff(prog, same)
        assert not found
        assert len(found) == 0
        assert str(found) == "The programs are equivalent."


def test_an_operator_with_the_name_of_a_removed_one_replaces_it() -> None:
    a = br.parse(NESTED)
    b = br.parse(NESTED.replace("b: f32[3] = multiply(x=a, y=w)", "b: f32[3] = add(x=a, y=w)"))
    assert listed(br.diff(a, b)) == [
        "block l/body",
        "~ b: multiply → add",
        "- b = multiply(x=a, y=w)",
        "+ b = add(x=a, y=w)",
    ]


def test_an_operator_that_a_pass_moves_out_of_a_loop_has_moved() -> None:
    prog = br.parse(NESTED)
    found = br.diff(prog, br.passes.licm(prog))
    assert "> k = exp(x=w)" in listed(found)
    assert "block l/body → block 0" in listed(found)
    assert {change.how for change in found} <= {"moved", "changed"}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("axis=-1", "axis=0", "axis: -1 → 0"),
        ("as l\n", "as l\n", ""),
        ("parameter w: f32[3] trainable", "parameter w: f32[3]", "~ variable w"),
        ("  return out", "  update w = out\n  return out", "+ update w = out"),
        ("data x: f32[t,3]", "data x: f32[t,3]  data y: f32[2]", "+ data y: f32[2]"),
    ],
)
def test_attributes_parameters_data_and_updates(old: str, new: str, line: str) -> None:
    found = br.diff(br.parse(NESTED), br.parse(NESTED.replace(old, new)))
    assert bool(found) == bool(line)
    assert not line or line in listed(found)


def test_changes_in_branches_and_gradients_of_a_training_step_name_their_blocks() -> None:
    prog = training()
    text = str(prog)
    at = text.index("sigmoid(")
    other = br.parse(text[:at] + "tanh(" + text[at + len("sigmoid(") :])
    other.startup = prog.startup
    (change,) = br.diff(prog, other)
    assert change.how == "replaced"
    assert "cases[" in change.block
    assert change.what == "gate: sigmoid → tanh"


def test_changes_of_initial_values_are_those_of_the_startup_program() -> None:
    def made(value: float) -> br.Program:
        with br.Program() as prog:
            _ = br.data("x", [2]) * br.parameter("w", [2], init=value)
        return prog

    found = br.diff(made(1.0), made(2.0))
    assert found
    assert not found.changes
    assert listed(found)[0] == "startup"


def test_types_of_operators_and_order_of_results() -> None:
    text = "program {data x: f32[n]  y: f32[n] = tanh(x=x)  z: f32[n] = exp(x=x)  return y, z}"
    swapped = br.diff(br.parse(text), br.parse(text.replace("return y, z", "return z, y")))
    assert "y, z → z, y" in str(swapped)
    wide = br.diff(br.parse(text), br.parse(text.replace("f32", "f64")))
    assert "out: f32[n] → f64[n]" in listed(wide)


def test_a_notebook_and_a_page_show_both_programs_escaped(tmp_path: Path) -> None:
    a = br.parse(NESTED)
    found = br.diff(a, br.parse(NESTED.replace("exp(x=w)", "tanh(x=w)")))
    shown = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert shown.count("<table") == shown.count("</table>") == 1
    assert "k = exp(x=w)" in shown
    assert "k = tanh(x=w)" in shown
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<table class="pair">' in page
    assert '"m":"replaced"' in page
    assert '"beside":true' in page
    assert " style=" not in page.split("<svg")[0].split("<body>")[1]


def test_a_large_comparison_stays_small_in_a_notebook() -> None:
    with br.Program() as prog:
        y = br.data("x", [3])
        for _ in range(3000):
            y = br.tanh(y)
        prog.give(y.name)
    other = br.parse(str(prog).replace("= tanh(", "= sin("))
    found = br.diff(prog, other)
    assert len(found) == 3000
    assert len(found._repr_html_()) < 200_000  # pyright: ignore[reportPrivateUsage]


def test_other_values_are_refused() -> None:
    with pytest.raises(br.ProgramError, match="expected a program"):
        br.diff(br.parse(NESTED), np.zeros(2))  # pyright: ignore[reportArgumentType]
