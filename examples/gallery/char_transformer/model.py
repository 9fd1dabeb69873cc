"""The transformer: a program that trains it, and one that writes text with a key-value cache.

Both programs have the same parameters by name, so a scope of one serves the other. The writing
program reads the prompt once, and then computes one character per iteration of a `While`, with
the keys and values of earlier characters as memories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import braces as br
from braces import layers

CHARACTERS = "\0\n" + "".join(map(chr, range(32, 127)))
"""The vocabulary; the character 0 ends a module."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters.

    Attributes:
        layers: The number of layers.
        width: The features of a character.
        heads: The heads of attention.
        length: The characters of a row.
        batch: Rows in a step.
        steps: The training steps.
        learning_rate: The largest learning rate of Adam, after a tenth of the steps.
        size: The characters of the training text.
    """

    layers: int = 3
    width: int = 128
    heads: int = 4
    length: int = 256
    batch: int = 8
    steps: int = 1000
    learning_rate: float = 3e-3
    size: int = 3_000_000


SMALL = Settings(layers=1, width=32, heads=2, length=64, steps=40, size=40_000)


@br.shared
def transform(settings: Settings, ids: br.Var, caches: list[Any]) -> tuple[br.Var, list[Any]]:
    """The logits of the next characters, and the updated caches; a cache may be None."""
    first = caches[0].position if caches[0] else 0
    places = first + br.arange(ids.shape[1])
    x = br.embedding(ids, [len(CHARACTERS), settings.width], name="characters")
    x = x + layers.positional_encoding(places, settings.width)
    updated = list[Any]()
    for number, cache in enumerate(caches):
        options = {"causal": True, "norm_first": True, "act": "gelu", "cache": cache}
        x = layers.transformer_encoder_layer(
            x, settings.heads, name=f"layer_{number}", **options
        )
        if cache:
            x, cache = x
        updated.append(cache)
    x = br.layer_norm(x, name="last")
    return br.fc(x, len(CHARACTERS), name="logits"), updated


def training_program(settings: Settings) -> tuple[br.Program, br.Var]:
    """The training program and its loss."""
    with br.Program() as program:
        text = br.data("text", ["n", settings.length + 1], dtype="int32")
        logits, _ = transform(settings, text[:, :-1], [None] * settings.layers)
        loss = br.softmax_cross_entropy(logits, text[:, 1:], name="loss")
        rate = br.optimizer.warmup_cosine_decay_schedule(
            0.0, settings.learning_rate, settings.steps // 10, settings.steps
        )
        br.optimizer.adam(rate).minimize(loss)
    return program, loss


def writing_program(settings: Settings) -> tuple[br.Program, br.decoding.Decoded]:
    """The program that continues a prompt until the row is full or a module ends."""
    with br.Program() as program:
        prompt = br.data("prompt", ["n", "prompt_length"], dtype="int32")
        temperature = br.data("temperature", [])
        empty = [
            layers.attention_cache(
                prompt.shape[0],
                settings.length,
                settings.heads,
                settings.width // settings.heads,
            )
            for _ in range(settings.layers)
        ]
        _, read = transform(settings, prompt[:, :-1], empty)

        def step(ids: br.Var, caches: list[Any]) -> tuple[br.Var, list[Any]]:
            logits, caches = transform(settings, ids[:, None], caches)
            return logits[:, 0], caches

        written = br.decoding.sample(
            step,
            read,
            start=prompt[:, -1],
            end=0,
            max_length=settings.length - 32,
            temperature=temperature,
        )
    return program, written
