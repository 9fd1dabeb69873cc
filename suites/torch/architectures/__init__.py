"""Architectures of model libraries, with random weights, small images and few layers."""

from collections.abc import Iterator

from suites.case import Check, Group
from suites.torch.architectures import audio_models, image_models, text_models, vision_models


def _run(models: object) -> object:
    def run(name: str) -> Iterator[Check]:
        from suites.torch.architectures.checks import checks

        return checks(lambda: models.build(name))

    return run


GROUPS = {
    library: Group(goal=0.95, names=lambda m=models: m.MODELS, run=_run(models), seconds=900)
    for library, models in {
        "architectures of torchvision": vision_models,
        "architectures of timm": image_models,
        "architectures of transformers": text_models,
        "architectures of torchaudio": audio_models,
    }.items()
}
