"""The program: training and decoding share one encoder and one cell.

    encoded[i] = gated recurrent units over the letters, in both directions
    context    = sum_i softmax_i(keys[i] . query(h)) encoded[i]
    h'         = unit([phoneme before, context], h)
    logits     = [h', context] @ phoneme.w + phoneme.b

In training, the previous phonemes are those of the dictionary, and the cell is the step of an
rnn. In decoding, they are the network's own, and the same cell is in a `While` that runs until
every word has ended. Both are in one program; the saved model contains only the decoding part.

Source of the attention: Bahdanau, Cho, Bengio, Neural Machine Translation by Jointly Learning
to Align and Translate, 2014, with the product of Luong et al., 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

import braces as br
from examples.spelling.data import LETTERS, LONGEST, PHONEMES

SOUNDS = len(PHONEMES) + 1  # and the end
_FAR = -1e9


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        units: The units of each recurrent layer.
        width: The embedding size of letters and phonemes.
        batch: Words in a step.
        steps: The training steps.
        learning_rate: The initial learning rate; it falls to 0 along a cosine.
        seed: The seed of the initial parameters and the order of the words.
    """

    units: int = 128
    width: int = 48
    batch: int = 64
    steps: int = 9000
    learning_rate: float = 3e-3
    seed: int = 0


@dataclass(frozen=True)
class Net:
    """The program, and the variables to fetch.

    Attributes:
        program: The program for training and decoding.
        loss: The mean cross-entropy of a phoneme, in nats, for training.
        spoken: The decoded phonemes, i32[batch, LONGEST].
        trips: The trip count of the decoding loop.
    """

    program: br.Program
    loss: br.Var
    spoken: br.Var
    trips: br.Var


@dataclass(frozen=True)
class Heard:
    """The output of the encoder for a batch of words.

    Attributes:
        encoded: f32[batch, letters, 2 units].
        keys: f32[batch, letters, units].
        absent: bool[batch, letters]. True beyond the end of a word.
        start: f32[batch, units]. The initial state of the decoder.
    """

    encoded: br.Var
    keys: br.Var
    absent: br.Var
    start: br.Var


def build(settings: Settings) -> Net:
    """Build the program."""
    with br.Program() as program:
        letters = br.data("letters", ["batch", "letters"], dtype="int32")
        n = br.data("n", ["batch"], dtype="int32")
        phonemes = br.data("phonemes", ["batch", "phonemes"], dtype="int32")
        m = br.data("m", ["batch"], dtype="int32")
        heard = encode(letters, n, settings)
        loss = teach(heard, phonemes, m, settings)
        spoken, trips = speak(heard, settings)
        rate = br.optimizer.cosine_decay_schedule(settings.learning_rate, settings.steps)
        br.optimizer.chain(
            br.optimizer.clip_by_global_norm(1.0), br.optimizer.adam(learning_rate=rate)
        ).minimize(loss)
    return Net(program, loss, spoken, trips)


# ---- encoder ---------------------------------------------------------------------------------


def encode(letters: br.Var, n: br.Var, settings: Settings) -> Heard:
    """Read the letters in both directions."""
    x = br.embedding(letters, [len(LETTERS) + 1, settings.width], name="letter")
    ways = [
        read(x, n, settings.units, "forward", reverse=False),
        read(x, n, settings.units, "backward", reverse=True),
    ]
    encoded = br.concat([states for states, _ in ways], axis=-1)
    ends = br.concat([end for _, end in ways], axis=-1)
    at = br.arange(letters.shape[1], dtype="int32")
    return Heard(
        encoded,
        br.fc(encoded, settings.units, name="keys"),
        br.expand_dims(at, 0) >= br.expand_dims(n, 1),
        br.fc(ends, settings.units, act="tanh", name="start"),
    )


def read(
    x: br.Var, n: br.Var, units: int, name: str, *, reverse: bool
) -> tuple[br.Var, br.Var]:
    """The state of a gated recurrent unit after each letter, and after the last."""
    rnn = br.create_rnn(lengths=n, reverse=reverse)
    with rnn.stepnet() as net:
        letter = net.add_input(x, axis=1)
        h = net.add_memory(shape=[units], batch_like=x)
        after = unit(letter, h, units, name)
        h.update(after)
        net.add_output(after, axis=1)
    return rnn(), rnn.final(h)


def unit(x: br.Var, h: br.Var, units: int, name: str) -> br.Var:
    """A gated recurrent unit; all calls with this name share its parameters."""
    gates = layer(br.concat([x, h], axis=-1), 2 * units, f"{name}_gates", act="sigmoid")
    update, reset = gates[:, :units], gates[:, units:]
    candidate = layer(
        br.concat([x, reset * h], axis=-1), units, f"{name}_candidate", act="tanh"
    )
    return update * h + (1.0 - update) * candidate


def layer(x: br.Var, size: int, name: str, act: str | None = None) -> br.Var:
    """A fully connected layer whose parameters are shared by name."""
    return br.fc(x, size, params=[f"{name}.w", f"{name}.b"], act=act)


# ---- decoder ---------------------------------------------------------------------------------


def listen(heard: Heard, h: br.Var, units: int) -> br.Var:
    """Attention over the letters for the next phoneme, f32[batch, 2 units]."""
    query = br.expand_dims(layer(h, units, "query"), 2)
    scores = br.matmul(heard.keys, query)[:, :, 0] * units**-0.5
    weights = br.softmax(br.where(heard.absent, _FAR, scores), axis=-1)
    return br.matmul(br.expand_dims(weights, 1), heard.encoded)[:, 0]


def sound(phonemes: br.Var, settings: Settings) -> br.Var:
    """Phonemes as vectors."""
    return br.embedding(phonemes, [SOUNDS, settings.width], params=["sound.w"])


def silence(heard: Heard) -> br.Var:
    """The start token of every word: i32[batch], all 0."""
    return br.full([heard.start.shape[0]], 0, dtype="int32")


def step(heard: Heard, before: br.Var, h: br.Var, settings: Settings) -> tuple[br.Var, br.Var]:
    """The state after one more phoneme, and the logits of the next one."""
    context = listen(heard, h, settings.units)
    after = unit(br.concat([before, context], axis=-1), h, settings.units, "speaker")
    return after, br.concat([after, context], axis=-1)


def teach(heard: Heard, phonemes: br.Var, m: br.Var, settings: Settings) -> br.Var:
    """The loss with teacher forcing: each phoneme follows those of the dictionary."""
    rnn = br.create_rnn(lengths=m)
    with rnn.stepnet() as net:
        said = net.add_input(sound(phonemes, settings), axis=1)
        before = net.add_memory(init=sound(silence(heard), settings))
        h = net.add_memory(init=heard.start)
        after, chosen_by = step(heard, before, h, settings)
        before.update(said)
        h.update(after)
        net.add_output(chosen_by, axis=1)
    logits = layer(rnn(), SOUNDS, "phoneme")
    at = br.arange(phonemes.shape[1], dtype="int32")
    there = br.cast(br.expand_dims(at, 0) < br.expand_dims(m, 1), "float32")
    return br.sum(
        br.softmax_cross_entropy(logits, phonemes, reduction="none") * there
    ) / br.sum(there)


def speak(heard: Heard, settings: Settings) -> tuple[br.Var, br.Var]:
    """Greedy decoding: the likeliest phonemes, and the trip count of the loop.

    A word that has ended gives 0; the loop ends after all words, or at the limit.
    """
    silent = silence(heard)
    places = br.arange(LONGEST, dtype="int32")
    loop = br.create_while()
    with loop.block() as body:
        t = body.add_memory(init=br.constant(0, dtype="int32"))
        h = body.add_memory(init=heard.start)
        before = body.add_memory(init=silent)
        ended = body.add_memory(init=silent > 0)
        written = body.add_memory(init=br.expand_dims(silent, 1) + br.zeros_like(places))
        body.set_condition((t < LONGEST) & ~br.all(ended))
        after, chosen_by = step(heard, sound(before, settings), h, settings)
        likeliest = br.cast(br.argmax(layer(chosen_by, SOUNDS, "phoneme"), axis=-1), "int32")
        phoneme = br.where(ended, 0, likeliest)
        h.update(after)
        before.update(phoneme)
        ended.update(ended | (phoneme == 0))
        written.update(br.where(places == t, br.expand_dims(phoneme, 1), written))
        t.update(t + 1)
    return loop.final(written), loop.final(t)
