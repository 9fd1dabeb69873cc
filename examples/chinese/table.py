"""Comparison of the models with Paddle, and their outputs, for `docs/tables/chinese_words.md`.

Paddle needs another version of NumPy than JAX: `PADDLE_PYTHON` is the Python of an environment
with paddlepaddle 2.6.2.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from braces.ir.walk import all_ops
from examples.chinese.fetch import FOLDER, VERSION, get
from examples.chinese.lac import Lac, Net, weights

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tables" / "chinese_words.md"
TEXTS = (
    "百度是一家高科技公司",
    "LAC是个优秀的分词工具",
    "程序是数据，循环是一个算子。",
    "我们昨天在北京的图书馆里读了三本关于语言的书",
    "张三和李四明天早上八点坐火车去上海",
    "春天来了，公园里的花都开了",
    "他在2020年发布了这个模型，今天它还能运行",
    "好",
    "如果明天下雨，我们就待在家里看一部老电影，然后一起做晚饭",
)  # fmt: skip
HEAD = """# Chinese words

[The example](../../examples/chinese) imports the three models of LAC {version} (Baidu, 2020)
with `br.from_paddle`, as their package ships them: `__model__` and one file per array,
written by fluid 1.x, with sequences as a LoD. These commands write this page:

    python -m examples.chinese fetch
    PADDLE_PYTHON=/path/to/python python -m examples.chinese agree

That Python has paddlepaddle 2.6.2, whose predictor reads the same files.

## Values

The batch has {count} sentences and {random} random sequences of 1 to 60 ids.

| model | operators | parameters | labels | equal to Paddle's |
|---|---|---|---|---|
"""
SAID = """
## Outputs

Each word is followed by its part of speech (`lac`) and its weight (`rank`). The concatenated
words are the sentence.

| words by `seg` | words by `lac` and `rank` |
|---|---|
"""
RANDOM = 40


def by_paddle(
    folder: Path, names: Sequence[str], *rows: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Paddle's predictions for the same numbers.

    Raises:
        OSError: If `PADDLE_PYTHON` is not a Python executable.
    """
    script = Path(__file__).with_name("by_paddle.py")
    lengths = [len(row) for row in rows[0]]
    arrays = {
        name: np.concatenate([np.asarray(row, np.int64) for row in given])
        for name, given in zip(names, rows, strict=True)
    }
    with tempfile.TemporaryDirectory() as place:
        given, out = Path(place) / "given.npz", Path(place) / "out.npz"
        np.savez(given, lengths=lengths, **arrays)
        command = [os.environ.get("PADDLE_PYTHON", ""), script, folder, given, out]
        subprocess.run(command, check=True, capture_output=True)
        labels = np.load(out)["labels"].ravel()
    return [part.tolist() for part in np.split(labels, np.cumsum(lengths)[:-1])]


def row(kind: str, folder: Path, numbers: Sequence[Sequence[int]]) -> str:
    """The comparison of one model."""
    place = get(kind, folder) / "model"
    net, given = Net.read(place), [numbers]
    if kind == "rank":  # it reads what the other one says
        given.append(Net.read(get("lac", folder) / "model").labels(numbers))
    names = net.program.feeds[::2]
    ours, other = net.labels(*given), by_paddle(place, names, *given)
    sides = [np.concatenate(labels) for labels in (ours, other)]
    equal = int(np.sum(sides[0] == sides[1]))
    operators = sum(1 for _ in all_ops(net.program.definition.main))
    held = sum(net.scope.find_var(name).value.size for name in net.scope.names())
    return f"| {kind} | {operators} | {held:,} | {len(sides[0]):,} | {equal:,} |"


def page(folder: Path = FOLDER) -> str:
    """The whole page."""
    rng = np.random.default_rng(0)
    rows = list[str]()
    for kind in ("seg", "lac", "rank"):
        lac = Lac.read("seg" if kind == "seg" else "lac", folder)
        numbers = [[lac.tables.number(part) for part in lac.split(text)] for text in TEXTS]
        most = max(lac.tables.numbers.values()) + 1
        numbers += [rng.integers(0, most, n).tolist() for n in rng.integers(1, 61, RANDOM)]
        rows.append(row(kind, folder, numbers))
    head = HEAD.format(version=VERSION, count=len(TEXTS), random=RANDOM)
    return head + "".join(f"{line}\n" for line in rows) + SAID + "".join(said(folder))


def said(folder: Path) -> list[str]:
    """The outputs of the models for each sentence."""
    lac, rank = Lac.read("lac", folder), Net.read(get("rank", folder) / "model")
    cut = (" ".join(word for word, _ in row) for row in Lac.read("seg", folder).words(TEXTS))
    both = zip(cut, lac.words(TEXTS), weights(lac, rank, TEXTS), strict=True)
    return [f"| {text} | {shown(words, ranked)} |\n" for text, words, ranked in both]


def shown(words: Sequence[tuple[str, str]], ranked: Sequence[tuple[str, int]]) -> str:
    """Words with their classes and their importance."""
    both = zip(words, ranked, strict=True)
    return " ".join(f"{word}/{kind}/{weight}" for (word, kind), (_, weight) in both)
