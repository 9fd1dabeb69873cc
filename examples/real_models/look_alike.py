"""Small models with the structure and the names of the real ones, and random weights.

Tests run them if the packages are not installed, from files to pages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.parser
from onnx import numpy_helper

from examples.real_models import packages

Weights = Mapping[str, tuple[int, ...]]

NUMBERS = {
    "zero": [0], "one": [1], "two": [2], "eight": [8], "far": [99], "minus_one": -1,
    "starts": [0, 1], "ends": [1, 2], "pads": [0, 0, 0, 0, 0, 32], "rate": 16000, "axes": 2,
    "depth": 257, "groups": [512, 32], "parts": [12, 12], "dozen": [12], "rest": [-1],
    "doubled": [1.0, 1.0, 2.0, 2.0], "values": [0.0, 1.0], "little": 1e-3, "nothing": 0.0,
    "never": -1e9,
}  # fmt: skip
"""What nodes call by these names: numbers of int64, or of float32."""

# ---- speech ----------------------------------------------------------------------------------

HEAR_WEIGHTS: Weights = {
    "basis": (16, 1, 128), "we": (8, 8, 3), "be": (8,), "W": (1, 512, 8), "R": (1, 512, 128),
    "B": (1, 1024), "wd": (128, 1),
}  # fmt: skip


def hear(mark: str, sound: str, h: str, c: str, out: str) -> str:
    """The nodes of a speech detector: a transform of windows, a convolution, an LSTM."""
    axis, squeezed = ("one", "ends") if mark == "s" else ("zero", "starts")
    return f"""
        wide{mark} = Unsqueeze({sound}, one)
        padded{mark} = Pad<mode = "reflect">(wide{mark}, pads)
        waves{mark} = Conv<strides = [64]>(padded{mark}, basis)
        real{mark} = Slice(waves{mark}, zero, eight, one)
        imaginary{mark} = Slice(waves{mark}, eight, far, one)
        real2{mark} = Mul(real{mark}, real{mark})
        imaginary2{mark} = Mul(imaginary{mark}, imaginary{mark})
        power{mark} = Add(real2{mark}, imaginary2{mark})
        loud{mark} = Sqrt(power{mark})
        seen{mark} = Conv<pads = [1, 1]>(loud{mark}, we, be)
        lit{mark} = Relu(seen{mark})
        mean{mark} = ReduceMean<keepdims = 0>(lit{mark}, two)
        row{mark} = Unsqueeze(mean{mark}, {axis})
        all{mark}, last{mark}, cell{mark} = LSTM<hidden_size = 128>(
            row{mark}, W, R, B, , {h}, {c})
        flat{mark} = Squeeze(all{mark}, {squeezed})
        logit{mark} = MatMul(flat{mark}, wd)
        {out} = Sigmoid(logit{mark})
    """


def stream(mark: str, out: str, state: str) -> str:
    """The same with both memories in one state."""
    heard = hear(mark, "input", f"h{mark}", f"c{mark}", out)
    return f"""
        h{mark} = Slice(state, zero, one, zero)
        c{mark} = Slice(state, one, two, zero)
        {heard}
        {state} = Concat<axis = 0>(last{mark}, cell{mark})
    """


STATES = "float[batch, 1] {0}, float[2, batch, 128] {1}"


def told() -> str:
    """A network with the sample rate as input, with a branch per rate, and one for the rank."""
    inner = """
        size = Shape(state)
        rank = Size(size)
        flat_state = Equal(rank, axes)
        thenO, thenS = If(flat_state) <
            then_branch = a () => ({deep}) {{ {a} }},
            else_branch = b () => ({other}) {{ {b} }}
        >""".format(
        deep=STATES.format("oa", "sa"),
        a=stream("a", "oa", "sa"),
        other=STATES.format("ob", "sb"),
        b=stream("b", "ob", "sb"),
    )
    return f"""
    told (float[batch, samples] input, float[2, batch, 128] state, int64 sr)
        => (float[batch, 1] output, float[2, batch, 128] stateN) {{
        quick = Equal(sr, rate)
        output, stateN = If(quick) <
            then_branch = t () => ({STATES.format("thenO", "thenS")}) {{ {inner} }},
            else_branch = e () => ({STATES.format("elseO", "elseS")}) {{
                {stream("e", "elseO", "elseS")} }}
        >
    }}"""


def untold() -> str:
    """A network for one sample rate."""
    return f"""
    untold (float[batch, samples] input, float[2, batch, 128] state)
        => (float[batch, 1] output, float[2, batch, 128] stateN) {{
        {stream("u", "output", "stateN")} }}"""


def sequence() -> str:
    """All frames at once: the batch axis of the others is the time axis."""
    return f"""
    sequence (float[frames, 576] input, float[1, 1, 128] h, float[1, 1, 128] c)
        => (float[frames, 1] speech_probs, float[1, 1, 128] hn, float[1, 1, 128] cn) {{
        {hear("s", "input", "h", "c", "speech_probs")}
        hn = Identity(lasts)
        cn = Identity(cells) }}"""


# ---- pictures --------------------------------------------------------------------------------

FIND = """
    find (float[n, 3, height, width] x) => (float[n, 1, height, width] likely) {
        a = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(x, w0)
        b = Relu(a)
        c = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(b, w1)
        d = HardSwish(c)
        e = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
                   nearest_mode = "floor">(d, , doubled)
        f = Add(b, e)
        g = GlobalAveragePool(f)
        h = HardSigmoid(g)
        i = Mul(f, h)
        j = Concat<axis = 1>(i, e)
        k = ConvTranspose<strides = [2, 2]>(j, w2)
        likely = Sigmoid(k)
    }"""
TURN = """
    turn (float[n, 3, 48, 192] x) => (float[n, 2] ways) {
        a = Conv<strides = [4, 4]>(x, w0)
        b = HardSwish(a)
        c = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(b)
        d = GlobalAveragePool(c)
        e = Flatten(d)
        f = MatMul(e, w1)
        ways = Softmax<axis = -1>(f)
    }"""
READ = """
    read (float[n, 3, 48, width] x) => (float[n, t, 6] likely) {
        a = Conv<strides = [8, 8]>(x, w0)
        b = ReduceMean<keepdims = 0>(a, two)
        c = Transpose<perm = [0, 2, 1]>(b)
        d = LayerNormalization(c, scale, shift)
        e = MatMul(d, w1)
        likely = Softmax<axis = -1>(e)
    }"""
SEE = """
    see (float[n, 3, height, width] images) => (float[n, twelve, places] output0) {
        a = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(images, w0)
        b = Sigmoid(a)
        c = Mul(a, b)
        d = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(c, w1)
        e = MaxPool<kernel_shape = [5, 5], pads = [2, 2, 2, 2]>(d)
        f = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
                   nearest_mode = "floor">(e, , doubled)
        g = Concat<axis = 1>(c, f)
        h, i = Split<axis = 1>(g, parts)
        j = Add(h, i)
        size = Shape(j)
        n = Slice(size, zero, one)
        wanted = Concat<axis = 0>(n, dozen, rest)
        output0 = Reshape(j, wanted)
    }"""

# ---- files, sounds, names --------------------------------------------------------------------

LOOK = """
    look (int32[batch, 2048] bytes) => (float[batch, 5] target_label) {
        numbers = Cast<to = 7>(bytes)
        a = OneHot<axis = -1>(numbers, depth, values)
        b = MatMul(a, w0)
        c = Gelu(b)
        shape = Shape(c)
        n = Slice(shape, zero, one)
        wanted = Concat<axis = 0>(n, groups)
        d = Reshape(c, wanted)
        e = Transpose<perm = [0, 2, 1]>(d)
        f = Conv(e, w1)
        g = ReduceMax<keepdims = 0>(f, two)
        h = LayerNormalization(g, scale, shift)
        i = MatMul(h, w2)
        target_label = Softmax<axis = -1>(i)
    }"""
PLAY = """
    play (float[n, 43844, 1] sound) => (float[n, t, 88] onset, float[n, t, 88] note,
            float[n, t, 9] contour) {
        a = Transpose<perm = [0, 2, 1]>(sound)
        b = Pad<mode = "reflect">(a, pads)
        c = Conv<strides = [256]>(b, w0)
        d = Mul(c, c)
        e = Add(d, little)
        f = Log(e)
        g = BatchNormalization(f, scale, shift, means, variances)
        h = Transpose<perm = [0, 2, 1]>(g)
        i = MatMul(h, w1)
        note = Sigmoid(i)
        onset = Mul(note, note)
        j = MatMul(h, w2)
        contour = Sigmoid(j)
    }"""
ENCODE = """
    encode (int64[n, s] src, bool[n, s] src_mask)
        => (float[n, s, 256] memory, bool[n, s] mask, float[2, n, 256] hidden) {
        embedded = Gather(table, src)
        steps = Transpose<perm = [1, 0, 2]>(embedded)
        all, last = GRU<hidden_size = 256, linear_before_reset = 1>(steps, W, R, B)
        flat = Squeeze(all, one)
        rows = Transpose<perm = [1, 0, 2]>(flat)
        gone = Unsqueeze(src_mask, two)
        memory = Where(gone, nothing, rows)
        mask = Identity(src_mask)
        both = Concat<axis = 0>(last, last)
        hidden = Transpose<perm = [1, 0, 2]>(both)
    }"""
DECODE = """
    decode (int64[n, t] prefix, float[n, s, 256] memory, bool[n, s] src_mask,
            float[n, 2, 256] hidden) => (float[n, 20] likely, float[n, 2, 256] after) {
        token = Gather<axis = 1>(prefix, minus_one)
        embedded = Gather(table, token)
        step = Unsqueeze(embedded, zero)
        states = Transpose<perm = [1, 0, 2]>(hidden)
        first = Slice(states, zero, one, zero)
        second = Slice(states, one, two, zero)
        up, last = GRU<hidden_size = 256, linear_before_reset = 1>(step, W, R, B, , first)
        query = Transpose<perm = [1, 2, 0]>(last)
        scores = MatMul(memory, query)
        row = Squeeze(scores, two)
        shown = Where(src_mask, never, row)
        weights = Softmax<axis = -1>(shown)
        wide = Unsqueeze(weights, one)
        context = MatMul(wide, memory)
        seen = Squeeze(context, one)
        logits = MatMul(seen, w)
        likely = LogSoftmax<axis = -1>(logits)
        later = Add(second, last)
        joined = Concat<axis = 0>(last, later)
        after = Transpose<perm = [1, 0, 2]>(joined)
    }"""


@dataclass(frozen=True)
class Sketch:
    """A small model.

    Attributes:
        text: Its graph, in the syntax of `onnx.parser`.
        weights: The shapes of the random weights.
        renamed: Names that the parser cannot read, by their substitutes.
        metadata: The metadata of the file.
    """

    text: str
    weights: Weights
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    def model(self) -> onnx.ModelProto:
        """The model, equal on every run."""
        head = '<ir_version: 9, opset_import: ["" : 20]>'
        made = onnx.parser.parse_model(head + self.text)
        rng = np.random.default_rng(0)
        for name, shape in self.weights.items():
            deep = max(int(np.prod(shape[1:])), 1)
            drawn = rng.normal(size=shape) / np.sqrt(deep) if len(shape) > 1 else np.ones(shape)
            made.graph.initializer.append(_tensor(name, drawn.astype(np.float32)))
        for name, value in NUMBERS.items():
            if re.search(rf"\b{name}\b", self.text):
                array = np.asarray(value)
                kind = np.float32 if array.dtype.kind == "f" else np.int64
                made.graph.initializer.append(_tensor(name, array.astype(kind)))
        onnx.helper.set_model_props(made, dict(self.metadata))
        for old, new in self.renamed.items():
            _rename(made.graph, old, new)
        return made


def _tensor(name: str, array: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for entry in graph.input:
        entry.name = new if entry.name == old else entry.name
    for node in graph.node:
        node.input[:] = [new if name == old else name for name in node.input]


NAME_WEIGHTS: Weights = {
    "table": (160, 16), "W": (1, 768, 16), "R": (1, 768, 256), "B": (1, 1536),
}  # fmt: skip
TOKENS = [
    "<PAD>",
    "<BOS>",
    "<EOS>",
    "<UNK>",
    "<UNK_COUNTRY>",
    "<ROLE_UNKNOWN>",
    *"abdefhiklmnrsu",
]
LABELS = ["python", "json", "csv", "html", "zlibstream"]


def _sketches() -> Iterator[tuple[str, Sketch]]:
    silero = f"{packages.SILERO}/silero_vad"
    for name in ("", "_16k_op15", "_op18_ifless"):
        yield f"{silero}{name}.onnx", Sketch(told(), HEAR_WEIGHTS)
    for name in ("_half", "_openvino_16k"):
        yield f"{silero}{name}.onnx", Sketch(untold(), HEAR_WEIGHTS)
    yield f"{silero}_16k_sequence.onnx", Sketch(sequence(), HEAR_WEIGHTS)
    here = packages.RAPIDOCR
    yield (
        f"{here}/ch_PP-OCRv4_det_infer.onnx",
        Sketch(FIND, {"w0": (8, 3, 3, 3), "w1": (8, 8, 3, 3), "w2": (16, 1, 2, 2)}),
    )
    yield (
        f"{here}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        Sketch(TURN, {"w0": (8, 3, 4, 4), "w1": (8, 2)}),
    )
    weights = {"w0": (16, 3, 8, 8), "scale": (16,), "shift": (16,), "w1": (16, 6)}
    letters = {"character": "a\nb\nc\nd"}
    yield f"{here}/ch_PP-OCRv4_rec_infer.onnx", Sketch(READ, weights, metadata=letters)
    weights = {"w0": (257, 8), "w1": (16, 32, 5), "scale": (16,), "shift": (16,), "w2": (16, 5)}
    yield f"{packages.MAGIKA}/model.onnx", Sketch(LOOK, weights)
    normal = dict.fromkeys(("scale", "shift", "means", "variances"), (16,))
    yield (
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        Sketch(
            PLAY,
            {"w0": (16, 1, 512), **normal, "w1": (16, 88), "w2": (16, 9)},
            {"sound": "serving_default_input_2:0"},
        ),
    )
    yield "nudenet/320n.onnx", Sketch(SEE, {"w0": (8, 3, 3, 3), "w1": (16, 8, 3, 3)})
    for script in ("", "persian/"):
        here = f"{packages.ROMANIZER}/{script}"
        yield f"{here}encoder.onnx", Sketch(ENCODE, NAME_WEIGHTS)
        yield f"{here}decoder.onnx", Sketch(DECODE, {**NAME_WEIGHTS, "w": (256, 20)})


def write(folder: Path) -> None:
    """Write all models and their data files, in the folders of the packages."""
    beside: dict[str, object] = {
        name: {"tokens": TOKENS}
        if name.endswith("vocab.json")
        else {"target_labels_space": LABELS}
        for name in packages.BESIDE
    }
    for name, sketch in _sketches():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        onnx.save(sketch.model(), folder / name)
    for name, content in beside.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
