"""Each question that users asked has an answer with code, and a link to its guide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.snippets import snippets

DOCS = Path(__file__).resolve().parents[2] / "docs"
GROUPS = "Batches|Control|Problems|Extensions|Files"
"""Headings above several questions."""
PAGES = ("training", "models", "running", "extending")

QUESTIONS = {
    "evaluate without training": "Evaluate without training",
    "use metrics, read and reset them": "Use a metric, read and reset it",
    "save a model that has metrics": "Save a model that has metrics",
    "train in mixed precision": "Train in mixed precision (bfloat16, float16, AMP)",
    "set a schedule": "Set a learning-rate schedule, and read the current rate",
    "read the current learning rate": "Set a learning-rate schedule, and read the current rate",
    "stop early": "Stop early, and keep the best checkpoint",
    "keep the best checkpoint": "Stop early, and keep the best checkpoint",
    "what goes into data_position": "Say what goes into `data_position`",
    "share weights": "Share weights",
    "decode greedily": "Decode greedily, by beam search, by sampling",
    "decode by beam": "Decode greedily, by beam search, by sampling",
    "decode by sampling": "Decode greedily, by beam search, by sampling",
    "freeze": "Freeze and unfreeze parameters",
    "unfreeze": "Freeze and unfreeze parameters",
    "clip": "Clip, accumulate, average gradients and parameters; parameter groups",
    "accumulate": "Clip, accumulate, average gradients and parameters; parameter groups",
    "average": "Clip, accumulate, average gradients and parameters; parameter groups",
    "group parameters": "Clip, accumulate, average gradients and parameters; parameter groups",
    "the batch size as a number": "Use the batch size as a number",
    "add L2": "Add L2 or weight decay",
    "log the gradient norm": "Log the gradient norm",
    "weigh classes": "Weigh classes, smooth labels, ignore labels",
    "smooth labels": "Weigh classes, smooth labels, ignore labels",
    "drop out, and seed it": "Use dropout, and seed it",
    "several programs in one model": "Keep several programs in one model, and run one of them",
    "which run compiles": "See which run compiles, how often, and why",
    "bucket and pad": "Bucket and pad sequences",
    "the last smaller batch": "Handle the last smaller batch",
    "look into a loop": "Look into a loop, fetch an inner value",
    "fetch an inner value": "Look into a loop, fetch an inner value",
    "rewrite a program": "Rewrite a program, replace a block, insert a layer",
    "replace a block": "Rewrite a program, replace a block, insert a layer",
    "insert a layer": "Rewrite a program, replace a block, insert a layer",
    "route rows to experts": "Route rows to one of n experts",
    "a program on a GPU": "Put a program on a GPU",
    "several GPUs": "Use several GPUs",
    "log to TensorBoard": "Log to TensorBoard, CSV or JSON lines",
    "draw curves": "Draw learning curves",
    "serve over HTTP": "Serve a model over HTTP",
    "a PyTorch DataLoader": "Use a PyTorch DataLoader, a generator, a Parquet file",
    "a generator": "Use a PyTorch DataLoader, a generator, a Parquet file",
    "a Parquet file": "Use a PyTorch DataLoader, a generator, a Parquet file",
    "read, tune, write a foreign model": "Read a foreign model, fine-tune it, write it out",
    "the operator that makes a NaN": "Find the operator that makes a NaN",
    "why a step is slow": "Find why a step is slow",
    "write an operator": "Write an operator",
    "write a layer": "Write a layer, a loss",
    "write a loss": "Write a layer, a loss",
    "write a metric": "Write a metric",
    "write an optimizer": "Write an optimizer or a schedule",
    "write a pass": "Write a pass",
    "write a reader rule": "Write a rule of an importer",
    "test them": "Test my operators, layers and passes",
    "make a run reproducible": "Make a run reproducible, to the bit",
    "resume": "Resume a training",
    "many hosts": "Run the same program on many hosts",
    "what a file contains": "Know what a file contains before running it",
    "trust a file from a stranger": "Trust a file from a stranger",
    "upgrade old files": "Upgrade old files",
}
"""The heading that answers each question."""


def read(page: str) -> str:
    """The text of a page of answers."""
    return (DOCS / "how_do_i" / f"{page}.md").read_text(encoding="utf-8")


def answers(page: str) -> dict[str, str]:
    """The text below each question of a page, by heading."""
    text = re.sub(
        r"^## (Batches|Control|Problems|Extensions|Files)$", "", read(page), flags=re.M
    )
    parts = re.split(r"^##+ (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


ANSWERS = {heading: text for page in PAGES for heading, text in answers(page).items()}
INDEX = re.findall(r"^- \[(.+)\]\(\S+\)$", (DOCS / "how_do_i.md").read_text("utf-8"), re.M)


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_has_an_answer(question: str) -> None:
    assert QUESTIONS[question] in ANSWERS


def test_the_index_lists_each_answer_in_order() -> None:
    assert list(ANSWERS) == INDEX


@pytest.mark.parametrize("heading", ANSWERS)
def test_each_answer_is_short_code_and_a_link_to_a_page(heading: str) -> None:
    text = ANSWERS[heading]
    lines = [line for block in snippets(text) for line in block.code.splitlines() if line]
    assert 1 <= len(lines) <= 15
    assert re.search(r"\]\(\.\./(guides|tables|concepts)", text)
