"""Names that errors suggest: close in spelling or meaning, or none at all."""

from __future__ import annotations

import pytest

import braces as br
from braces.errors import close_names, did_you_mean, suggest
from braces.exchange.paddle.rules import RULES as PADDLE
from braces.exchange.torch.reader import advice_for
from braces.exchange.torch.rules import RULES as TORCH
from braces.extend.operators import OPS

CLOSE = {
    "a letter is missing": ("los", "loss"),
    "a letter is too many": ("xx", "x"),
    "a letter is another": ("weighz", "weight"),
    "two letters are swapped": ("bais", "bias"),
    "case": ("Loss", "loss"),
    "camel case": ("HardSwish", "hard_swish"),
    "separators": ("fcw", "fc.w"),
    "a separator is another": ("fc1/w", "fc1.w"),
    "plural": ("label", "labels"),
    "a word of the same meaning": ("fc1.weight", "fc1.w"),
    "another name of the operator": ("concatenate", "concat"),
    "a prefix is missing": ("w", "encoder/fc1.w"),
    "another number": ("fc1.w", "fc2.w"),
    "letters that are not of English": ("权重", "权重1"),
}
FAR = {
    "an overload of all": ("i0.default", "where"),
    "short names": ("lr", "gt"),
    "one letter": ("y", "x"),
    "half of the letters": ("mode", "where"),
    "another root": ("mode", "mean"),
    "another word": ("polygamma", "logsumexp"),
    "a common ending": ("special_erfcx", "special_expit"),
    "a common beginning": ("fc1.w", "fc1.scale"),
    "letters that are not of English": ("权重x", "x"),
}


@pytest.mark.parametrize("pair", CLOSE.values(), ids=CLOSE)
def test_a_name_that_is_close_is_suggested(pair: tuple[str, str]) -> None:
    given, wanted = pair
    assert close_names(given, [wanted, "something/else"]) == [wanted]


@pytest.mark.parametrize("pair", FAR.values(), ids=FAR)
def test_a_name_that_is_not_close_is_not_suggested(pair: tuple[str, str]) -> None:
    given, other = pair
    assert did_you_mean(given, [other]) == ""
    assert "Did you mean" not in suggest(given, [other])


def test_names_of_the_same_meaning_come_first_and_three_at_most() -> None:
    names = ["fc1.w", "fc2.weight", "fc3.weight", "fc4.weight", "fc1.wight"]
    near = close_names("fc1.weight", names)
    assert near[0] == "fc1.w"
    assert len(near) == 3


def test_few_names_are_listed_and_many_are_counted() -> None:
    assert suggest("q", []) == "None are available."
    assert suggest("hidden", ["loss", "lr"]) == "Available: `loss`, `lr`."
    many = [f"variable_{n}" for n in range(40)]
    assert suggest("hidden", many) == "40 names are available; none is similar."


@pytest.mark.parametrize("name", ["quantize_per_tensor.default", "to_sparse.default"])
def test_a_refusal_of_an_operator_of_torch_suggests_no_other_operator(name: str) -> None:
    assert advice_for(name) == "Use other operators of torch."


def test_a_misspelt_operator_is_suggested_in_every_table() -> None:
    """Every name with one letter less leads to itself, and no name leads to `default`."""
    tables = {
        "braces": list(OPS.definitions),
        "paddle": list(PADDLE),
        "torch": [name for name in TORCH if "." not in name],
    }
    for table, names in tables.items():
        for name in (one for one in names[::7] if len(one) > 4):
            near = close_names(name[:2] + name[3:], names)
            assert name in near, (table, name)


def test_names_of_braces_that_do_not_exist_suggest_what_is_close() -> None:
    with pytest.raises(AttributeError, match=r"See dir\(braces\)"):
        br.quaternion  # noqa: B018
    with pytest.raises(AttributeError, match="Did you mean `softmax`"):
        br.sofmax  # noqa: B018
