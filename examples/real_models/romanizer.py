"""Arabic names in Latin letters: an encoder, a decoder and the loop around it as one program.

The package has two files, and a Python loop that runs the second one letter by letter. Here one
program calls both, the second one inside a `While`, and also encodes and decodes letters:

    letters: i32[names, n]        the code points of names, padded with zeros
    spelled: i32[32, names]       those of their spellings, padded with zeros

The saved file requires neither package, vocabulary nor loop:

    model = br.load_model("romanizer.model")
    text_of(model.run(letters=coded(["محمد"])))
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import braces as br
from braces.storage.model import Model
from examples.real_models import packages

PAD, BOS, EOS, UNKNOWN = range(4)
BEFORE = ("<UNK_COUNTRY>", "<ROLE_UNKNOWN>")
"""What stands before a name: no country, and neither a given name nor a surname for sure."""
LONGEST = 32
NAMES = ("محمد", "فاطمة", "يوسف", "خديجة", "عبد الرحمن", "القاهرة")


@dataclass(frozen=True)
class Romanizer:
    """The program, and the values of its parameters.

    Attributes:
        program: From `letters` to `spelled`.
        scope: Its parameters: `encoder/…` and `decoder/…`.
        spelled: Its output.
    """

    program: br.Program
    scope: br.Scope
    spelled: br.Var

    def save(self, path: Path) -> None:
        """Write one file."""
        br.save_model(path, self.program, self.scope, feeds=["letters"], fetches=[self.spelled])


def build(folder: Path = packages.FOLDER, script: str = "") -> Romanizer:
    """Read both files, and build the program.

    Args:
        folder: Their folder.
        script: `"persian"` for the networks of that script.
    """
    here = f"{packages.ROMANIZER}/{script}".rstrip("/")
    nets = {
        name: br.from_onnx(packages.get(f"{here}/{name}.onnx", folder))
        for name in ("encoder", "decoder")
    }
    listed = packages.get(f"{here}/vocab.json", folder).read_text(encoding="utf-8")
    tokens: list[str] = json.loads(listed)["tokens"]
    scope = br.Scope()
    with br.Program() as program:
        letters = br.data("letters", ["names", "n"], dtype="int32")
        ids = numbered(letters, tokens)
        padding = ids == PAD
        encoder, decoder = nets["encoder"][0], nets["decoder"][0]
        memory, mask, hidden = br.call(encoder, ids, padding, name="encoder")
        said = spell(decoder, memory, mask, hidden)
        codes = br.constant(np.array([code_of(token) for token in tokens], np.int32))
        spelled = br.take(codes, said, name="spelled")
    for name, (_, values) in nets.items():
        scope.update(values, prefix=f"{name}/")
    return Romanizer(program, scope, spelled)


def code_of(token: str) -> int:
    """The code point of a letter; 0 for all other tokens."""
    return ord(token) if len(token) == 1 else 0


def numbered(letters: br.Var, tokens: Sequence[str]) -> br.Var:
    """Code points as ids of the vocabulary, with start and end tokens."""
    codes = br.constant(np.array([code_of(token) or -1 for token in tokens], np.int32))
    same = br.expand_dims(letters, axis=-1) == codes
    known = br.where(br.any(same, axis=-1), br.argmax(same, axis=-1), UNKNOWN)
    known = br.where(letters == 0, PAD, known)
    known = br.pad(known, [(0, 0), (0, 1)])
    lengths = br.sum(letters != 0, axis=1, keepdims=True)
    known = br.where(br.arange(known.shape[1]) == lengths, EOS, known)
    before = br.constant(np.array([[tokens.index(token) for token in BEFORE]]))
    before = br.broadcast_to(before, [letters.shape[0], len(BEFORE)])
    return br.concat([before, known], axis=1)


def spell(decoder: br.Program, memory: br.Var, mask: br.Var, hidden: br.Var) -> br.Var:
    """The most likely letter after each, until all names have ended: i64[letters, names]."""
    names = memory.shape[0]
    loop = br.create_while()
    with loop.block() as body:
        trip = body.add_memory(init=br.constant(0))
        token = body.add_memory(init=br.full([names, 1], BOS, dtype="int64"))
        state = body.add_memory(init=hidden)
        ended = body.add_memory(init=br.full([names], False, dtype="bool"))
        body.set_condition((trip < LONGEST) & ~br.all(ended))
        likely, after = br.call(decoder, token, memory, mask, state, name="decoder", fetch=None)
        never = br.constant(np.eye(likely.shape[1], dtype=np.float32)[[PAD, EOS]])
        never = never[0] + br.where(trip == 0, never[1], 0.0)
        said = br.where(ended, PAD, br.argmax(likely - 1e9 * never, axis=1))
        trip.update(trip + 1)
        token.update(br.expand_dims(said, axis=1))
        state.update(after)
        ended.update(ended | (said == EOS))
        body.add_output(said)
    return loop()


# ---- text ------------------------------------------------------------------------------------


def coded(names: Sequence[str]) -> np.ndarray:
    """Names as rows of code points, padded with zeros."""
    letters = np.zeros((len(names), max(map(len, names))), np.int32)
    for row, name in zip(letters, names, strict=True):
        row[: len(name)] = [ord(letter) for letter in name]
    return letters


def text_of(spelled: np.ndarray) -> list[str]:
    """Columns of code points as text."""
    return ["".join(chr(code) for code in column if code) for column in spelled.T]


def romanize(model: Model, names: Sequence[str]) -> list[str]:
    """The romanized names from a saved model."""
    return text_of(model.run(letters=coded(names)))
