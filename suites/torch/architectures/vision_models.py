"""Architectures of torchvision: images, segmentation, detection, video, optical flow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

Built = tuple[Any, tuple[Any, ...], dict[str, Any]]


def build(name: str) -> Built:
    """A module with its arguments."""
    module, *args = MODELS[name]()
    return module, tuple(args), {}


def image(size: int = 64, batch: int = 2) -> Any:
    """A batch of images."""
    return torch.randn(batch, 3, size, size)


def video(frames: int = 8, size: int = 32) -> Any:
    """A batch of videos."""
    return torch.randn(2, 3, frames, size, size)


def named(name: str, x: Any = None, **options: Any) -> Any:
    """A model of torchvision's registry."""
    from torchvision import models

    x = image() if x is None else x
    return models.get_model(name, weights=None, **{"num_classes": 10} | options), x


def inception(name: str, size: int) -> Any:
    """GoogLeNet and Inception, without their auxiliary outputs."""
    return named(name, image(size), aux_logits=False, init_weights=False)


def segmentation(name: str) -> Any:
    """A model of segmentation."""
    return named(name, weights_backbone=None, num_classes=5)


def vit() -> Any:
    """A vision transformer."""
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), image(32)


def maxvit() -> Any:
    """MaxViT: attention in windows and grids."""
    from torchvision.models import MaxVit

    module = MaxVit(
        (64, 64), stem_channels=8, partition_size=2, block_channels=[8, 16],
        block_layers=[1, 1], head_dim=8, stochastic_depth_prob=0.0, num_classes=10,
    )  # fmt: skip
    return module, image()


def swin(version: int = 1) -> Any:
    """Swin transformer: attention in shifted windows."""
    from torchvision.models import swin_transformer as swins

    second = {"block": swins.SwinTransformerBlockV2, "downsample_layer": swins.PatchMergingV2}
    module = swins.SwinTransformer(
        [4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10,
        **(second if version > 1 else {}),
    )  # fmt: skip
    return module, image(32)


def convnext() -> Any:
    """ConvNeXt."""
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    widths = (8, 16), (16, 24), (24, None)
    return ConvNeXt([CNBlockConfig(*pair, 1) for pair in widths], num_classes=10), image()


def pyramid() -> Any:
    """The feature pyramid of a detector, on ResNet."""
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    return resnet_fpn_backbone(
        backbone_name="resnet18", weights=None, trainable_layers=5
    ), image()


class Detector(nn.Module):
    """The head of a detector on the maps of its backbone."""

    def __init__(self, backbone: Any, head: Any) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, x: Any) -> Any:
        """The outputs of the head."""
        return self.head(list(self.backbone(x).values()))


def proposals() -> Any:
    """The proposals of Faster R-CNN, before the selection of boxes."""
    from torchvision.models.detection.backbone_utils import mobilenet_backbone
    from torchvision.models.detection.rpn import RPNHead

    backbone = mobilenet_backbone(
        backbone_name="mobilenet_v3_large", weights=None, fpn=True, trainable_layers=6
    )
    return Detector(backbone, RPNHead(256, 15)), image()


def retina() -> Any:
    """The head of RetinaNet on a feature pyramid."""
    from torchvision.models.detection.retinanet import RetinaNetHead

    backbone, x = pyramid()
    return Detector(backbone, RetinaNetHead(256, 3, 4)), x


def swin3d() -> Any:
    """Swin transformer of videos."""
    from torchvision.models.video import SwinTransformer3d

    module = SwinTransformer3d(
        [2, 4, 4], 16, [2, 2], [2, 4], [2, 4, 4], stochastic_depth_prob=0.0, num_classes=10
    )
    return module, video(4)


def mvit() -> Any:
    """Multiscale vision transformer of videos."""
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    blocks = [
        MSBlockConfig(1, 16, 32, [3, 3, 3], [1, 4, 4], [1, 1, 1], [3, 3, 3]),
        MSBlockConfig(2, 32, 32, [3, 3, 3], [1, 2, 2], [1, 2, 2], [3, 3, 3]),
    ]
    return MViT((32, 32), 8, blocks, True, False, True, True, num_classes=10), video()


def raft() -> Any:
    """RAFT: optical flow in two refinements."""
    from torchvision.models.optical_flow import raft_small

    class Twice(nn.Module):
        """Two refinements."""

        def __init__(self) -> None:
            super().__init__()
            self.raft = raft_small(weights=None)

        def forward(self, first: Any, second: Any) -> Any:
            """The flow."""
            return self.raft(first, second, num_flow_updates=2)

    return Twice(), image(128), image(128)


MODELS: dict[str, Callable[[], Any]] = {
    name: partial(named, name)
    for name in (
        "squeezenet1_1", "resnet18", "resnext50_32x4d", "densenet121", "mobilenet_v2",
        "mobilenet_v3_small", "mnasnet0_5", "shufflenet_v2_x0_5", "efficientnet_b0",
        "regnet_y_400mf",
    )
} | {
    "googlenet": partial(inception, "googlenet", 64),
    "inception_v3": partial(inception, "inception_v3", 96),
    "vit": vit, "maxvit": maxvit, "swin": swin, "swin_v2": partial(swin, 2),
    "convnext": convnext,
    "lraspp_mobilenet_v3_large": partial(segmentation, "lraspp_mobilenet_v3_large"),
    "deeplabv3_mobilenet_v3_large": partial(segmentation, "deeplabv3_mobilenet_v3_large"),
    "resnet18_fpn": pyramid, "mobilenet_rpn": proposals, "retina": retina,
    "r3d_18": lambda: named("r3d_18", video()), "swin3d": swin3d, "mvit": mvit,
    "raft_small": raft,
}  # fmt: skip
