"""Keywords and attributes that users of other libraries type while they train."""

from __future__ import annotations

import re
from typing import Any

import pytest

import braces as br
from tests.fitting.nets import Task, fit

KEYWORDS = {
    "device": 'exe=br.Executor(device="gpu:0")',
    "lr": "br.optimizer.adam(1e-3).minimize(loss)",
    "learning_rate": "br.optimizer.adam(1e-3).minimize(loss)",
    "optimizer": "br.optimizer.adam(1e-3).minimize(loss)",
    "loss": "br.optimizer.adam(1e-3).minimize(loss)",
    "checkpoint_dir": "Use folder=.",
    "verbose": "Use quiet=.",
    "batch_size": "br.batches(arrays, batch_size)",
    "steps_per_epoch": "Use steps=.",
    "num_workers": "br.batches(arrays, batch_size, workers=4)",
    "num_epochs": "Use epochs=.",
    "validation_data": "Use validation=.",
    "validation_split": "validation=br.batches(held_out, batch_size)",
    "train_loader": "Use data=.",
    "model": "Use program=.",
    "x": 'br.batches({"x": xs, "y": ys}, batch_size)',
    "early_stopping": "br.EarlyStopping",
    "log_dir": "Use log_files=.",
    "initial_epoch": "use folder=.",
    "detect_anomaly": "Use check_nan=.",
}


def _call(function: Any, word: str) -> None:
    function(br.Program(), [], **{word: 1})


@pytest.mark.parametrize("word", KEYWORDS)
def test_fit_says_what_to_type_for_a_keyword_of_another_library(word: str) -> None:
    with pytest.raises(TypeError, match=re.escape(KEYWORDS[word])):
        _call(br.fit, word)


@pytest.mark.parametrize("word", ["device", "lr", "batch_size", "steps_per_epoch", "model"])
@pytest.mark.parametrize("function", [br.training, br.evaluate])
def test_the_loop_and_the_evaluation_say_it_too(function: Any, word: str) -> None:
    with pytest.raises(TypeError, match=re.escape(KEYWORDS[word])):
        _call(function, word)


@pytest.mark.parametrize("word", ["read", "result", "compute", "update_state", "reset_states"])
def test_a_metric_says_how_it_is_read_updated_and_reset(word: str) -> None:
    metric = Task.shared().metrics["accuracy"]
    said = {"update_state": "exe.run(prog, scope", "reset_states": "metric.reset(scope)"}
    with pytest.raises(AttributeError, match=re.escape(said.get(word, "fetch=metric.value"))):
        getattr(metric, word)


def test_a_history_is_indexed_by_name_and_by_epoch() -> None:
    history = fit().history
    assert history[-1] == history.rows[-1]
    assert history[0]["epoch"] == 1
    assert history[1:] == history.rows[1:]
    assert history[-1]["loss"] == history["loss"][-1]
    with pytest.raises(IndexError):
        _ = history[3]
    with pytest.raises(br.UnknownNameError, match="Did you mean `loss`"):
        _ = history["los"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("keys", "history.names"),
        ("history", 'history["loss"]'),
        ("loss", 'history["loss"]'),
        ("to_pandas", "pandas.DataFrame(history.rows)"),
    ],
)
def test_a_history_says_where_its_values_are(word: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(fit().history, word)


def test_a_run_and_the_statistics_of_its_executor_have_hints() -> None:
    run = fit()
    with pytest.raises(AttributeError, match=re.escape('run.history["loss"]')):
        run.losses  # noqa: B018
    with pytest.raises(AttributeError, match=re.escape("stats.compilations")):
        run.exe.stats.compiles  # noqa: B018
