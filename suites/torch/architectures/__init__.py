"""Architectures of model libraries, with random weights, small images and few layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

from suites.case import Check, Group
from suites.torch.architectures import audio_models, image_models, text_models, vision_models

LIBRARIES = {
    "torchvision": vision_models,
    "timm": image_models,
    "transformers": text_models,
    "torchaudio": audio_models,
}
"""The models of each library."""


def _names(library: str) -> Iterable[str]:
    """The architectures of a library, if it is installed."""
    return LIBRARIES[library].MODELS if find_spec(library) else ()


def _run(models: Any, name: str) -> Iterator[Check]:
    from suites.torch.architectures.checks import checks

    return checks(lambda: models.build(name))


GROUPS = {
    f"architectures of {library}": Group(
        goal=0.95,
        names=partial(_names, library),
        run=partial(_run, models),
        seconds=900,
        needs=f"these run where {library} is installed.",
    )
    for library, models in LIBRARIES.items()
}
