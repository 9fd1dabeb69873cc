"""Names of other libraries, wherever their users type them, lead to names of Braces."""

from __future__ import annotations

import keyword
import pkgutil
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import braces as br
from braces.hints import classes, table_files
from braces.hints.answers import answer_class, answer_name

SPACES = {
    "torch.nn": ["br", "br.nn", "br.layers"],
    "torch.optim": ["br", "br.optim", "br.optimizer"],
    "torch.distributions": ["br", "br.distributions", "br.distribution"],
    "keras.layers": ["br", "br.layers", "br.keras.layers", "br.tf.keras.layers"],
    "keras.losses": ["br", "br.losses", "br.keras.losses"],
    "keras.metrics": ["br", "br.metrics", "br.keras.metrics"],
    "keras.optimizers": ["br", "br.optimizers", "br.optimizer", "br.keras.optimizers"],
}
"""Places where users of a module look for its classes."""


def answer(path: str) -> str:
    """The message of the error for a path from `br` on; empty if it exists."""
    place, _, name = path.rpartition(".")
    try:
        if keyword.iskeyword(name):
            getattr(eval(place, {"br": br}), name)
        eval(path, {"br": br})
    except AttributeError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("module", "space"), [(module, space) for module in SPACES for space in SPACES[module]]
)
def test_a_class_of_another_library_leads_to_its_equivalent(module: str, space: str) -> None:
    (rows,) = (rows for title, rows in classes.sections() if title.split()[0] == module)
    unanswered = [
        f"{space}.{their}: {said}"
        for row in rows
        for their in row.theirs
        if (said := answer(f"{space}.{their}")) and not answers(said, row, their)
    ]
    assert unanswered == []


def answers(said: str, row: classes.Equivalent, their: str) -> bool:
    """Whether a message has the equivalents of a class, or the reason why there is none."""
    if row.why:
        return row.why in said or f"br.{(*row.ours, '?')[0]}" in said
    near = f"Did you mean `{their.lower()}`?"
    return near in said or all(f"br.{our}" in said for our in row.ours_of(their))


FOREIGN = ["nn.functional", "F", "numpy", "np", "jnp", "lax", "keras.ops", "tf.math", "static"]


@pytest.mark.parametrize("space", FOREIGN)
def test_a_function_of_braces_is_found_in_namespaces_of_other_libraries(space: str) -> None:
    names = [name for name in dir(br) if not isinstance(getattr(br, name), ModuleType)]
    lost = [name for name in names if f"br.{name}" not in answer(f"br.{space}.{name}")]
    assert lost == []


@pytest.mark.parametrize("name", sorted(table_files.habits()))
def test_a_function_of_another_library_is_answered_in_every_place(name: str) -> None:
    hint = table_files.habits()[name]
    for place in ("br", "br.F", "br.tf")[: 1 if keyword.iskeyword(name) else 3]:
        assert hint in answer(f"{place}.{name.rpartition('.')[2]}") or "." in name
        if not hasattr(br, name.split(".")[0]):
            assert hint in answer(f"br.{name}") or "." not in name


@pytest.mark.parametrize("name", sorted(table_files.namespaces()))
def test_a_namespace_of_another_library_is_answered(name: str) -> None:
    assert f"Use {table_files.namespaces()[name]}." in answer(f"br.{name}")
    assert f"Use {table_files.namespaces()[name]}." in answer(f"br.{name}.nothing_known")
    assert "br.fc(x, size)" in answer(f"br.{name}.Linear")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("br.nn.Linear", "For br.nn.Linear use br.fc(x, size)."),
        ("br.nn.functional.relu", "br.nn.functional.relu is br.relu."),
        ("br.nn.Linear(3, 4)", "For br.nn.Linear use br.fc(x, size)."),
        ("[br.optim.Adam for _ in range(1)]", "use br.optimizer.adam(learning_rate=0.001)."),
        ("br.optim.lr_scheduler.StepLR", "use br.optimizer.piecewise_constant_schedule."),
        ("br.autograd.Function", "use br.custom_gradient(function)."),
        ("br.keras.losses.Poisson", "use br.losses.poisson_nll_loss(prediction, target)."),
        ("br.Poisson", "Use br.distributions.Poisson(rate=1.0) or br.losses.poisson_nll_loss("),
        ("br.Normal", "Use br.distributions.Normal(loc=0.0, scale=1.0)."),
        ("br.normal", "Use br.random.normal(shape), or br.distributions.Normal(loc, scale)."),
        ("br.RandomFlip", "There is no such function: image augmentation belongs to data"),
        ("br.Binomial", "Use br.distributions.Binomial(total_count=1, probs=...)."),
        ("getattr(br, 'nn').Linear", "Use br.layers."),
        ("br.nn", "Use br.layers."),
    ],
)
def test_an_answer(path: str, said: str) -> None:
    assert said in answer(path)


def test_an_expression_of_many_lines_is_read() -> None:
    with pytest.raises(AttributeError, match=r"use br\.batches\(arrays, batch_size\)"):
        eval("(br.utils\n  .data\n  .DataLoader)")


LISTED = """
    load_onnx sequence_mask global_avg_pool2d autocast GradScaler PyLayer autograd.Function
    set_device to cuda TensorBoard SummaryWriter wandb odeint moe log_prob repeat_interleave
    checkpoint DataParallel DistributedDataParallel requires_grad detach backward zero_grad step
    state_dict Module Sequential compile predict model.fit GradientTape function custom_jvp
    custom_vjp pmap shard_map checkpoint_name PRNGKey random.split tree_map device_put
    block_until_ready fori_loop nn.Linear Linear layers.Dense F.relu tensor no_grad numpy
    lax.scan jit grad static.data tf.function jax.jit optimizer.step
"""
"""Names that users of other libraries missed."""


@pytest.mark.parametrize("name", [name for name in LISTED.split() if name != "model.fit"])
def test_a_name_that_users_missed_is_answered(name: str) -> None:
    said = answer(f"br.{name}")
    assert "Use " in said or " use " in said or f"br.{name} is br." in said


MEMBERS: dict[str, str] = {
    "x": "view permute unsqueeze numpy item cuda backward detach requires_grad_ at to cpu "
    "clone float long half double contiguous size dim expand masked_fill squeeze_ add_ grad "
    "data tolist requires_grad register_hook numel copy_ zero_ set_value block_until_ready",
    "prog": "train eval to cuda cpu fit predict compile state_dict load_state_dict zero_grad "
    "backward named_parameters modules children forward half float trainable_variables",
    "exe": "fit predict train eval to cuda step backward zero_grad",
    "opt": "step zero_grad state_dict load_state_dict param_groups update init lr backward",
    "d": "prob pdf logpdf std var kl_divergence sample_n",
    "data": "batch shuffle map prefetch repeat take set_epoch",
    "rnn": "step step_input memory step_output update_memory",
}
"""Attributes that users of other libraries type on objects of Braces."""


@pytest.fixture(scope="module")
def things() -> dict[str, Any]:
    with br.Program() as prog:
        x = br.data("x", [2, 3])
        rnn = br.create_rnn()
    return {
        "x": x, "prog": prog, "exe": br.Executor(), "opt": br.optimizer.adam(0.1), "rnn": rnn,
        "d": br.distributions.Normal(0.0, 1.0), "data": br.batches({"x": [1.0, 2.0]}, 1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("thing", "name"), [(thing, name) for thing in MEMBERS for name in MEMBERS[thing].split()]
)
def test_an_attribute_of_another_library_is_answered(
    things: dict[str, Any], thing: str, name: str
) -> None:
    with pytest.raises(AttributeError, match=f"no attribute `{name}`. Use "):
        getattr(things[thing], name)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("from braces import nn", "cannot import name 'nn' from 'braces'. Use br.layers."),
        ("from braces import Linear", "Use br.fc(x, size)."),
        ("from braces import fc, Dense", "Use br.fc(x, size)."),
        ("from braces import svd", "br.svd is br.linalg.svd."),
        ("from braces import sofmax", "cannot import name 'sofmax' from 'braces'"),
    ],
)
def test_an_import_of_a_name_is_answered(statement: str, said: str) -> None:
    with pytest.raises(ImportError, match=re.escape(said)):
        exec(statement, {})


def test_no_module_of_the_package_has_an_answer_before_it_is_imported() -> None:
    modules = [module.name for module in pkgutil.iter_modules(br.__path__)]
    assert [name for name in modules if name not in vars(br) and answer_name("br", name)] == []


@pytest.mark.parametrize("module", ["cli", "hints", "layers", "web", "demo", "viewer"])
def test_modules_are_still_imported(module: str) -> None:
    names: dict[str, Any] = {}
    exec(f"from braces import {module}", names)
    assert isinstance(names[module], ModuleType)


def test_parameters_are_no_method(things: dict[str, Any]) -> None:
    assert things["prog"].parameters == []
    with pytest.raises(TypeError, match=r"Use prog\.parameters without parentheses"):
        things["prog"].parameters()


def test_a_class_without_a_place_has_the_answers_of_all_modules() -> None:
    said = answer_class("CosineSimilarity")
    assert "br.losses.cosine_similarity(" in said
    assert "br.metrics.cosine_similarity(" in said
    assert answer_class("CosineSimilarity", ["metrics"]) == (
        "Use br.metrics.cosine_similarity(prediction, target)."
    )


def test_importing_the_package_reads_no_table() -> None:
    loaded = "import sys, braces; print(*(m for m in sys.modules if 'braces.hints.' in m))"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["braces.hints.objects"]
