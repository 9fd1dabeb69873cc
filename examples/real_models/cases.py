"""Inputs of each file, for the comparison with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from examples.real_models import inputs, packages
from examples.real_models.sides import Case

RATES = {16000: (512, 64), 8000: (256, 32)}
"""Samples in a frame of speech, and how many of the frame before it are heard again."""
SAMPLES, RATE = 43844, 22050
"""How much basic-pitch listens to at once, and how many samples of it are a second."""
HIDDEN = 128


def frames(rate: int) -> np.ndarray:
    """The sentence in frames."""
    return inputs.frames(inputs.speech(rate), *RATES[rate])


def streamed(rate: int, *, told: bool) -> Case:
    """The frames one by one, with the state of the network carried over."""
    given = {"sr": np.array(rate)} if told else {}
    first = {"state": np.zeros((2, 1, HIDDEN), np.float32)}
    feeds = [{"input": frame[None], **first, **given} for frame in frames(rate)]
    return Case(f"speech of {rate // 1000} kHz, frame by frame", feeds, {"state": 1})


def at_once() -> Case:
    """All frames in one run."""
    zeros = np.zeros((1, 1, HIDDEN), np.float32)
    feed = {"input": frames(16000), "h": zeros, "c": zeros}
    return Case("speech of 16 kHz at once", [feed])


def page_for(middle: float = 0.5, spread: float = 0.5) -> np.ndarray:
    """The page of text in the format of rapidocr's networks."""
    return inputs.channels_first(inputs.page(), middle, spread)


def line(height: int, width: int) -> np.ndarray:
    """The first line of the page, scaled by nearest neighbour."""
    return inputs.channels_first(
        inputs.scaled(inputs.page()[32:80, 24:424], height, width), 0.5, 0.5
    )


def looked_at(image: np.ndarray, name: str, about: str) -> Case:
    """One picture."""
    return Case(about, [{name: image}])


def contents() -> Case:
    """Files of five kinds."""
    rows = [beginning_and_end(data) for data in inputs.contents().values()]
    return Case("five files", [{"bytes": np.stack(rows)}])


def beginning_and_end(data: bytes, each: int = 1024, padding: int = 256) -> np.ndarray:
    """The bytes of a file that magika reads: i32[2048]."""
    first, last = data[:4096].lstrip()[:each], data[-4096:].rstrip()[-each:]
    row = np.full(2 * each, padding, np.int32)
    row[: len(first)] = list(first)
    row[2 * each - len(last) :] = list(last)
    return row


def melody() -> Case:
    """Four notes."""
    sound = inputs.melody(RATE, SAMPLES)[None, :, None]
    return Case("two seconds of a melody", [{"serving_default_input_2:0": sound}])


def letters() -> tuple[np.ndarray, np.ndarray]:
    """Two rows of letter ids, the second one shorter, and their padding mask."""
    ids = np.random.default_rng(0).integers(30, 150, (2, 7))
    ids[1, 5:] = 0
    return ids, ids == 0


def encoded() -> Case:
    """Two names."""
    ids, padding = letters()
    return Case("two names of 7 and 5 letters", [{"src": ids, "src_mask": padding}])


def decoded() -> Case:
    """Three steps after random memories."""
    rng, (_, padding) = np.random.default_rng(0), letters()
    memory = rng.normal(size=(2, 7, 256)).astype(np.float32)
    hidden = rng.normal(size=(2, 2, 256)).astype(np.float32)
    feeds = [
        {"prefix": ids, "memory": memory, "src_mask": padding, "hidden": hidden}
        for ids in rng.integers(30, 150, (3, 2, 1))
    ]
    return Case("three letters, one by one", feeds, {"hidden": 1})


CASES: Mapping[str, Callable[[], list[Case]]] = {
    f"{packages.SILERO}/silero_vad.onnx": lambda: [streamed(r, told=True) for r in RATES],
    f"{packages.SILERO}/silero_vad_16k_op15.onnx": lambda: [streamed(16000, told=True)],
    f"{packages.SILERO}/silero_vad_16k_sequence.onnx": lambda: [at_once()],
    f"{packages.SILERO}/silero_vad_half.onnx": lambda: [streamed(16000, told=False)],
    f"{packages.SILERO}/silero_vad_op18_ifless.onnx": lambda: [
        streamed(r, told=True) for r in RATES
    ],
    f"{packages.SILERO}/silero_vad_openvino_16k.onnx": lambda: [streamed(16000, told=False)],
    f"{packages.RAPIDOCR}/ch_PP-OCRv4_det_infer.onnx": lambda: [
        looked_at(page_for(), "x", "a page with three lines")
    ],
    f"{packages.RAPIDOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx": lambda: [
        looked_at(line(48, 192), "x", "a line of text")
    ],
    f"{packages.RAPIDOCR}/ch_PP-OCRv4_rec_infer.onnx": lambda: [
        looked_at(line(48, 400), "x", "a line of text")
    ],
    f"{packages.MAGIKA}/model.onnx": lambda: [contents()],
    "basic_pitch/saved_models/icassp_2022/nmp.onnx": lambda: [melody()],
    "nudenet/320n.onnx": lambda: [
        looked_at(inputs.channels_first(inputs.scene(320), 0.0, 1.0), "images", "a drawing")
    ],
    f"{packages.ROMANIZER}/encoder.onnx": lambda: [encoded()],
    f"{packages.ROMANIZER}/decoder.onnx": lambda: [decoded()],
    f"{packages.ROMANIZER}/persian/encoder.onnx": lambda: [encoded()],
    f"{packages.ROMANIZER}/persian/decoder.onnx": lambda: [decoded()],
}
"""By file; `tests/examples/test_real_models.py` holds that it is one for each."""
