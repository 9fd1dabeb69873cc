"""The demo's program: a gated recurrent unit reads an image row by row.

    update, reset = sigmoid([row, h] @ gates.w + gates.b), halved
    candidate     = tanh([row, reset * h] @ candidate.w + candidate.b)
    h'            = update * h + (1 - update) * candidate
    logits        = h[8] @ digit.w + digit.b

Source of the unit: Cho et al., Learning Phrase Representations using RNN Encoder–Decoder, 2014.
"""

# Functions of operators are created at run time, so type checkers do not know them.
# pyright: reportAttributeAccessIssue=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from dataclasses import dataclass

import braces as br
from braces.frontend import optimizer
from braces.frontend.nn.linear import fc

ROWS, COLUMNS, CLASSES = 8, 8, 10


@dataclass(frozen=True)
class Settings:
    """Hyperparameters, chosen on parts of the training images, never on test images.

    Attributes:
        units: Size of the memory.
        epochs: Passes over the training images.
        batch: Batch size.
        learning_rate: The initial learning rate; it decays to 0 along a cosine.
        noise: Standard deviation of the noise added to pixels in training.
        seed: Seed of the initial parameters, the order of the images, and the noise.
    """

    units: int = 96
    epochs: int = 40
    batch: int = 32
    learning_rate: float = 5e-3
    noise: float = 0.3
    seed: int = 0


@dataclass(frozen=True)
class Net:
    """The training program and its fetched variables."""

    program: br.Program
    logits: br.Var
    loss: br.Var
    accuracy: br.Var


def build(settings: Settings, steps: int) -> Net:
    """Build the program.

    Args:
        settings: The hyperparameters.
        steps: Training steps, over which the learning rate decays.
    """
    with br.Program() as program:
        image = br.data("image", ["batch", ROWS, COLUMNS])
        digit = br.data("digit", ["batch"], dtype="int32")
        logits = fc(read_rows(image, settings.units), CLASSES, name="digit_logits")
        loss = br.softmax_cross_entropy(logits, digit, name="loss")
        accuracy = br.accuracy(logits, digit, name="accuracy")
        rate = optimizer.cosine_decay_schedule(settings.learning_rate, steps)
        optimizer.adam(learning_rate=rate).minimize(loss)
    return Net(program, logits, loss, accuracy)


def read_rows(image: br.Var, units: int) -> br.Var:
    """Return the state of the recurrent net after the last row of each image."""
    rnn = br.create_rnn()
    with rnn.stepnet() as net:
        row = net.add_input(image, axis=1)
        h = net.add_memory(shape=[units], batch_like=image)
        gates = fc(br.concat([row, h], axis=-1), 2 * units, act="sigmoid", name="gates")
        update, reset = gates[:, :units], gates[:, units:]
        candidate = fc(
            br.concat([row, reset * h], axis=-1), units, act="tanh", name="candidate"
        )
        h.update(update * h + (1.0 - update) * candidate)
    return rnn.final(h)
