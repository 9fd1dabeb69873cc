"""One word for each concept in the signatures of the package."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import pytest

import braces as br
from braces.errors import BracesError
from braces.keywords import WORDS, hint_keywords
from public_names import modules

BANNED = {
    "activation": "act, as in `br.fc`",
    "beta1": "b1",
    "beta2": "b2",
    "classes": "num_classes",
    "covariance": "covariance_matrix",
    "dim": "axis",
    "dims": "axes",
    "dir": "folder",
    "directory": "folder",
    "eps": "epsilon",
    "eps_root": "epsilon_root",
    "feed_dict": "feed",
    "fetch_list": "fetch",
    "input": "x, prediction or logits",
    "keepdim": "keepdims",
    "log_probabilities": "log_probs",
    "lr": "learning_rate",
    "mean": "loc",
    "mu": "loc",
    "p": "probs",
    "preds": "prediction",
    "predicate": "pred",
    "predictions": "prediction",
    "prob": "probs",
    "probabilities": "probs",
    "probability": "probs",
    "sigma": "scale",
    "std": "scale",
    "stddev": "scale",
    "targets": "target",
    "trials": "total_count",
    "variance": "var",
    "weight_decay_rate": "weight_decay",
    "y_pred": "prediction",
    "y_true": "target or labels",
}
"""Words that no parameter has, with the word of Braces."""

_PROGRAM_TARGETS = "the variables of a program that are differentiated or computed"
_NORM = "the exponent of a p-norm"
ALLOWED = {
    ("br.Block.eval", "targets"): _PROGRAM_TARGETS,
    ("br.gradients", "targets"): _PROGRAM_TARGETS,
    ("br.jvp", "targets"): _PROGRAM_TARGETS,
    ("br.passes.gradients", "targets"): _PROGRAM_TARGETS,
    ("br.passes.jvp", "targets"): _PROGRAM_TARGETS,
    ("br.prune", "targets"): _PROGRAM_TARGETS,
    ("br.Layout", "dims"): "the rules of named dimensions",
    ("br.batch_norm", "mean"): "the running mean, a parameter of the layer",
    ("br.distributions.kl_divergence", "p"): "the distribution of the formula KL(p || q)",
    ("br.layers.lp_pool1d", "p"): _NORM,
    ("br.layers.lp_pool2d", "p"): _NORM,
    ("br.layers.lp_pool3d", "p"): _NORM,
    ("br.losses.multi_margin_loss", "p"): _NORM,
    ("br.losses.triplet_margin_loss", "p"): _NORM,
}
"""Parameters that mean something else, with what they mean."""


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each public function, class and method, by its path."""
    for place, module in modules().items():
        for name in dir(module):
            member = getattr(module, name)
            if isinstance(member, ModuleType) or not callable(member):
                continue
            yield f"{place}.{name}", member
            if inspect.isclass(member) and not issubclass(member, Exception):
                yield from methods(f"{place}.{name}", member)


def methods(path: str, cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each public method of a class, by its path."""
    for name, member in inspect.getmembers(cls, inspect.isroutine):
        if not name.startswith("_"):
            yield f"{path}.{name}", member


@functools.cache
def signatures() -> dict[str, Mapping[str, inspect.Parameter]]:
    """The parameters of each public callable that has a signature."""
    found: dict[str, Mapping[str, inspect.Parameter]] = {}
    for path, function in callables():
        try:
            found[path] = inspect.signature(function).parameters
        except (TypeError, ValueError):
            continue
    return found


LOSSES = [
    path
    for path, parameters in signatures().items()
    if "reduction" in parameters and path not in ("br.put_along_axis", "br.scatter_nd")
]


def test_the_table_covers_the_package() -> None:
    assert len(signatures()) > 700
    assert {"br.fc", "br.softmax", "br.distributions.Normal", "br.Executor.run"} <= {
        *signatures()
    }


@pytest.mark.parametrize("word", sorted(BANNED))
def test_no_parameter_has_a_second_word_for_a_concept(word: str) -> None:
    wrong = [
        path
        for path, parameters in signatures().items()
        if word in parameters and (path, word) not in ALLOWED
    ]
    assert not wrong, f"`{word}=` is `{BANNED[word]}` in Braces: {wrong}"


@pytest.mark.parametrize(("path", "word"), ALLOWED)
def test_an_exception_is_still_needed(path: str, word: str) -> None:
    assert word in BANNED
    assert word in signatures()[path]


def test_every_loss_is_a_mean_by_default() -> None:
    in_losses = {f"br.losses.{name}" for name in dir(br.losses)}
    assert in_losses - {"br.losses.cosine_similarity"} <= {*LOSSES}
    assert [path for path in LOSSES if signatures()[path]["reduction"].default != "mean"] == []


@pytest.mark.parametrize(
    "path",
    ["br.save_parameters", "br.load_parameters", "br.save_checkpoint", "br.load_checkpoint"],
)
def test_a_scope_comes_before_the_place_it_is_saved_in(path: str) -> None:
    assert [*signatures()[path]][:2] in (["scope", "path"], ["scope", "folder"])


INNER = tuple(f"{place}." for place in modules() if place != "br")
SILENT = ("br.call", "br.dtypes", "br.remote")
HINTING_CLASSES = ("br.Executor.", "br.Program.")
"""Callables without hints for keywords, and `br.call`, which takes any keyword."""


def habits() -> Iterator[tuple[str, Callable[..., Any], str, str]]:
    """Functions and classes, with a word of other libraries and the parameter it stands for."""
    for path, function in callables():
        is_method = path.count(".") > 1 + path.startswith(INNER)
        if path.startswith(SILENT) or (is_method and not path.startswith(HINTING_CLASSES)):
            continue
        parameters = signatures().get(path, {})
        if is_method:
            function = functools.partial(function, None, None)
            if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                continue  # `explain` passes its options on
        for ours in parameters:
            yield from (
                (path, function, x, ours) for x in WORDS.get(ours, ()) if x not in parameters
            )


def test_the_hint_for_a_word_of_another_library_has_the_word_of_braces() -> None:
    silent: list[str] = []
    with br.Program():
        for path, function, theirs, ours in habits():
            with pytest.raises((TypeError, BracesError)) as caught:
                function(**{theirs: 0})
            said = str(caught.value)
            if f"{ours}=" not in said or said.count("Use ") > 1:
                silent.append(f"{path}({theirs}=): {caught.value}")
    assert silent == [], "\n".join(silent)


def test_methods_and_misspelled_words_have_hints_too() -> None:
    with br.Program():
        x = br.data("x", [2, 3])
        for call, hint in (
            (lambda: x.sum(dim=1), "Use axis=."),  # pyright: ignore[reportCallIssue]
            (lambda: br.Executor().run(br.Program(), fetch_list=[x]), "Use fetch=."),  # pyright: ignore[reportCallIssue]
            (lambda: br.Executor().compile(br.Program(), fetch_list=[x]), "Use fetch=."),  # pyright: ignore[reportCallIssue]
            (lambda: br.Program().explain(fetch_list=[x]), "Use fetch=."),
            (lambda: br.Program.load(filepath="a"), "Use path=."),  # pyright: ignore[reportCallIssue]
            (lambda: br.Mesh(shape=(2, 4), axis_names=("a", "b")), "Use axes=."),  # pyright: ignore[reportCallIssue]
            (lambda: br.softmax(x, dim=1), "Use axis=. Call softmax(x, axis=-1)."),
            (lambda: br.optimizer.adam(learning_rat=0.1), "Did you mean `learning_rate`?"),  # pyright: ignore[reportCallIssue]
        ):
            with pytest.raises((TypeError, BracesError), match=re.escape(hint)):
                call()


def test_an_error_of_the_function_itself_stays_as_it_is() -> None:
    @hint_keywords
    def fail(*, axis: int) -> None:
        raise TypeError(f"no axis {axis}")

    with pytest.raises(TypeError, match=r"^no axis 3$"):
        fail(axis=3)


def takes_any_number(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter such as `*operands`."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL for p in parameters)


FUNCTIONS = {
    path: function
    for path, function in callables()
    if inspect.isfunction(function)
    and hasattr(function, "__wrapped__")
    and not inspect.isgeneratorfunction(inspect.unwrap(function))  # context managers
    and path in signatures()
    and not takes_any_number(function)
}


@pytest.mark.parametrize("path", FUNCTIONS)
def test_too_many_arguments_show_the_signature(path: str) -> None:
    function = FUNCTIONS[path]
    arguments = [1] * (len(inspect.signature(function).parameters) + 1)
    with br.Program(), pytest.raises((TypeError, BracesError)) as error:
        function(*arguments)
    signature = rf"\. Call \w*{path.rpartition('.')[2]}\(.*\)\.$"
    refused_before = isinstance(error.value, BracesError)
    assert refused_before or re.search(signature, str(error.value)), error.value
    assert str(error.value).count(". Call ") <= 1


def test_a_scope_with_arguments_is_refused_without_a_message_of_its_deletion() -> None:
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        br.Scope("x")  # pyright: ignore[reportCallIssue]
