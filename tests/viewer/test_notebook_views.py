"""What notebooks and completion show of programs, models, executors and others."""

import re

import pytest

import braces as br

TITLE = re.compile(
    r"(?:\d+ )?(states|gradient|optimizer|update|next values)(?: – \d+ operators?)?$"
)


@pytest.fixture(scope="module")
def step():
    with br.Program() as prog:
        x, t = br.data("x", ["n", 4]), br.data("t", ["n", 3])
        y = br.dropout(br.fc(x, 3, name="out"), 0.5)
        accuracy = br.metrics.mean(br.sum(y), name="height")
        br.optimizer.adam(0.1).minimize(br.mean((y - t) ** 2))
    return prog, y, accuracy


@pytest.fixture(scope="module")
def model(step, tmp_path_factory):
    prog, y, _ = step
    path = tmp_path_factory.mktemp("views") / "m"
    br.save_model(path, prog, br.Executor().init(prog), ["x"], {"scores": y})
    return br.load_model(path)


def lines(text):
    """The rows of a fragment with the number of closed boxes around each."""
    depth, found = [], []
    for tag, text_ in re.findall(r"(<details[^>]*>|</details>|<[^>]*>)([^<]*)", text):
        if tag.startswith("<details"):
            depth.append(" open" not in tag)
        elif tag == "</details>":
            depth.pop()
        if text_.strip():
            found.append((sum(depth), text_))
    return found


def test_a_training_program_shows_its_forward_part_first_and_the_optimizer_folded(step):
    found = lines(step[0]._repr_html_())
    seen = [text for closed, text in found if not closed]
    assert seen[1:5] == [
        "data x: f32[n,4]",
        "data t: f32[n,3]",
        "parameter out.w: f32[4,3]",
        "parameter out.b: f32[3]",
    ]
    assert seen[-1].startswith("return ")
    assert "matmul_0: f32[n,3] = matmul(x=x, y=out.w)" in seen[5]
    titles = [text for closed, text in found if closed == 1 and TITLE.match(text)]
    kinds = [TITLE.match(title).group(1) for title in titles]
    assert kinds == ["states", "gradient", "optimizer", "update", "next values"]
    folded = [text for closed, text in found if closed]
    assert any("update out.w = " in text for text in folded)
    assert any("state adam/count" in text for text in folded)


def test_every_operator_of_the_main_block_is_in_the_view(step):
    prog = step[0]
    text = prog._repr_html_()
    for op in prog.block(0).ops:
        assert f"= {op.type}(" in text


def test_blocks_models_and_executors_have_a_view(step, model):
    prog = step[0]
    assert "matmul(x=x" in prog.block(0)._repr_html_()
    page = model._repr_html_()
    assert "predict(x: f32[n,4]) -&gt; scores: f32[n,3]" in page
    assert "<td>out</td>" in page
    assert "f32[4,3]" in page
    assert repr(model).startswith("<Model: predict(x: f32[n,4]) -> scores: f32[n,3]; train(x")
    exe = br.Executor()
    exe.init(prog)
    assert "1 run, 1 compilation" in exe._repr_html_()
    assert "&lt;Executor (compile)" in exe._repr_html_()


def test_metrics_and_checkpoints_say_what_they_hold(step, tmp_path):
    assert (
        repr(step[2])
        == f"<Metric height: f64[], value `{step[2].value.name}`, batch `{step[2].batch.name}`>"
    )
    job = br.Checkpoint(tmp_path / "job")
    assert repr(job).endswith("job: steps none>")
    job.save_now(br.Scope(), 3)
    job.save_now(br.Scope(), 7)
    assert repr(job).endswith("job: steps 3, 7>")


def test_completion_offers_what_users_call(step, model):
    prog = step[0]
    internal = {
        prog: {"adopt", "like", "update_again", "transaction", "table", "derivations"},
        br.Scope(): {"raws", "put_all", "turn"},
        step[1]: {"table", "info", "read", "composed"},
        model: {"entry"},
    }
    wanted = {
        prog: {"summary", "update", "startup", "var", "save", "cost", "rewrite", "results"},
        br.Executor(): {"run", "stats", "init", "mode"},
        step[1]: {"shape", "dtype", "name", "program"},
        model: {"run", "program", "scope", "executor"},
    }
    for holder, names in internal.items():
        assert not names & {*dir(holder)}
        assert all(hasattr(holder, name) for name in names)
    for holder, names in wanted.items():
        assert names <= {*dir(holder)}
    for holder in (*internal, *wanted):
        public = [name for name in dir(holder) if not name.startswith("_")]
        assert "attribute_hints" not in public
        assert all(hasattr(holder, name) for name in public)


def test_classes_that_users_write_with_are_public_and_offer_what_they_write():
    with br.Program():
        x = br.data("x", ["t", 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            memory = net.add_memory(init=br.zeros([3]))
            memory.update(memory + net.add_input(x))
        loop = br.create_while()
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0, dtype="int32"))
            body.set_condition(count < 3)
            count.update(count + 1)
        choice = br.create_if_else(br.sum(x) > 0.0)
        with choice.true_block() as case:
            case.add_output(x)
        choice.pass_through(x)
        with br.block("named") as block:
            br.tanh(x)
        gradient, switch = br.create_custom_gradient("g"), br.create_switch()
    offered = {
        br.Rnn: (rnn, "final stepnet"),
        br.StepNet: (net, "add_input add_memory add_output stop_when"),
        br.While: (loop, "block final"),
        br.WhileBlock: (body, "add_memory add_output set_condition"),
        br.IfElse: (choice, "false_block pass_through true_block"),
        br.Branch: (case, "add_input add_output"),
        br.Switch: (switch, "case default pass_through"),
        br.PlainBlock: (block, "inputs name recompute results"),
        br.CustomGradient: (gradient, "block gradient name"),
    }
    for cls, (value, names) in offered.items():
        assert type(value) is cls
        assert [name for name in dir(value) if not name.startswith("_")] == names.split()
        assert repr(value).startswith(f"<{cls.__name__}: ")
    assert isinstance(memory, br.Memory)
    assert repr(count) == f"<Memory {count.name}: i32[]>"
    assert {"next", "pre", "update", "shape"} <= {*dir(memory)}
    assert not {"inits", "position", "table"} & {*dir(memory)}
