"""The public surface of the package: short lists, and one meaning per name."""

from __future__ import annotations

import ast
import inspect
import re
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.extend.operators import OPS
from braces.frontend.core.functions import ALIASES, FUNCTIONS
from braces.frontend.core.public_names import UNLISTED_NAMES
from braces.hints.answers import habit_of
from braces.homes import ELSEWHERE, find_homes
from public_names import modules

PLACES = modules()
NAMES = [(place, name) for place, module in PLACES.items() for name in dir(module)]

# ---- what must be there ----------------------------------------------------------------------

SPELLED = """
    BracesError DTypeError FileFormatError RunError ScopeClosedError ShapeError UnknownNameError
    Block Executor Program Scope Variable
    abs add_two append_backward arange argmax cast concat cond constant create_if_else
    block create_rnn create_switch create_while data default_program fc full get_variable
    gradients jvp load_model load_parameters matmul mean ones_like parameter parse prune reshape
    save_model save_parameters scan sigmoid sqrt sum switch tanh verify while_loop zeros_like
    init.glorot_uniform init.zeros
    optimizer.adam optimizer.chain optimizer.clip_by_global_norm
"""
MEMBERS = {
    "program": "block blocks from_bytes load save startup to_bytes",
    "block": "eval infer_shape ops parent run symbol_table vars",
    "variable": "dtype name shape",
    "executor": "compile init profile run",
    "scope": "close erase find_local_var find_var names new_scope new_var parent var",
    "cell": "set value",
    "rnn": "final stepnet",
    "net": "add_input add_memory add_output stop_when",
    "memory": "next pre update",
    "loop": "block final",
    "body": "add_memory add_output set_condition",
    "choice": "false_block pass_through true_block",
    "case": "add_input add_output",
    "switch": "case default",
    "optimizer": "minimize",
}
"""What the design documents write after a dot, by what stands before it."""


@pytest.mark.parametrize("path", SPELLED.split())
def test_what_the_documents_spell_is_there(path: str) -> None:
    found: Any = br
    for part in path.split("."):
        found = getattr(found, part)
    assert callable(found)


def met() -> dict[str, Any]:
    """One of each kind of thing that users hold, by what `MEMBERS` calls it."""
    with br.Program() as program:
        x = br.data("x", ["t", "b", 2])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            memory = net.add_memory(init=br.zeros(["b", 2]))
            memory.update(row)
            net.add_output(memory.pre(1))
        loop = br.create_while()
        with loop.block() as body:
            count = body.add_memory(init=br.constant(0))
            body.set_condition(count < 3)
            count.update(count + 1)
        choice = br.create_if_else(br.any(x > 0.0))
        with choice.true_block() as case:
            case.add_output(case.add_input(x))
        choice.pass_through(x)
        switch = br.create_switch()
        with switch.case(br.any(x > 1.0)) as only:
            only.add_output(x)
        with switch.default() as only:
            only.add_output(x)
    scope = br.Scope()
    return {
        "program": program, "block": program.block(0), "variable": x, "executor": br.Executor(),
        "scope": scope, "cell": scope.new_var("v"), "rnn": rnn, "net": net, "memory": memory,
        "loop": loop, "body": body, "choice": choice, "case": case, "switch": switch,
        "optimizer": br.optimizer.adam(0.1),
    }  # fmt: skip


def test_what_the_documents_write_after_a_dot_is_there() -> None:
    things = met()
    things["cell"].set(np.zeros(1))
    missing = [
        f"{kind}.{name}"
        for kind, names in MEMBERS.items()
        for name in names.split()
        if not hasattr(things[kind], name)
    ]
    assert missing == []


ARRAY_API = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh atan atan2 atanh
    bool broadcast_to ceil clip complex128 complex64 concat conj copysign cos cosh
    count_nonzero divide e equal exp expand_dims expm1 eye flip float32 float64 floor
    floor_divide full full_like greater greater_equal hypot inf int16 int32 int64 int8 isfinite
    isinf isnan less less_equal linspace log log1p log2 logaddexp logical_and logical_not
    logical_or logical_xor matmul matrix_transpose max maximum mean min minimum moveaxis
    multiply nan negative newaxis not_equal ones ones_like permute_dims pi pow prod reciprocal
    remainder repeat reshape roll round sign sin sinh sort split sqrt square squeeze stack std
    subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc uint16 uint32
    uint64 uint8 unstack var where zeros zeros_like
"""


@pytest.mark.parametrize("name", ARRAY_API.split())
def test_names_of_the_array_api_are_listed(name: str) -> None:
    assert name in dir(br)
    assert hasattr(br, name)


@pytest.mark.parametrize("name", [*UNLISTED_NAMES, *dir(br.errors)])
def test_second_spellings_work_and_are_not_listed(name: str) -> None:
    assert hasattr(br, name)
    assert (name in dir(br)) == (name == "BracesError")
    if name in ALIASES:
        assert getattr(br, name) is FUNCTIONS[ALIASES[name]]


# ---- and nothing else ------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "name"), NAMES)
def test_listed_names_are_public_and_documented(place: str, name: str) -> None:
    found = getattr(PLACES[place], name)
    assert not name.startswith("_")
    assert not isinstance(found, ModuleType) or f"{place}.{name}" in PLACES
    if callable(found) and place != "br.dtypes":
        assert inspect.getdoc(found)


def test_what_star_imports_is_what_is_listed() -> None:
    for module in PLACES.values():
        found: dict[str, Any] = {}
        exec(f"from {module.__name__} import *", found)
        assert sorted(found.keys() - {"__builtins__"}) == dir(module)


@pytest.mark.parametrize(
    "place",
    [
        "br",
        "br.decoding",
        "br.distributions",
        "br.fft",
        "br.image",
        "br.init",
        "br.layers",
        "br.linalg",
        "br.lists",
        "br.losses",
        "br.metrics",
        "br.optimizer",
        "br.random",
        "br.signal",
        "br.special",
    ],
)
def test_type_checkers_are_not_told_that_any_name_is_there(place: str) -> None:
    source = ast.parse(inspect.getsource(PLACES[place]))
    hidden = [node for node in source.body if isinstance(node, ast.If)]
    told = [one for node in source.body if node not in hidden for one in ast.walk(node)]
    assert "__getattr__" in vars(PLACES[place])
    assert "__getattr__" not in {one.id for one in told if isinstance(one, ast.Name)}
    assert [ast.unparse(node.test).endswith("TYPE_CHECKING") for node in hidden] == [True]


@pytest.mark.parametrize("place", ["br.errors"])
def test_a_name_of_two_modules_is_one_thing(place: str) -> None:
    for name in dir(PLACES[place]):
        assert getattr(PLACES[place], name) is getattr(br, name)


HOMES_OF_TWO = {"BracesError"}
"""The root of all errors: everybody types `br.BracesError`, and `br.errors` lists the tree."""
SHARED_NAMES = {
    "fft": "numpy.fft.fft has the name of its module too",
    "diff": "of two programs, and of neighbours along an axis in br.signal",
    "accuracy": "of a batch, and over batches in br.metrics",
    "top_k_accuracy": "of a batch, and over batches in br.metrics",
    "cosine_similarity": "of a batch, and over batches in br.metrics",
    "mean": "of an array, and over batches in br.metrics",
    **dict.fromkeys(("constant", "identity", "ones", "zeros"), "a value, and an initializer"),
    **dict.fromkeys(("normal", "truncated_normal", "uniform"), "a draw, and an initializer"),
    **dict.fromkeys(
        ("for_test", "gradients", "jvp", "prune", "verify"), "a function, and a pass"
    ),
    **dict.fromkeys(("resize", "stack", "unstack"), "of arrays, and of lists in br.lists"),
}
"""Names in two modules, and what the two have in common."""
MOST_NAMES = 350


def test_every_object_has_one_home() -> None:
    homes: dict[int, list[str]] = {}
    for place, name in NAMES:
        member = getattr(PLACES[place], name)
        if not isinstance(member, ModuleType) and name not in HOMES_OF_TWO:
            homes.setdefault(id(member), []).append(f"{place}.{name}")
    assert [paths for paths in homes.values() if len(paths) > 1] == []


def test_a_name_of_two_modules_has_one_meaning() -> None:
    names = [name for _, name in NAMES if name not in HOMES_OF_TWO]
    assert {name for name in names if names.count(name) > 1} == SHARED_NAMES.keys()


def test_br_has_what_everybody_types() -> None:
    assert len(dir(br)) <= MOST_NAMES


def test_the_word_for_an_activation_is_act() -> None:
    functions = [getattr(PLACES[place], name) for place, name in NAMES]
    layers = [function for function in functions if inspect.isfunction(function)]
    assert not [one for one in layers if "activation" in inspect.signature(one).parameters]


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_the_table_of_homes_has_the_modules_of_functions(name: str) -> None:
    assert name in dir(getattr(br, ELSEWHERE[name]))
    assert name not in vars(br) or name in ("fft", "diff")


@pytest.mark.parametrize("namespace", sorted(set(ELSEWHERE.values())))
def test_the_table_of_homes_lists_all_names_of_a_namespace(namespace: str) -> None:
    listed = {name for name, home in ELSEWHERE.items() if home == namespace}
    assert listed == set(getattr(br, namespace).__all__)


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("svd", "br.svd is br.linalg.svd"),
        ("prelu", "br.prelu is br.layers.prelu"),
        ("linalg.matmul", "br.linalg.matmul is br.matmul"),
        ("losses.squared_error", "br.losses.squared_error is br.squared_error"),
        ("special.expit", "br.sigmoid"),
        ("list_append", "br.lists.append"),
        ("optimizer.clip", "br.optimizer.clip_by_value"),
    ],
)
def test_the_error_of_a_moved_name_has_its_new_home(path: str, home: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(home)):
        attrgetter(path)(br)


def test_the_page_of_namespaces_names_every_module_and_nothing_else() -> None:
    page = Path(__file__).parents[1] / "docs/tables/namespaces.md"
    named = {*re.findall(r"`(br(?:\.\w+)*)", page.read_text(encoding="utf-8"))}
    assert named >= PLACES.keys()
    for path in named - {"br", "br.svd"}:
        assert attrgetter(path.removeprefix("br."))(br)


GONE = """
    SymbolTable OperatorFunction add_decayed_weights add_momentum apply_updates case_of
    clip_by_global_norm clip_by_value cosine_decay_schedule exponential_decay_schedule getitem
    next_count piecewise_constant_schedule polynomial_schedule put_along_axis_add
    scale_by_adadelta scale_by_adam scale_by_adamax scale_by_amsgrad scale_by_belief
    scale_by_learning_rate scale_by_lion scale_by_radam scale_by_rms scale_by_rss
    scale_by_stddev scale_by_trust_ratio schedule setitem_add warmup_cosine_schedule window
    window_add
"""


@pytest.mark.parametrize("name", GONE.split())
def test_names_that_were_there_once_say_what_to_type(name: str) -> None:
    with pytest.raises(AttributeError, match=r"Use \S+| is br\.\w"):
        getattr(br, name)


def test_internal_operators_are_no_functions_and_say_what_to_type() -> None:
    internal = [d.type for d in OPS.definitions.values() if not d.function]
    unanswered = [name for name in internal if not habit_of(name) and not find_homes(name)]
    assert {"getitem", "window", "case_of", "setitem_add"} <= set(internal)
    assert unanswered == []
    assert not {*internal} & FUNCTIONS.keys()
