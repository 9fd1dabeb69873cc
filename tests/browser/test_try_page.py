"""The page of `br.serve` in a real browser: drawing, numbers, text, errors, token, layout."""

from __future__ import annotations

import json
import math
import shlex
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect
from sklearn.datasets import load_digits

import braces as br
from tests.browser.chromium import Browser, chromium

HOSTILE = "<script>document.title='ill'</script><img src=x onerror=\"document.title='ill'\">"
LONG = "long" * 25
TOKEN = "a-token-of-the-test-0123"
FITS = "document.documentElement.scrollWidth <= window.innerWidth"
WIDE: Any = {"width": 1280, "height": 900}
NARROW: Any = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    """A tab that reaches this machine."""
    with chromium(online=True, size=WIDE) as browser:
        yield browser


def save(path: Path, prog: br.Program, feeds: list[str], fetches: Any, **more: Any) -> Path:
    scope = br.Executor().init(prog, br.Scope())
    br.save_model(path, prog, scope, feeds, fetches, **more)
    return path


def save_digits(path: Path) -> Path:
    """Train on digits moved by a pixel, since a hand does not center what it draws."""
    digits = cast("Any", load_digits())
    images = (digits.data / 16).astype("float32").reshape(-1, 8, 8)
    images = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    moved = [images[:, i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
    with br.Program() as prog:
        image, digit = br.data("image", ["n", 8, 8]), br.data("digit", ["n"], dtype="int32")
        hidden = br.fc(br.reshape(image, ["n", 64]), 64, act="relu", name="hidden")
        logits = br.fc(hidden, 10, name="out")
        loss = br.softmax_cross_entropy(logits, digit)
        br.optimizer.adam(3e-3).minimize(loss)
    data = {"image": np.concatenate(moved), "digit": np.tile(digits.target, 9).astype("int32")}
    run = br.fit(prog, br.batches(data, 128), epochs=4, callbacks=[])
    br.save_model(path, prog, run.scope, ["image"], {"logits": logits})
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model files: digits, numbers, ids, and long names."""
    folder = tmp_path_factory.mktemp("models")
    with br.Program() as affine:
        y = br.data("x", ["n", 3]) * 2.0 + br.data("shift", [])
    with br.Program() as ids:
        text = br.data("text", ["n", "length"], dtype="int32")
        counts = br.sum(br.one_hot(text, 128), axis=1)
    with br.Program() as noted:
        image, words = br.data("image", ["n", 8, 8]), br.data("words", ["n"], dtype="int32")
        scores = br.fc(br.reshape(image, ["n", 64]), 3, name="scores")
        best = br.cast(br.argmax(scores, axis=1), "int32")
    metadata = {
        "classes": {"scores": ["cat", "dog", HOSTILE], "best": ["cat", "dog", HOSTILE]},
        "vocabulary": {"words": ["a", "bc"]},
        "ranges": {"image": [0, 16]},
        "description": f"A model of pets. {HOSTILE}",
        "license": "Apache-2.0",
    }
    with br.Program() as long:
        twice = br.data(LONG, ["n"]) * 2.0
    with br.Program() as alphabet:

        def step(letter: Any) -> Any:
            return {"letters": letter + 1}, {"letter": letter + 1}

        letter = br.data("letter", ["n"], dtype="int32")
        letters = br.decoding.generation_loop(step, {"letter": letter})
    return {
        "alphabet": save(folder / "alphabet.model", alphabet, ["letter", "steps"], letters),
        "digits": save_digits(folder / "digits.model"),
        "affine": save(folder / "affine.model", affine, ["x", "shift"], {"y": y}),
        "ids": save(folder / "ids.model", ids, ["text"], {"ids": text + 0, "counts": counts}),
        "noted": save(
            folder / "noted.model",
            noted,
            ["image", "words"],
            {"scores": scores, "best": best, "words": words + 0},
            metadata=metadata,
        ),
        LONG: save(folder / "long.model", long, [LONG], {LONG: twice}),
    }


@pytest.fixture
def opened(tab: Browser, models: dict[str, Path]) -> Iterator[Callable[..., Page]]:
    """Serve models, and open the page."""
    servers: list[Any] = []

    def open_page(*names: str, **options: Any) -> Page:
        given = {name: models[name] for name in names}
        servers.append(br.serve(given, port=0, max_batch=2, **options).__enter__())
        tab.complaints.clear()
        tab.requests.clear()
        tab.page.goto(servers[-1].wait_ready().url + "/")
        return tab.page

    yield open_page
    tab.page.goto("about:blank")
    for server in servers:
        server.close()


def drag(page: Page, points: list[tuple[float, float]]) -> None:
    """Draw a line through points, which are parts of the canvas."""
    box = page.locator("canvas.paper").bounding_box()
    assert box is not None
    for index, (x, y) in enumerate(points):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        if index == 0:
            page.mouse.down()
    page.mouse.up()


RING = [
    (0.5 + 0.24 * math.sin(angle / 12 * math.tau), 0.5 - 0.38 * math.cos(angle / 12 * math.tau))
    for angle in range(13)
]


def fill(page: Page, name: str, text: str) -> None:
    page.locator(f'fieldset[data-input="{name}"] textarea').first.fill(text)


def test_a_drawn_digit_has_the_right_class_first(
    opened: Callable[..., Page], tab: Browser
) -> None:
    page = opened("digits")
    expect(page.locator("h2")).to_have_text("digits")
    expect(page.locator("legend")).to_have_text("image FP32 [?, 8, 8]")
    drag(page, RING)
    page.get_by_role("button", name="Send").click()
    bars = page.locator(".bars li")
    expect(bars).to_have_count(10)
    expect(bars.first.locator(".class")).to_have_text("class 0")
    expect(page.locator(".time")).to_contain_text(" ms")
    page.get_by_role("button", name="Clear").click()
    drag(page, [(0.36, 0.25), (0.5, 0.1), (0.5, 0.92)])
    page.get_by_role("button", name="Send").click()
    expect(bars.first.locator(".class")).to_have_text("class 1")
    assert tab.complaints == []


def test_the_shown_command_sends_the_same_request(opened: Callable[..., Page]) -> None:
    page = opened("digits")
    drag(page, RING)
    page.get_by_role("button", name="Send").click()
    words = shlex.split(page.locator("pre.curl").inner_text().replace("\\\n", " "))
    url, body = words[1], words[words.index("-d") + 1]
    with urllib.request.urlopen(url, body.encode()) as answer:
        (output,) = json.load(answer)["outputs"]
    assert int(np.argmax(output["data"])) == 0
    (entry,) = json.loads(body)["inputs"]
    assert entry["shape"] == [1, 8, 8]
    assert 0 < max(entry["data"]) <= 1


def test_the_range_of_values_and_their_form_as_numbers(opened: Callable[..., Page]) -> None:
    page = opened("digits")
    drag(page, [(0.0, 0.4375), (1.0, 0.4375)])
    page.get_by_label("white").fill("16")
    page.get_by_text("Numbers", exact=True).click()
    rows = np.array(page.evaluate("JSON.parse(document.querySelector('textarea').value)"))
    assert rows.shape == (1, 8, 8)
    assert rows.max() == 16
    assert rows[0, 0].max() == 0


def test_a_finger_draws(opened: Callable[..., Page], tab: Browser) -> None:
    url = opened("digits").url
    assert tab.page.context.browser
    with tab.page.context.browser.new_context(viewport=NARROW, has_touch=True) as context:
        page = context.new_page()
        page.goto(url)
        page.locator("canvas.paper").tap(position={"x": 100, "y": 60})
        page.get_by_text("Numbers", exact=True).click()
        values = page.evaluate("JSON.parse(document.querySelector('textarea').value).flat(2)")
    assert max(values) > 0.5
    assert sum(value > 0 for value in values) < 10


def test_numbers_are_typed_and_shown_as_a_table(opened: Callable[..., Page]) -> None:
    page = opened("affine")
    fill(page, "x", "[[1, 2, 3], [4, 5, 6]]")
    fill(page, "shift", "0.5")
    page.locator("textarea").last.press("Control+Enter")
    scores = page.locator('[data-output="y"]')
    expect(scores.locator("h3")).to_have_text("y FP32 [2, 3]")
    expect(scores.locator(".scores")).to_have_count(2)
    page.get_by_role("button", name="Random").first.click()
    page.get_by_role("button", name="Zeros").last.click()
    page.get_by_role("button", name="Send").click()
    expect(scores.locator("h3")).to_have_text("y FP32 [1, 3]")


def test_typed_text_is_sent_as_ids(opened: Callable[..., Page]) -> None:
    page = opened("ids")
    page.get_by_text("Text", exact=True).click()
    fill(page, "text", "abca")
    page.get_by_role("button", name="Send").click()
    expect(page.locator('[data-output="ids"] td')).to_have_text(["97", "98", "99", "97"])
    page.get_by_label("Token ids of text").select_option("list")
    page.get_by_label("Vocabulary of text").fill('["a", "bc"]')
    page.get_by_role("button", name="Send").click()
    expect(page.locator('[data-output="ids"] td')).to_have_text(["0", "1", "0"])
    fill(page, "text", "abx")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("fieldset .problem")).to_contain_text('no token for "b"')


def test_metadata_names_classes_tokens_and_ranges(
    opened: Callable[..., Page], tab: Browser
) -> None:
    page = opened("noted")
    expect(page.locator(".note").first).to_have_text(f"A model of pets. {HOSTILE}")
    expect(page.locator(".note").last).to_have_text("License: Apache-2.0")
    expect(page.get_by_label("white")).to_have_value("16")
    drag(page, RING)
    expect(page.get_by_label("Token ids of words")).to_have_value("model")
    fill(page, "words", "bc")
    page.get_by_role("button", name="Send").click()
    expect(page.locator('[data-output="words"] td')).to_have_text(["1"])
    classes = page.locator('[data-output="scores"] .class')
    assert {*classes.all_inner_texts()} == {"cat", "dog", HOSTILE}
    best = classes.first.inner_text()
    expect(page.locator('[data-output="best"] td')).to_contain_text(best)
    page.get_by_text("Metadata", exact=True).click()
    expect(page.locator(".model pre").first).to_contain_text('"license": "Apache-2.0"')
    check_nothing_ran(page)
    assert tab.complaints == []


def test_generated_text_streams_in(opened: Callable[..., Page], tab: Browser) -> None:
    page = opened("alphabet")
    page.get_by_text("Text", exact=True).click()
    fill(page, "letter", "a")
    page.get_by_label("Most tokens").fill("12")
    page.get_by_role("button", name="Generate").click()
    expect(page.locator(".stream")).to_have_text("bcdefghijklm")
    expect(page.locator(".time")).to_contain_text("12 tokens in")
    expect(page.locator("pre.curl")).to_contain_text("curl -N")
    page.get_by_label("Stop at ids").fill("101, 99")
    page.get_by_text("Numbers", exact=True).click()
    fill(page, "letter", "[97]")
    page.get_by_role("button", name="Generate").click()
    expect(page.locator(".stream")).to_have_text("98 99")
    page.get_by_label("Most tokens").fill("100000")
    page.get_by_role("button", name="Generate").click()
    expect(page.locator(".result .problem")).to_contain_text("invalid `max_tokens`")
    page.get_by_text("Single run").click()
    fill(page, "letter", "[97]")
    fill(page, "steps", "3")
    page.get_by_role("button", name="Send").click()
    expect(page.locator('[data-output="letters"] td')).to_have_text(["98", "99", "100"])
    tab.complaints.clear()


def test_a_stream_can_be_stopped(opened: Callable[..., Page], tab: Browser) -> None:
    page = opened("alphabet", max_tokens=2_000_000)
    fill(page, "letter", "[0]")
    page.get_by_label("Most tokens").fill("2000000")
    page.get_by_role("button", name="Generate").click()
    expect(page.locator(".stream")).to_contain_text("1 2 3 4")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".result .problem")).to_contain_text("The request was stopped.")
    expect(page.locator(".stream")).to_contain_text("1 2 3 4")
    expect(page.get_by_role("button", name="Generate")).to_be_enabled()
    assert tab.complaints == []


def test_errors_are_shown_in_words(opened: Callable[..., Page], tab: Browser) -> None:
    page = opened("affine")
    fill(page, "x", "[[1, 2]]")
    page.get_by_role("button", name="Send").click()
    problem = page.locator(".result .problem")
    expect(problem).to_contain_text("The server refused the request.")
    expect(problem).to_contain_text("expected FP32[n,3] for input `x`, got shape [1, 2]")
    fill(page, "x", "[[1, 2")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("fieldset .problem").first).to_contain_text("Expected JSON")
    page.route("**/infer", lambda route: route.abort())
    fill(page, "x", "[1, 2, 3]")
    page.get_by_role("button", name="Send").click()
    expect(problem).to_contain_text("The server does not answer.")
    page.unroute("**/infer")
    tab.complaints.clear()


def test_answers_of_a_hostile_server_are_text(
    opened: Callable[..., Page], tab: Browser
) -> None:
    page = opened("affine")
    tensor = {"name": HOSTILE, "datatype": HOSTILE, "shape": [HOSTILE]}
    model = {"name": HOSTILE, "version": HOSTILE, "state": HOSTILE, "reason": HOSTILE}
    metadata = {"name": HOSTILE, "versions": [HOSTILE], "platform": HOSTILE}
    answer = {"outputs": [{**tensor, "shape": [1], "data": [HOSTILE]}]}
    answers = {
        "**/v2": {"name": HOSTILE, "version": HOSTILE},
        "**/v2/models": [model],
        "**/versions/*": {**metadata, "inputs": [tensor], "outputs": [tensor]},
        "**/infer": answer,
    }
    for address, value in answers.items():
        page.route(address, answering(value))
    page.reload()
    expect(page.locator("h2")).to_have_text(HOSTILE)
    page.locator("textarea").fill("[1]")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".output td")).to_have_text(HOSTILE)
    page.route("**/infer", lambda route: route.fulfill(status=400, json={"error": HOSTILE}))
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".result .problem")).to_contain_text(HOSTILE)
    check_nothing_ran(page)
    page.unroute_all()
    tab.complaints.clear()


def answering(value: Any) -> Callable[[Route], None]:
    return lambda route: route.fulfill(json=value)


def check_nothing_ran(page: Page) -> None:
    assert page.title() != "ill"
    assert page.locator("main img, nav img, main script, nav script").count() == 0


def test_a_token_is_asked_for_and_kept_in_memory(
    opened: Callable[..., Page], tab: Browser
) -> None:
    page = opened("affine", token=TOKEN)
    expect(page.locator(".page-problem")).to_contain_text("The server needs its token.")
    page.locator(".token").fill("wrong-token-of-the-test")
    page.get_by_role("button", name="Use").click()
    expect(page.locator(".page-problem")).to_contain_text("missing or wrong token")
    page.locator(".token").fill(TOKEN)
    page.get_by_role("button", name="Use").click()
    expect(page.locator("h2")).to_have_text("affine")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("pre.curl")).to_contain_text('"Authorization: Bearer $TOKEN"')
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert TOKEN not in page.url + page.locator("body").inner_text()
    page.reload()
    expect(page.locator(".page-problem")).to_contain_text("The server needs its token.")
    tab.complaints.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_page_fits_the_window_in_both_color_schemes(
    opened: Callable[..., Page], tab: Browser, scheme: Any, size: Any, tmp_path: Path
) -> None:
    tab.page.set_viewport_size(size)
    tab.page.emulate_media(color_scheme=scheme)
    page = opened("digits", "affine", "ids", "noted", LONG)
    color = "getComputedStyle(document.body).backgroundColor"
    assert (
        page.evaluate(color)
        == {"light": "rgb(251, 251, 250)", "dark": "rgb(21, 24, 28)"}[scheme]
    )
    for name in ("affine", "ids", LONG, "noted", "digits"):
        page.locator(f'[data-model="{name}"]').click()
        expect(page.locator("h2")).to_have_text(name)
        if name == "noted":
            fill(page, "words", "a")
        page.get_by_role("button", name="Send").click()
        expect(page.locator("pre.curl")).to_be_visible()
        assert page.evaluate(FITS), name
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
    assert {url.split("/")[2] for url in tab.requests} == {page.url.split("/")[2]}
    assert tab.complaints == []
    tab.page.set_viewport_size(WIDE)
    tab.page.emulate_media(color_scheme="light")
