"""Names of axes: their declaration, their propagation, and their text form."""

from __future__ import annotations

from typing import Any

import pytest

import braces as br


def shown(program: br.Program) -> dict[str, str]:
    """The types of what a program keeps."""
    return {info.name: info.shown_type for info in program.persistables}


def perceptron() -> br.Program:
    """A layer, a norm and a layer back."""
    with br.Program() as program:
        h = br.fc(br.data("x", ["batch", ("embed", 16)]), ("mlp", 32), act="relu", name="up")
        h = br.layer_norm(br.dropout(h, 0.5), name="norm")
        h = br.fc(h, ("embed", 16), name="down")
        loss = br.mean(br.fc(h, 8, bias=False, name="last"))
        br.optimizer.sgd(1e-2).minimize(loss)
    return program


def test_layers_know_the_axes_of_what_they_are_given() -> None:
    found = shown(perceptron())
    assert found["up.w"] == "f32[embed=16,mlp=32]"
    assert found["up.b"] == found["norm.scale"] == found["norm.bias"] == "f32[mlp=32]"
    assert found["down.w"] == "f32[mlp=32,embed=16]"
    assert found["last.w"] == "f32[embed=16,8]"


def test_a_transformer_is_named_by_its_sizes() -> None:
    with br.Program() as program:
        ids = br.data("x", ["batch", "time"], dtype="int32")
        h = br.embedding(ids, [("words", 40), ("embed", 32)], name="table")
        for at in range(2):
            h = br.layers.transformer_encoder_layer(
                h, ("heads", 4), ("mlp", 64), name=f"layer{at}"
            )
        br.fc(h, 8, name="down")
    found = shown(program)
    assert found["table.w"] == "f32[words=40,embed=32]"
    assert found["down.w"] == "f32[embed=32,8]"
    for role in "qkv":
        assert found[f"layer1/attention/{role}.w"] == "f32[embed=32,heads=32]"
        assert found[f"layer1/attention/{role}.b"] == "f32[heads=32]"
    assert found["layer1/attention/out.w"] == "f32[heads=32,embed=32]"
    assert found["layer1/hidden.w"] == "f32[embed=32,mlp=64]"
    assert found["layer1/out.w"] == "f32[mlp=64,embed=32]"
    assert found["layer1/norm2.scale"] == "f32[embed=32]"


def test_other_layers_take_names() -> None:
    with br.Program() as program:
        c = br.data("c", ["batch", ("rgb", 4), 8, 8])
        c = br.relu(br.conv2d(c, ("channels", 8), 3, name="first"))
        br.conv2d(c, ("channels", 16), 3, name="second")
        br.conv2d(c, 16, 3, groups=2, name="cut")
        x = br.data("x", ["batch", "time", ("embed", 4)])
        br.lstm(x, ("hidden", 8), name="lstm")
        y = br.data("y", ["batch", ("left", 3)])
        br.layers.bilinear(y, x[:, 0], ("out", 5), name="both")
        br.state("count", [("embed", 4)])
    found = shown(program)
    assert found["first.w"] == "f32[channels=8,rgb=4,3,3]"
    assert found["second.w"] == "f32[channels=16,channels=8,3,3]"
    assert found["cut.w"] == "f32[16,4,3,3]"
    assert found["lstm/forward.w"] == "f32[embed=4,32]"
    assert found["lstm/forward.u"] == "f32[hidden=8,32]"
    assert found["both.w"] == "f32[out=5,left=3,embed=4]"
    assert found["count"] == "f32[embed=4]"


def test_what_is_undone_leaves_no_name() -> None:
    with br.Program() as program:
        x = br.data("x", ["batch", ("embed", 4)])
        with pytest.raises(br.ShapeError):
            br.fc(x, ("mlp", 3), name="a") + br.fc(x, ("mlp", 2), name="b")
        y = br.exp(br.data("y", ["batch", 4]))
        br.fc(y, 4, name="plain")
    assert shown(program)["plain.w"] == "f32[4,4]"


def test_a_parameter_of_each_stage_keeps_its_names() -> None:
    with br.Program() as program:
        x = br.data("x", ["parts", "rows", 8])
        br.pipeline(lambda h: h + br.fc(h, ("mlp", 8), name="mix"), x, stages=4)
    assert shown(program) == {
        "stages/mix.w": "f32[4,8,mlp=8]",
        "stages/mix.b": "f32[4,mlp=8]",
    }


# ---- the program says it ---------------------------------------------------------------------


def test_text_and_bytes_have_names() -> None:
    program = perceptron()
    assert "parameter up.w: f32[embed=16,mlp=32] trainable" in str(program)
    assert "data x: f32[batch,embed=16]" in str(program)
    for again in (br.parse(str(program)), br.Program.from_bytes(program.to_bytes())):
        assert str(again) == str(program)
        assert again.definition.main.vars == program.definition.main.vars
        assert br.fingerprint(again) == br.fingerprint(program)
        assert shown(again) == shown(program)


def test_names_are_part_of_the_fingerprint_where_there_are_some() -> None:
    texts = [
        f"program {{ data x: f32[b,{axis}]  y: f32[b,4] = tanh(x=x)  return y }}"
        for axis in ("4", "embed=4", "mlp=4")
    ]
    prints = [br.fingerprint(br.parse(text)) for text in texts]
    assert len(set(prints)) == 3
    assert b"axes" not in br.parse(texts[0]).to_bytes()


@pytest.mark.parametrize(
    "type_",
    ["f32[embed=b]", "f32[=4]", "f32[2x=4]", "f32[a=b=4]", "f32[a=]", "f32[a b=4]",
     "list<f32[a=4]>", f"f32[{'a' * 300}=4]"],
)  # fmt: skip
def test_text_that_names_no_axis_is_refused(type_: str) -> None:
    with pytest.raises(br.FileFormatError):
        br.parse(f"program {{ data x: {type_} }}")


def test_bytes_that_name_no_axis_are_refused() -> None:
    with br.Program() as program:
        br.data("x", [("embed", 4), "rows"])
    data = program.to_bytes()
    with pytest.raises(br.FileFormatError, match="invalid axis name"):
        br.Program.from_bytes(data.replace(b"embed", b"em,ed"))


@pytest.mark.parametrize(
    "size",
    [("mlp", "rows"), ("mlp", -1), ("mlp", None), ("mlp", True), ("mlp", 4.0), ("mlp",),
     ("mlp", 4, 5), ("", 4), ("m lp", 4), ("2", 4), (4, "mlp"), ["mlp", 4]],
)  # fmt: skip
def test_what_is_no_pair_is_refused(size: Any) -> None:
    with br.Program():
        with pytest.raises(br.BracesError, match="test_axis_names"):
            br.parameter("w", [size, 4])
        with pytest.raises(br.BracesError, match="test_axis_names"):
            br.fc(br.data("x", ["batch", 4]), size)
