"""Two trainings in a `zip` over one scope resume with the same bits from one folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from tests.fitting.nets import bits, shared_executor
from tests.fitting.test_scenarios import player

ROOT = Path(__file__).parents[2]
EPOCHS, LENGTH, CRITIC = 2, 8, 6
"""The epochs; the batches of an epoch of the first training, and of the second."""


@cache
def players() -> tuple[br.Program, br.Program]:
    return player("a", "b"), player("b", "a")


def pulls(seed: int, count: int) -> br.Batches:
    x = np.random.default_rng(seed).normal(size=3 * count).astype("float32")
    return br.batches({"pull": x}, 3, seed=seed)


def pair(folder: Path | None, mode: str = "compile", **options: Any) -> tuple[Any, Any]:
    """Two trainings by turns, whose data sets have epochs of other lengths."""
    first, second = players()
    exe = shared_executor(mode)
    one = br.training(first, pulls(1, LENGTH), epochs=EPOCHS, folder=folder, exe=exe, **options)
    two = br.training(second, pulls(2, CRITIC), epochs=9, beside=one, seed=3)
    assert two.scope is one.scope
    return one, two


def play(one: Any, two: Any, stop: int = 0, act: Any = None) -> None:
    for left, right in zip(one, two, strict=False):
        assert left.number == right.number
        if left.number == stop:
            if act is None:
                break
            act()


def whole(mode: str = "compile") -> str:
    one, two = pair(None, mode)
    play(one, two)
    assert (one.position.step, two.position.step) == (16, 16)
    return bits(one.scope)


def fail() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("mode", ["compile", "interpret"])
@pytest.mark.parametrize("act", [None, fail])
def test_both_resume_after_a_break_or_an_error_at_any_step(
    tmp_path: Path, mode: str, act: Any
) -> None:
    reached = 0
    for stop in (1, 5, 6, 8, 9, 12, 15):
        one, two = pair(tmp_path, mode)
        assert (one.resumed or 0) == (two.resumed or 0) == reached
        with suppress(ZeroDivisionError):
            play(one, two, stop, act)
        reached = stop
    one, two = pair(tmp_path, mode)
    play(one, two)
    assert bits(one.scope) == whole(mode)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.fitting.test_turns import pair, play
one, two = pair(Path(sys.argv[1]), save_every=2)
play(one, two, int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_both_resume_after_a_kill(tmp_path: Path) -> None:
    for kill in (5, 11):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(kill)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    one, two = pair(tmp_path)
    assert one.resumed == two.resumed
    assert one.resumed >= 8
    play(one, two)
    assert bits(one.scope) == whole()


def critic(one: Any, two: Any, stop: int = 0) -> None:
    """Two steps of the second for each of the first."""
    turns = iter(two)
    for step in one:
        next(turns)
        next(turns)
        if step.number == stop:
            break
    turns.close()


def test_several_steps_of_the_second_for_each_of_the_first(tmp_path: Path) -> None:
    for stop in (3, 8, 11, 0):
        one, two = pair(tmp_path)
        assert (two.resumed or 0) == 2 * (one.resumed or 0)
        critic(one, two, stop)
    plain = pair(None)
    critic(*plain)
    assert bits(one.scope) == bits(plain[0].scope)  # pyright: ignore[reportPossiblyUnboundVariable]


def test_an_error_in_the_turn_of_the_second_saves_no_half_round(tmp_path: Path) -> None:
    first, second = players()
    exe = shared_executor()
    batches: list[Any] = list(pulls(2, 16).epoch(0))
    bad = [*batches[:4], {"pull": np.zeros((3, 3))}, *batches[5:]]

    def run(feeds: list[Any]) -> Any:
        one = br.training(first, pulls(1, LENGTH), epochs=2, folder=tmp_path, exe=exe)
        two = br.training(second, feeds, beside=one, ahead=0)
        play(one, two)
        return one

    with pytest.raises(br.FeedError):
        run(bad)
    resumed = run(batches)
    assert (resumed.resumed or 0) in (0, 4)
    plain = br.training(first, pulls(1, LENGTH), epochs=2, exe=exe)
    play(plain, br.training(second, batches, beside=plain))
    assert bits(resumed.scope) == bits(plain.scope)


# ---- bad input -------------------------------------------------------------------------------


def test_the_training_with_the_folder_is_the_first_of_the_zip(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    with pytest.raises(br.ProgramError, match="began before") as caught:
        play(two, one)
    assert "zip(one, two)" in str(caught.value)
    assert br.Checkpoint(tmp_path).steps == []


def test_two_folders_over_one_scope_are_refused(tmp_path: Path) -> None:
    first, second = players()
    one = br.training(first, pulls(1, LENGTH), folder=tmp_path / "one")
    two = br.training(second, pulls(2, LENGTH), folder=tmp_path / "two", scope=one.scope)
    with pytest.raises(br.ProgramError, match="take turns over one scope") as caught:
        play(one, two)
    assert "beside=one" in str(caught.value)
    for _ in two:  # alone it may
        pass


def test_other_trainings_than_those_of_the_checkpoint_are_refused(tmp_path: Path) -> None:
    play(*pair(tmp_path), stop=3)
    first, second = players()
    one = br.training(first, pulls(1, LENGTH), epochs=EPOCHS, folder=tmp_path)
    with pytest.raises(br.ProgramError, match="has 1 trainings beside this one; expected 0"):
        next(iter(one))
    one, _ = pair(tmp_path)
    with pytest.raises(br.ProgramError, match="has 1 trainings beside this one; expected 2"):
        br.training(second, pulls(2, CRITIC), beside=one)
    one = br.training(first, pulls(1, LENGTH), epochs=EPOCHS, folder=tmp_path)
    with pytest.raises(br.ProgramError, match="seed was 3, is 4"):
        br.training(second, pulls(2, CRITIC), beside=one, seed=4)
    assert br.Checkpoint(tmp_path).steps == [3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"folder": "x"}, "`folder` cannot be combined with `beside`"),
        ({"scope": br.Scope()}, "`scope` cannot be combined"),
        ({"fresh": True, "folder": "x"}, "`folder`, `fresh` cannot be combined"),
        ({"beside": 3}, "expected a training for `beside`, got 3"),
    ],
)
def test_options_of_the_other_training_are_refused(options: dict[str, Any], words: str) -> None:
    one, _ = pair(None)
    with pytest.raises(br.ProgramError, match=words):
        br.training(players()[1], pulls(2, CRITIC), **({"beside": one} | options))
