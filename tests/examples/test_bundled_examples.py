"""The examples, with the gradients of all that they learn, give the same bits hot and cold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import braces as br
from examples import early_exit, hares_and_lynxes, sorting, speakers
from examples.spelling import data as words
from examples.spelling.model import Settings as SpellingSettings, build as build_speller
from tests.support.hot_traces import check_same_bits

pytestmark = pytest.mark.unoptimized

Made = tuple[Any, dict[str, Any]]


def heard() -> Made:
    utterances = speakers.look_alike(3, 1)
    net = speakers.build(speakers.Settings(units=3, batch=3), utterances, 1)
    return net, utterances.feed()


def solved() -> Made:
    return hares_and_lynxes.build(
        hares_and_lynxes.Settings(tolerance=1e-2), hares_and_lynxes.FURS[:3]
    ), {}


def read() -> Made:
    images = early_exit.look_alike(6, 1)
    net = early_exit.build(early_exit.Settings(glance=4, units=5, layers=2), 1)
    return net, {"image": images.pixels, "digit": images.digits}


def spelled() -> Made:
    entries = [("ab", ("AH", "B")), ("bad", ("B", "AE", "D"))]
    net = build_speller(SpellingSettings(units=3, width=2))
    return net, words.encoded(entries).feed()


def sorted_() -> Made:
    net = sorting.build(sorting.Settings(layers=2, width=8, heads=2, length=4, batch=3))
    return net, {"digits": np.arange(12, dtype="int32").reshape(3, 4) % 10}


@pytest.mark.parametrize("make", [heard, solved, read, spelled, sorted_])
def test_an_example_gives_the_same_bits_hot_and_one_by_one(make: Callable[[], Made]) -> None:
    net, feed = make()
    with net.program:
        weights = [br.get_variable(info.name) for info in net.program.parameters]
        gradients = br.gradients([net.loss], weights)
    fetch = {f"gradient {k}": one for k, one in enumerate(gradients) if one is not None}
    assert check_same_bits(net.program.for_test(), feed, fetch | {"loss": net.loss})
