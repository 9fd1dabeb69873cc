"""Architectures of torchaudio: speech, and separation of sources."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Layers(nn.Module):
    """The layers of a Conformer with a padding mask: exports cannot read lengths."""

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Any, padding: Any) -> Any:
        """The outputs of the last layer. x: [time, batch, feature]."""
        for layer in self.layers:
            x = layer(x, padding)
        return x


def conformer() -> Any:
    """Conformer: attention and convolutions."""
    from torchaudio.models import Conformer

    padding = torch.arange(20) >= torch.tensor([[20], [13]])
    layers = Conformer(16, 4, 32, 2, 7).conformer_layers
    return Layers(layers), torch.randn(20, 2, 16), padding


def wav2letter() -> Any:
    """Wav2Letter: convolutions."""
    from torchaudio.models import Wav2Letter

    return Wav2Letter(8, "mfcc", 13), torch.randn(2, 13, 60)


def deepspeech() -> Any:
    """DeepSpeech: a recurrent network."""
    from torchaudio.models import DeepSpeech

    return DeepSpeech(16, n_hidden=32, n_class=8), torch.randn(2, 1, 20, 16)


def conv_tasnet() -> Any:
    """Conv-TasNet: separation of sources by convolutions."""
    from torchaudio.models import ConvTasNet

    return ConvTasNet(2, 16, 32, 3, 16, 32, 3, 2), torch.randn(2, 1, 800)


def wavernn() -> Any:
    """WaveRNN: a vocoder."""
    from torchaudio.models import WaveRNN

    module = WaveRNN(
        [5, 5, 8], 16, 200, n_res_block=2, n_rnn=32, n_fc=32, n_hidden=16, n_output=8
    )
    return module, torch.randn(2, 1, 1200), torch.randn(2, 1, 128, 10)


def hdemucs() -> Any:
    """Hybrid Demucs: separation of sources in time and frequency."""
    from torchaudio.models import HDemucs

    return HDemucs(["a", "b"], 2, 8, nfft=256, depth=3), torch.randn(1, 2, 2048)


def wav2vec2() -> Any:
    """wav2vec 2.0."""
    from torchaudio.models import wav2vec2_model

    module = wav2vec2_model(
        "group_norm", [(16, 10, 5), (16, 3, 2)], False, 32, 0.0, 16, 4, 2, 4, 0.0, 64, 0.0,
        0.0, False, 0.0, 8,
    )  # fmt: skip
    return module, torch.randn(2, 800)


def squim() -> Any:
    """SQUIM: the quality of speech."""
    from torchaudio.models import squim_objective_model

    return squim_objective_model(16, 4, 16, 2, 8, 1, "LSTM", 20), torch.randn(2, 800)


MODELS = {
    build.__name__: build
    for build in (
        conformer, wav2letter, deepspeech, conv_tasnet, wavernn, hdemucs, wav2vec2,
        squim,
    )
}  # fmt: skip


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A module with its arguments."""
    module, *args = MODELS[name]()
    return module, tuple(args), {}
