"""Architectures of timm: images."""

from __future__ import annotations

from typing import Any

MODELS: dict[str, tuple[int, dict[str, Any]]] = {
    "resnet10t": (64, {}),
    "vit_tiny_patch16_224": (32, {"depth": 2}),
    "deit3_small_patch16_224": (32, {"depth": 2}),
    "beit_base_patch16_224": (32, {"depth": 2, "embed_dim": 48, "num_heads": 4}),
    "mixer_s32_224": (64, {}),
    "resmlp_12_224": (64, {}),
    "gmlp_ti16_224": (64, {}),
    "convnextv2_atto": (64, {}),
    "mobilevit_xxs": (64, {}),
    "edgenext_xx_small": (64, {}),
    "ghostnet_050": (64, {}),
    "lcnet_035": (64, {}),
    "repvgg_a0": (64, {}),
    "fastvit_t8": (64, {}),
    "pvt_v2_b0": (64, {}),
    "poolformer_s12": (64, {}),
    "xcit_nano_12_p16_224": (64, {"depth": 2}),
    "nf_regnet_b0": (64, {}),
    "skresnet18": (64, {}),
    "mobilenetv4_conv_small": (64, {}),
    "mambaout_femto": (64, {}),
    "coat_lite_tiny": (64, {}),
    "volo_d1_224": (64, {}),
    "cait_xxs24_224": (64, {"depth": 2}),
}
"""The size of images, and options that make a model small, by name."""
SIZED = (
    "vit_", "deit", "beit", "mixer", "resmlp", "gmlp", "xcit", "cait", "volo", "coat_",
)  # fmt: skip
"""The beginnings of names of models with an option `img_size`."""


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A module with its arguments."""
    import timm
    import torch

    size, options = MODELS[name]
    if name.startswith(SIZED):
        options = options | {"img_size": size}
    module = timm.create_model(name, pretrained=False, num_classes=10, **options)
    return module, (torch.randn(2, 3, size, size),), {}
