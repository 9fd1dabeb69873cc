"""Autoregressive model of Bach's chorales: an LSTM over chords, sampled to a MIDI file.

The score of a chorale is a chord of four keys on each quarter note. An LSTM reads the past
chords; the voices of a chord follow each other, soprano first:

    p(chord | past) = p(S | past) p(A | S, past) p(T | S, A, past) p(B | S, A, T, past)

Training reads whole chorales with `br.lstm`. A second program over the same parameters draws
new ones: an rnn whose step samples a chord and reads it in the next step.

The scores are files of the package music21, read without it: `pip install --no-deps music21`.

    python -m examples.gallery.chorales             train, measure, write chorales.mid
    python -m examples.gallery.chorales --small     some steps on chords of the same form
"""

from __future__ import annotations

import importlib.metadata
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

import braces as br
from examples.gallery.command import run_example
from examples.gallery.pictures import COLOURS, GREY

LOWEST, KEYS = 27, 65
"""Key 1 is note 28 of MIDI, key 64 is note 91; key 0 is a rest."""
VOICES = ("soprano", "alto", "tenor", "bass")
SIZES = (48, 64, 96, 144)


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        width: The size of the embedding of a key.
        units: The units of each layer of the LSTM, and of the output of each voice.
        epochs: Passes over the training chorales.
        batch: Chorales in a step.
        rate: The initial learning rate, which falls to 0 along a cosine.
        dropout: The dropout rate.
        steps: The quarter notes of a new chorale.
        mode: The mode of the executor.
    """

    width: int = 32
    units: int = 200
    epochs: int = 80
    batch: int = 16
    rate: float = 3e-3
    dropout: float = 0.4
    steps: int = 64
    mode: str = "compile"


SMALL = Settings(width=4, units=12, epochs=4, batch=8, rate=2e-2, dropout=0.0, steps=8)

# ---- scores ----------------------------------------------------------------------------------

STEPS = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def corpus() -> list[np.ndarray]:
    """The four-part chorales of music21: int32[quarter notes, 4] each.

    Raises:
        PackageNotFoundError: If the package music21 is not installed.
    """
    files = importlib.metadata.files("music21") or []
    scores = (f for f in files if f.match("corpus/bach/*.mxl"))
    read = (chords(Path(str(file.locate()))) for file in sorted(scores))
    found = [one for one in read if one is not None and len(one) <= SIZES[-1]]
    intervals = [
        np.diff(one[:24, 0]).tobytes() + np.diff(one[:24, 3]).tobytes() for one in found
    ]
    return [
        found[i] for i in sorted(dict(zip(intervals, range(len(found)), strict=True)).values())
    ]


def chords(path: Path) -> np.ndarray | None:
    """The chords of a compressed MusicXML file; `None` unless it has four equal voices."""
    with zipfile.ZipFile(path) as archive:
        names = [
            n for n in archive.namelist() if n.endswith("xml") and n[:4] not in ("META", "__MA")
        ]
        root = ElementTree.fromstring(archive.read(names[0]))
    voices = [quarters(part) for part in root.iterfind("part")]
    if len(voices) != len(VOICES) or any(
        v is None or len(v) != len(voices[0] or ()) for v in voices
    ):
        return None
    return np.array(voices, "int32").T


def quarters(part: ElementTree.Element) -> list[int] | None:
    """The key that sounds on each quarter note; `None` for a part with several voices."""
    if any(part.find(f".//{tag}") is not None for tag in ("backup", "forward", "chord")):
        return None
    keys, time, divisions = list[int](), 0.0, 1.0
    for element in part.iterfind("measure/*"):
        divisions = float(element.findtext("divisions") or divisions)
        if element.tag == "note" and element.find("grace") is None:
            time += float(element.findtext("duration") or 0) / divisions
            keys += [key_of(element)] * (round(np.ceil(time - 1e-6)) - len(keys))
    return keys


def key_of(note: ElementTree.Element) -> int:
    """The key of a note; 0 for a rest."""
    pitch = note.find("pitch")
    if pitch is None:
        return 0
    octave, alter = int(pitch.findtext("octave") or 4), float(pitch.findtext("alter") or 0)
    return 12 * (octave + 1) + STEPS[pitch.findtext("step") or "C"] + int(alter) - LOWEST


def look_alike(count: int, seed: int) -> list[np.ndarray]:
    """Cadences of the same form: the chords I, IV, V and I in the major scale, in all keys."""
    rng, cadence = (
        np.random.default_rng(seed),
        np.array([[12, 7, 4, 0], [12, 9, 5, -7], [11, 7, 2, -5]]),
    )
    found = list[np.ndarray]()
    for _ in range(count):
        order = np.concatenate([[0], rng.integers(0, 3, rng.integers(6, 30)), [2, 0]])
        found.append((cadence[order] + 28 + rng.integers(-5, 7)).astype("int32"))
    return found


def columns(pieces: Sequence[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """Columns of a data set: chords behind a rest, and weights that are 0 in the padding."""
    begun = [np.pad(piece, [(1, 0), (0, 0)]) for piece in pieces]
    weights = [np.pad(np.ones(len(piece), "float32"), (1, 0)) for piece in pieces]
    return {"chords": begun, "weight": weights}


def transpose(batch: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Move each chorale by up to half an octave."""
    keys = batch["chords"]
    shift = rng.integers(-5, 7, (len(keys), 1, 1)).astype("int32")
    return {**batch, "chords": np.where(keys > 0, np.clip(keys + shift, 1, KEYS - 1), 0)}


# ---- programs --------------------------------------------------------------------------------


def read_chord(keys: br.Var, width: int) -> br.Var:
    """The embedding of the chord before a step."""
    parts = [
        br.embedding(keys[..., i], [KEYS, width], name=f"read/{voice}")
        for i, voice in enumerate(VOICES)
    ]
    return br.concat(parts, axis=-1)


def voice_logits(
    context: br.Var, voice: int, upper: list[br.Var], settings: Settings
) -> br.Var:
    """The logits of the key of a voice, from the LSTM and the voices above."""
    name = VOICES[voice]
    known = [
        br.embedding(keys, [KEYS, settings.width], name=f"{name}/{VOICES[i]}")
        for i, keys in enumerate(upper)
    ]
    hidden = br.fc(
        br.concat([context, *known], axis=-1), settings.units, act="relu", name=f"{name}/hidden"
    )
    return br.fc(br.dropout(hidden, settings.dropout), KEYS, name=f"{name}/key")


@dataclass(frozen=True)
class Net:
    """Both programs and their variables.

    Attributes:
        trainer: The training program.
        loss: The negative log likelihood of a chord, the mean over the quarter notes.
        sampler: The sampling program; its data are the first chords and the temperature.
        song: New chorales: i64[batch, steps, 4].
    """

    trainer: br.Program
    loss: br.Var
    sampler: br.Program
    song: br.Var


def build(settings: Settings, steps: int) -> Net:
    """Build both programs."""
    with br.Program() as trainer:
        chord = br.data("chords", ["batch", "time", 4], dtype="int32")
        weight = br.data("weight", ["batch", "time"])
        past, known = chord[:, :-1], weight[:, 1:]
        seen = br.dropout(read_chord(past, settings.width), settings.dropout / 2)
        context, _ = br.lstm(
            seen, settings.units, layers=2, dropout=settings.dropout, name="lstm"
        )
        context, keys = br.dropout(context, settings.dropout), br.unstack(chord[:, 1:], axis=2)
        losses = [
            br.softmax_cross_entropy(
                voice_logits(context, i, keys[:i], settings), keys[i], reduction="none"
            )
            for i in range(4)
        ]
        loss = br.sum(sum(losses) * known) / br.sum(known)
        rate = br.optimizer.cosine_decay_schedule(settings.rate, steps)
        clip = br.optimizer.clip_by_global_norm(1.0)
        br.optimizer.chain(clip, br.optimizer.adam(rate)).minimize(loss)
    with br.Program() as sampler:
        first = br.data("first", ["batch", 4], dtype="int64")
        temperature = br.data("temperature", [])
        song = sample(first, temperature, settings)
    return Net(trainer, loss, sampler, song)


def sample(first: br.Var, temperature: br.Var, settings: Settings) -> br.Var:
    """New chorales, chord by chord, with the parameters of the training program."""
    rnn = br.create_rnn(steps=settings.steps)
    with rnn.stepnet() as net:
        chord = net.add_memory(init=first)
        x = read_chord(chord.pre(1), settings.width)
        for layer in range(2):
            h, c = (net.add_memory(shape=[settings.units], batch_like=first) for _ in range(2))
            cell = [f"lstm/forward_{layer}.{role}" for role in "wub"]
            x, next_c = br.layers.lstm_cell(x, (h, c), params=cell)
            h.update(x)
            c.update(next_c)
        keys = list[br.Var]()
        for voice in range(4):
            logits = voice_logits(x, voice, keys, settings)
            keys.append(br.random.categorical(logits / temperature))
        chord.update(br.stack(keys, axis=1))
        net.add_output(chord.next, axis=1)
    return rnn()


# ---- training --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """A trained model.

    Attributes:
        net: The programs.
        run: The training.
    """

    net: Net
    run: br.Training

    def compose(self, count: int, temperature: float = 0.8) -> np.ndarray:
        """New chorales, other ones in each call: int64[count, steps, 4]."""
        exe, scope = self.run.exe, self.run.scope
        exe.init(self.net.sampler, scope, missing_only=True)
        feed = {"first": np.zeros((count, 4), "int64"), "temperature": temperature}
        return exe.run(self.net.sampler, scope, feed, self.net.song)


def train(
    settings: Settings,
    training: Sequence[np.ndarray],
    held_out: Sequence[np.ndarray],
    *,
    quiet: bool = False,
) -> Trained:
    """Train on transposed chorales; the history has the loss of the held-out ones as well."""
    data, valid = (
        br.batches(
            columns(pieces),
            settings.batch,
            bucket_by="chords",
            sizes=SIZES,
            pad=0,
            transform=change,
            shuffle=change is not None,
        )
        for pieces, change in ((training, transpose), (held_out, None))
    )
    net = build(settings, settings.epochs * len(data))
    run = br.fit(
        net.trainer,
        data,
        epochs=settings.epochs,
        validation=valid,
        exe=br.Executor(mode=settings.mode),
        quiet=quiet,
    )
    return Trained(net, run)


def frequencies(training: Sequence[np.ndarray], held_out: Sequence[np.ndarray]) -> float:
    """The loss of the frequencies of keys in each voice: a baseline without context."""
    keys, others = np.concatenate(training), np.concatenate(held_out)
    loss = 0.0
    for voice in range(4):
        counts = np.bincount(keys[:, voice], minlength=KEYS) + 1.0
        loss -= float(np.mean(np.log(counts / counts.sum())[others[:, voice]]))
    return loss


# ---- files -----------------------------------------------------------------------------------


def midi(song: np.ndarray, quarter_ms: int = 600) -> bytes:
    """A chorale as a MIDI file; equal keys of a voice in a row are one note."""
    tempo = b"\0\xff\x51\x03" + (1000 * quarter_ms).to_bytes(3, "big")
    tracks = [tempo, *(events(song[:, voice], voice) for voice in range(song.shape[1]))]
    header = b"MThd" + (6).to_bytes(4, "big")
    header += b"".join(n.to_bytes(2, "big") for n in (1, len(tracks), 1))
    ended = [track + b"\0\xff\x2f\0" for track in tracks]
    return header + b"".join(b"MTrk" + len(t).to_bytes(4, "big") + t for t in ended)


def events(keys: np.ndarray, channel: int) -> bytes:
    """The events of a voice: note on, note off after its quarters, with one tick for each."""
    track, rest = b"", 0
    for key, length in runs(keys):
        if key == 0:
            rest += length
            continue
        note = key + LOWEST
        track += bytes([rest, 0x90 | channel, note, 80, length, 0x80 | channel, note, 0])
        rest = 0
    return track


def runs(keys: np.ndarray) -> list[tuple[int, int]]:
    """Equal keys in a row, at most 96, with their number."""
    found = list[tuple[int, int]]()
    for key in keys.tolist():
        again = found and found[-1][0] == key and found[-1][1] < 96
        found = [*found[:-1], (key, found[-1][1] + 1)] if again else [*found, (key, 1)]
    return found


def draw(song: np.ndarray) -> str:
    """A chorale as a piano roll, a colour for each voice."""
    wide, low, high = 8, int(song[song > 0].min()), int(song.max())
    width, height = wide * len(song), 5 * (high - low + 1)
    bars = "".join(f"M{wide * at} 0V{height}" for at in range(0, len(song) + 1, 4))
    content = f'<path d="{bars}" stroke="{GREY}" stroke-opacity=".3"/>'
    for voice, colour in enumerate(COLOURS[:4]):
        at, notes = 0, ""
        for key, length in runs(song[:, voice]):
            if key:
                y = 5 * (high - key) + 2.5
                notes += f"M{wide * at + 0.5:g} {y:g}h{wide * length - 1}"
            at += length
        content += f'<path d="{notes}" stroke="{colour}" stroke-width="4"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" fill="none" role="img">{content}</svg>\n'
    )


def example(small: bool) -> tuple[str, str]:
    """Train, measure, and write a new chorale."""
    settings = SMALL if small else Settings()
    pieces = look_alike(60, 0) if small else corpus()
    order = np.random.default_rng(0).permutation(len(pieces))
    held_out, training = (
        [pieces[i] for i in part] for part in np.split(order, [len(pieces) // 5])
    )
    trained = train(settings, training, held_out, quiet=small)
    songs, file = trained.compose(4), Path(tempfile.gettempdir()) / "chorales.mid"
    file.write_bytes(midi(songs[0]))
    losses = trained.run.history["val_loss"]
    result = (
        f"{len(training)} chorales for training; {min(losses):.2f} nats per quarter note of "
        f"{len(held_out)} held-out ones after {int(np.argmin(losses)) + 1} epochs, "
        f"{losses[-1]:.2f} at the end; key frequencies {frequencies(training, held_out):.2f}\n"
        f"{file} has a new chorale"
    )
    return result, draw(songs[0])


if __name__ == "__main__":
    run_example(__doc__, example)
