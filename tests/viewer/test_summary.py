"""`prog.summary()`: layers with output types, parameters, bytes and operations."""

import pytest

import braces as br


def mlp(trained=True):
    with br.Program() as prog:
        h = br.relu(br.fc(br.data("x", ["n", 8]), 4, name="hidden"))
        y = br.fc(h, 2, name="out")
        if trained:
            br.optimizer.adam(0.1).minimize(br.mean(y * y))
    return prog


def by_name(found):
    return {row.name: row for row in found.rows}


def test_operators_of_a_layer_are_one_row_with_its_parameters():
    found = by_name(mlp(trained=False).summary())
    assert list(found) == ["hidden", "relu_0", "out"]
    assert [str(each) for each in found["hidden"].outputs] == ["f32[n,4]"]
    assert found["hidden"].type == "matmul + add"
    assert [found[name].parameters for name in found] == [36, 0, 10]
    assert [found[name].bytes for name in found] == [144, 0, 40]


def test_gradients_and_optimizer_are_in_the_totals_only():
    plain, trained = mlp(trained=False).summary(), mlp().summary()
    extra = [row.name for row in trained.rows if row.name not in by_name(plain)]
    assert extra == ["multiply_0", "mean_0"]
    assert plain.run_operations == plain.operations
    numbers = mlp().summary(sizes={"n": 3})
    assert numbers.operations == sum(row.operations for row in numbers.rows)
    assert numbers.run_operations == mlp().cost(sizes={"n": 3}).operations
    assert numbers.run_operations > numbers.operations
    assert numbers.peak_bytes == mlp().cost(sizes={"n": 3}).peak_bytes
    assert (plain.state_bytes, trained.state_bytes) == (0, 4 * 2 * 46 + 4 + 4)


def test_sizes_replace_symbols():
    found = by_name(mlp(trained=False).summary(sizes={"n": 3}))
    assert [str(each) for each in found["out"].outputs] == ["f32[3,2]"]
    assert found["out"].operations == 3 * 2 * (2 * 4 + 1)
    with pytest.raises(br.errors.UnknownNameError, match="no dimension `m`"):
        mlp().summary(sizes={"m": 3})
    with pytest.raises(br.ShapeError, match="an integer of at least 0"):
        mlp().summary(sizes={"n": -3})


def test_trainable_and_frozen_parameters_are_counted_apart():
    with br.Program() as prog:
        x = br.data("x", ["n", 8])
        table = br.parameter("table", [8, 4], trainable=False)
        br.fc(x @ table, 2, name="out")
    found = prog.summary()
    assert (found.parameters, found.trainable, found.frozen) == (42, 10, 32)
    assert by_name(found)["table"].trainable == 0
    assert "frozen     32" in str(found)


def test_blocks_contain_their_layers_up_to_a_depth():
    with br.Program() as prog:
        x = br.data("x", ["n", 8])
        with br.block("encoder"):
            with br.block("first"):
                x = br.tanh(br.fc(x, 4, name="fc"))
            x = br.fc(x, 3, name="last")
        br.sum(x)
    rows = prog.summary().rows
    shown = [(row.depth, row.name) for row in rows]
    inner = [(1, "first"), (2, "fc"), (2, "tanh_0"), (1, "last")]
    assert shown == [(0, "encoder"), *inner, (0, "sum_0")]
    assert [row.parameters for row in rows] == [51, 36, 36, 0, 15, 0]
    assert rows[0].operations == rows[1].operations + rows[4].operations
    assert [str(each) for each in rows[0].outputs] == ["f32[n,3]"]
    assert rows[2].path == "encoder/body/encoder/first/body/encoder/first/fc"
    assert rows[2].path in prog
    folded = prog.summary(depth=0)
    assert [row.name for row in folded.rows] == ["encoder", "sum_0"]
    assert (folded.folded, folded.parameters) == (4, 51)
    assert "4 inner rows folded" in str(folded)
    for depth in (-1, "1", True):
        with pytest.raises(br.ProgramError, match="`depth`"):
            prog.summary(depth=depth)


def test_loops_state_their_trip_counts_and_branches_their_cases():
    with br.Program() as prog:
        x = br.data("x", ["t", "n", 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as body:
            h = body.add_memory(init=br.zeros_like(x[0]))
            h.update(br.tanh(br.fc(body.add_input(x), 4, name="cell") + h))
            body.add_output(h.next)
        y = rnn()[-1]
        loop = br.create_while(max_trips=9)
        with loop.block() as body:
            z = body.add_memory(init=y)
            body.set_condition(br.any(z > 1.0))
            z.update(z * 0.5)
        br.cond(br.sum(x) > 0.0, lambda: br.exp(loop.final(z)), lambda: br.abs(loop.final(z)))
    found = prog.summary()
    rows = by_name(found)
    loops = [row for row in found.rows if row.trips is not None]
    assert loops[0].type == "loop, t trips"
    assert loops[1].type.startswith("loop, ")
    assert "trips" in loops[1].type
    assert (rows["cell"].depth, rows["cell"].parameters) == (1, 20)
    assert "loop, 6 trips" in str(prog.summary(sizes={"t": 6}))
    assert [row.name for row in found.rows if row.type == ""][-2:] == ["cases[0]", "cases[1]"]
    assert {"exp_0", "abs_0"} <= rows.keys()


def test_a_shared_parameter_counts_once():
    with br.Program() as prog:
        x = br.data("x", ["n", 4])
        w = br.parameter("w", [4, 4])
        br.sum(br.tanh(x @ w) @ w)
    found = prog.summary()
    assert [row.parameters for row in found.rows if row.name == "w"] == [16, 0]
    assert found.parameters == 16


def test_imported_models_and_text_have_a_summary(tmp_path):
    prog = mlp(trained=False)
    scope = br.Executor().init(prog)
    br.to_onnx(prog, tmp_path / "m.onnx", scope=scope, fetches=["out"])
    imported, _ = br.from_onnx(tmp_path / "m.onnx")
    found = imported.summary()
    assert found.parameters == 46
    assert sum(row.parameters for row in found.rows if row.depth == 0) == 46
    again = br.parse(str(mlp()))
    assert str(again.summary()) == str(mlp().summary())
    assert br.Program().summary().rows == ()


def test_the_table_prints_and_is_escaped_html():
    with br.Program() as prog:
        x = br.data("x", ["n", 8])
        with br.block("deep"):
            h = br.fc(x, 4, name="hidden")
        br.sum(h)
    found = prog.summary()
    head, first, second = str(found).split("\n")[:3]
    assert head.split() == ["layer", "type", "output", "parameters", "bytes", "operations"]
    assert first.startswith("deep ")
    assert second.startswith("  hidden ")
    assert repr(found) == str(found)
    page = found._repr_html_()
    assert "<td>\u00a0\u00a0hidden</td>" in page
    assert page.count("<tr>") == str(found).count("\n")


def test_operations_with_too_many_symbols_are_unknown_and_the_table_still_prints():
    with br.Program() as prog:
        names = [f"d{index}" for index in range(70)]
        parts = [br.data(name, [name, f"{name}_b"]) for name in names]
        br.concat([br.reshape(br.exp(part), [-1]) for part in parts])
    found = prog.summary()
    assert len(found.rows) > 70
    assert str(found)


def classifier():
    with br.Program() as prog:
        x, y = br.data("x", ["n", 8]), br.data("y", ["n"], dtype="int32")
        logits = br.fc(br.fc(x, 4, act="relu", name="hidden"), 3, name="out")
        br.metrics.accuracy(logits, y, name="accuracy")
        br.metrics.f1(br.argmax(logits, axis=-1), y, name="f1")
        words = [br.data(name, ["n", "t"], dtype="int32") for name in ("a", "b")]
        br.metrics.edit_distance(*words, name="edits")
        br.optimizer.adam(0.1).minimize(br.softmax_cross_entropy(logits, y))
    return prog


@pytest.mark.parametrize("stored", [False, True])
def test_each_metric_is_one_row(stored):
    prog = classifier()
    prog = br.Program.from_bytes(prog.to_bytes()) if stored else prog
    summary = prog.summary(sizes={"n": 5, "t": 4})
    metrics = [row for row in summary.rows if row.type == "metric"]
    assert [row.name for row in metrics] == ["accuracy", "f1", "edits"]
    assert [str(row.outputs[0]) for row in metrics] == ["f64[]"] * 3
    assert all(row.operations > 0 for row in metrics)
    others = [row.name for row in summary.rows if row.type != "metric"]
    assert others[:3] == ["hidden", "hidden", "out"]
    assert others[3:] == ["softmax_cross_entropy_0", "mean_0"]
    assert summary.operations == sum(row.operations for row in summary.rows)


def test_a_metric_on_the_line_of_its_layer_keeps_the_layer():
    with br.Program() as prog:
        x, y = br.data("x", ["n", 8]), br.data("y", ["n"], dtype="int32")
        br.metrics.accuracy(br.fc(x, 3, name="out"), y, name="accuracy")
    rows = prog.summary().rows
    assert [(row.name, row.parameters) for row in rows] == [("out", 27), ("accuracy", 0)]
    with br.Program() as two:
        x = br.data("x", ["n"])
        _ = [br.metrics.mean(x * k, name=f"m{k}") for k in (2, 3)]
    assert [row.name for row in two.summary().rows] == ["m2", "m3"]


def test_views_of_a_program_fold_its_metrics():
    text = classifier()._repr_html_()
    folded = text.index("metrics –")
    assert text.index("<summary>metrics – ") < text.index("accumulate(")
    assert "accumulate(" not in text[:folded]
