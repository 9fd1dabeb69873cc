"""Architectures of transformers: text, images, speech, time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
TEXT = SIZES | {"vocab_size": 99, "max_position_embeddings": 64}
DECODER = TEXT | {"num_key_value_heads": 2, "use_cache": False}
IMAGE = SIZES | {"image_size": 32, "patch_size": 8}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
AUDIO = SIZES | {
    "conv_dim": (16, 16, 16),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
    "vocab_size": 32,
    "layerdrop": 0.0,
}


def ids(*shape: int) -> Any:
    """Words."""
    return torch.randint(3, 99, shape)


def tokens(length: int = 12) -> dict[str, Any]:
    """Words with a mask."""
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length - 3 :] = 0
    return {"input_ids": ids(2, length), "attention_mask": mask}


def image(size: int = 32) -> dict[str, Any]:
    """Images."""
    return {"pixel_values": torch.randn(2, 3, size, size)}


def text_image() -> dict[str, Any]:
    """Texts and images."""
    return tokens() | image()


def waves() -> dict[str, Any]:
    """Sound."""
    return {"input_values": torch.randn(2, 1600)}


def only_ids() -> dict[str, Any]:
    """Words without a mask."""
    return {"input_ids": ids(2, 12)}


def encoder_decoder() -> dict[str, Any]:
    """Two texts."""
    return tokens() | {"decoder_input_ids": ids(2, 7)}


def speech_decoder() -> dict[str, Any]:
    """Sound and a text."""
    return {"input_features": torch.randn(2, 16, 60), "decoder_input_ids": ids(2, 7)}


SEQ2SEQ = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "use_cache": False,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
MODELS: dict[str, tuple[str, str, dict[str, Any], Callable[[], dict[str, Any]]]] = {
    "bert": ("BertConfig", "BertForMaskedLM", TEXT, tokens),
    "roberta": ("RobertaConfig", "RobertaForSequenceClassification", TEXT, tokens),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        tokens,
    ),
    "albert": ("AlbertConfig", "AlbertModel", TEXT | {"embedding_size": 16}, tokens),
    "electra": (
        "ElectraConfig",
        "ElectraForPreTraining",
        TEXT | {"embedding_size": 16},
        tokens,
    ),
    "deberta": (
        "DebertaConfig",
        "DebertaModel",
        TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        tokens,
    ),
    "deberta_v2": (
        "DebertaV2Config",
        "DebertaV2Model",
        TEXT
        | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8},
        tokens,
    ),
    "xlnet": (
        "XLNetConfig",
        "XLNetModel",
        {
            "vocab_size": 99,
            "d_model": 32,
            "n_layer": 2,
            "n_head": 4,
            "d_inner": 64,
            "use_mems_eval": False,
            "use_mems_train": False,
        },
        tokens,
    ),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {
            "vocab_size": 99,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 64,
            "use_cache": False,
        },
        tokens,
    ),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", TEXT | {"use_cache": False}, tokens),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {
            "vocab_size": 99,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
            "use_cache": False,
        },
        tokens,
    ),
    "bloom": (
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4, "use_cache": False},
        tokens,
    ),
    "llama": ("LlamaConfig", "LlamaForCausalLM", DECODER, tokens),
    "mistral": ("MistralConfig", "MistralForCausalLM", DECODER | {"sliding_window": 6}, tokens),
    "mixtral": (
        "MixtralConfig",
        "MixtralForCausalLM",
        DECODER | {"num_local_experts": 4, "num_experts_per_tok": 2},
        tokens,
    ),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", DECODER, tokens),
    "qwen2_moe": (
        "Qwen2MoeConfig",
        "Qwen2MoeForCausalLM",
        DECODER
        | {
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 16,
            "shared_expert_intermediate_size": 32,
        },
        tokens,
    ),
    "gemma2": (
        "Gemma2Config",
        "Gemma2ForCausalLM",
        DECODER | {"head_dim": 8, "sliding_window": 6, "query_pre_attn_scalar": 8},
        tokens,
    ),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", DECODER | {"pad_token_id": 0}, tokens),
    "mamba": (
        "MambaConfig",
        "MambaForCausalLM",
        {
            "vocab_size": 99,
            "hidden_size": 16,
            "state_size": 4,
            "num_hidden_layers": 2,
            "use_cache": False,
        },
        only_ids,
    ),
    "mamba2": (
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {
            "vocab_size": 99,
            "hidden_size": 16,
            "state_size": 4,
            "num_hidden_layers": 2,
            "use_cache": False,
            "num_heads": 4,
            "head_dim": 8,
            "n_groups": 1,
            "chunk_size": 4,
        },
        only_ids,
    ),
    "t5": (
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "vocab_size": 99,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "use_cache": False,
            "dropout_rate": 0.0,
        },
        encoder_decoder,
    ),
    "bart": ("BartConfig", "BartForConditionalGeneration", SEQ2SEQ, encoder_decoder),
    "whisper": (
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        SEQ2SEQ | {"num_mel_bins": 16, "max_source_positions": 30, "max_target_positions": 20},
        speech_decoder,
    ),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForCTC", AUDIO, waves),
    "hubert": ("HubertConfig", "HubertModel", AUDIO, waves),
    "vit": ("ViTConfig", "ViTForImageClassification", IMAGE, image),
    "dinov2": ("Dinov2Config", "Dinov2Model", IMAGE, image),
    "swin": (
        "SwinConfig",
        "SwinModel",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [1, 2],
            "num_heads": [2, 4],
            "window_size": 4,
            "drop_path_rate": 0.0,
        },
        image,
    ),
    "convnext": (
        "ConvNextConfig",
        "ConvNextForImageClassification",
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]},
        image,
    ),
    "segformer": (
        "SegformerConfig",
        "SegformerForSemanticSegmentation",
        {
            "hidden_sizes": [8, 16, 24, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 16,
            "drop_path_rate": 0.0,
            "classifier_dropout_prob": 0.0,
        },
        lambda: image(64),
    ),
    "clip": (
        "CLIPConfig",
        "CLIPModel",
        {
            "text_config": TEXT | {"eos_token_id": 98},
            "vision_config": IMAGE,
            "projection_dim": 16,
        },
        text_image,
    ),
    "detr": (
        "DetrConfig",
        "DetrForObjectDetection",
        {
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "num_queries": 5,
            "num_labels": 4,
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone": None,
            "backbone_config": {
                "model_type": "resnet",
                "embedding_size": 8,
                "hidden_sizes": [8, 16],
                "depths": [1, 1],
                "layer_type": "basic",
                "out_features": ["stage2"],
            },
        },
        lambda: image(64),
    ),
    "patchtst": (
        "PatchTSTConfig",
        "PatchTSTForPrediction",
        {
            "num_input_channels": 3,
            "context_length": 32,
            "patch_length": 8,
            "patch_stride": 8,
            "prediction_length": 6,
            "d_model": 32,
            "num_attention_heads": 4,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "use_cls_token": True,
        },
        lambda: {"past_values": torch.randn(2, 32, 3)},
    ),
}
"""The configuration, the model, options that make it small, and inputs, by name."""


def build(name: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A module with its arguments."""
    import transformers

    config, model, options, inputs = MODELS[name]
    module = getattr(transformers, model)(getattr(transformers, config)(**options))
    return module, (), inputs()
