"""Keywords and attributes that users of other libraries type while they train."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
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


def test_the_direction_of_a_monitored_measurement_is_that_of_its_metric(
    tmp_path: Path,
) -> None:
    class Worsen(br.Callback):
        """Replace the measurements by ones that become worse."""

        def on_epoch(self, run: Any, row: Any) -> None:
            row["accuracy"], row["near"], row["loss"] = -row["epoch"], -row["epoch"], 0.0

    with br.Program() as prog:
        x, y = br.data("x", ["n", 2]), br.data("y", ["n"], dtype="int32")
        logits = br.fc(x, 3)
        loss = br.softmax_cross_entropy(logits, y)
        near = br.metrics.mean(br.cast(br.equal(y, 0), "float32"))
        metrics = {"accuracy": br.metrics.accuracy(logits, y), "near": near, "again": loss}
        br.optimizer.sgd(0.1).minimize(loss)
    data = br.batches({"x": np.eye(2), "y": np.zeros(2, "int32")}, 2)

    def trained(*callbacks: Any) -> Any:
        return br.fit(
            prog, data, epochs=6, validation=data, metrics=metrics, callbacks=callbacks,
            quiet=True,
        )  # fmt: skip

    path = tmp_path / "best.safetensors"
    run = trained(Worsen(), br.EarlyStopping("accuracy"), br.Best(path, "accuracy"))
    reason = "accuracy did not improve for 3 epochs (larger is better)"
    assert (len(run.history), run.history.stopped) == (4, reason)
    assert run.better("val_accuracy") == "max"
    assert run.better("loss") == run.better("again") == run.better("val_loss") == "min"
    first = br.Scope()
    br.load_parameters(first, path)
    once = br.fit(prog, data, epochs=1, quiet=True)
    assert np.array_equal(first["fc_0.w"], once.scope["fc_0.w"])
    assert len(trained(Worsen(), br.EarlyStopping("near", mode="max")).history) == 4
    assert len(trained(Worsen(), br.EarlyStopping("near", mode="min")).history) == 6
    for callback in (br.EarlyStopping("near"), br.Best(path, "near")):
        with pytest.raises(br.ProgramError, match=r"monitors `near`.*unknown if smaller"):
            trained(callback)


def test_every_metric_of_numbers_has_a_direction() -> None:
    with br.Program():
        x, y = br.data("x", [4]), br.data("y", [4])
        classes = br.data("c", [4], dtype="int32")
        rates = [
            br.metrics.mean_squared_error(x, y), br.metrics.root_mean_squared_error(x, y),
            br.metrics.mean_absolute_error(x, y), br.metrics.perplexity(x[:, None], classes),
        ]  # fmt: skip
        scores = [
            br.metrics.r2(x, y), br.metrics.auc(x, classes), br.metrics.f1(classes, classes),
            br.metrics.pearson_correlation(x, y), br.metrics.cosine_similarity(x, y, axis=0),
            br.metrics.precision_at_recall(x, classes, 0.5),
        ]  # fmt: skip
        others = [br.metrics.mean(x), br.metrics.confusion_matrix(classes, classes, 2)]
    assert {metric.better for metric in rates} == {"min"}
    assert {metric.better for metric in scores} == {"max"}
    assert {metric.better for metric in others} == {None}
